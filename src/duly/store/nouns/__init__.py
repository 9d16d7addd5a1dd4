"""The nouns of the store: what callers may ask, as classes with one method for each verb.

A reading verb holds its operation, or names it. A verb that changes something adds what is the same
for all: numbers for new rows, a second try when they run out, the entry in the audit log, and a
nudge after the commit, so that services and workers do not sleep too long.
"""
