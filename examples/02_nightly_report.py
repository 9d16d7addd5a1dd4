"""A nightly report: for its own night, also if it is made up for in the morning.

A night on which nobody was running is made up for once (``missed="latest"``), unless four hours
have passed by then; a report that still runs is not started again (``overlap="skip"``). Both are
the defaults. On the two days on which the clocks change it runs once, too.
"""

from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

from duly import Duly

BERLIN = ZoneInfo("Europe/Berlin")

duly = Duly(zone="Europe/Berlin")


@dataclass
class Report:
    day: date
    sales: int


@duly.schedule("Mon..Fri 02:00", start_within="4h")
@duly.task(executor="process", timeout="1h")
def nightly_report() -> Report:
    due = duly.current().due_at.astimezone(BERLIN)  # 02:00, whatever the time is now
    return Report(day=due.date(), sales=42)
