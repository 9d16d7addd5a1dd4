"""The nouns of ``protocol``, over operations.

What a noun does is an operation from the file of that name; what is added here is the same for all:
numbers for new rows, a second try when they run out, and, after the commit, a nudge for those who
may sleep too long otherwise.
"""
