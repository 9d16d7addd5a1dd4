"""Policies: pure functions that take facts and a moment and return a decision."""
