"""Recurrences as calendars exchange them: RFC 5545."""

from duly.rules.recurrence.recurrence import rrule

__all__ = ["rrule"]
