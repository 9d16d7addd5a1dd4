"""Recurrences of RFC 5545 (iCalendar): RRULE, DTSTART, RDATE and EXDATE."""

from duly.rules.recurrence.recurrence import rrule

__all__ = ["rrule"]
