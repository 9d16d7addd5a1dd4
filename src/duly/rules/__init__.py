"""Rules about time, exact to the microsecond, across every clock change.

>>> from duly.rules import parse
>>> rule = parse("Mon..Fri 09:00 Europe/Berlin")
>>> rule.explain()
'Weekdays at 09:00 Europe/Berlin.'
"""

from duly.durations import parse_duration, say_duration, show_duration
from duly.errors import RuleError
from duly.rules.budget import Budget
from duly.rules.calendar import calendar
from duly.rules.clock_changes import clock_change_notes
from duly.rules.cron import cron
from duly.rules.dates import dates, holiday_data_version, holidays
from duly.rules.event_rule import On, on
from duly.rules.interval import Spaced, every, spaced
from duly.rules.modifiers import bounded, delay_of, delayed, jitter, lasting, spread
from duly.rules.once import at
from duly.rules.parse import parse
from duly.rules.recurrence import rrule
from duly.rules.rule import Rule
from duly.rules.zone import local_time, zone_data_version, zone_names

__all__ = [
    "Budget",
    "On",
    "Rule",
    "RuleError",
    "Spaced",
    "at",
    "bounded",
    "calendar",
    "clock_change_notes",
    "cron",
    "dates",
    "delay_of",
    "delayed",
    "every",
    "holiday_data_version",
    "holidays",
    "jitter",
    "lasting",
    "local_time",
    "on",
    "parse",
    "parse_duration",
    "rrule",
    "say_duration",
    "show_duration",
    "spaced",
    "spread",
    "zone_data_version",
    "zone_names",
]
