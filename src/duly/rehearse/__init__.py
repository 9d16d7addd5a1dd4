"""Simulation (dry run) of a schedule.

No policy is implemented here. The plan is put into a store in memory, on a clock that jumps from
one event to the next; the scheduler's own decisions fire it, and a worker with unlimited slots
claims and settles its jobs. The result is read from that store's ledger.
"""

from duly.durations import usual_runtime
from duly.rehearse.simulation import (
    MOST_MOMENTS,
    KnownSchedule,
    continued,
    known_of,
    simulate,
    window_end,
)
from duly.rehearse.story import (
    ClockChange,
    Outage,
    Story,
    StoryAttempt,
    StoryMoment,
    Unended,
    WhatIf,
)

__all__ = [
    "MOST_MOMENTS",
    "ClockChange",
    "KnownSchedule",
    "Outage",
    "Story",
    "StoryAttempt",
    "StoryMoment",
    "Unended",
    "WhatIf",
    "continued",
    "known_of",
    "simulate",
    "usual_runtime",
    "window_end",
]
