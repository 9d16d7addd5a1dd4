"""A past day for a new demo database.

The real scheduler and worker simulate it within a second, on a virtual clock. In the night no
scheduler was running for an hour.
"""

from datetime import timedelta
from pathlib import Path
from typing import Final

from duly.clock import now
from duly.demo import duly
from duly.rehearse.simulation import Lived, live_through

DAY: Final = timedelta(hours=26)
OUTAGE: Final = (timedelta(hours=9), timedelta(hours=7, minutes=50))  # ago, from and to
# Run times; the other schedules are too frequent to be simulated in a second.
RUNTIMES: Final = {
    "nightly_report": timedelta(minutes=3),
    "invoices": timedelta(seconds=50),
    "stock": timedelta(seconds=20),
    "rollup_eu": timedelta(minutes=4),
}


async def make_past(file: Path) -> None:
    """Create a database with one past day."""
    announced = duly.announcement()
    plans = [] if announced is None else [one.plan for one in announced.wanted]
    end = now().replace(microsecond=0)
    lived = [
        Lived(plan=plan, runtime=RUNTIMES[plan.name]) for plan in plans if plan.name in RUNTIMES
    ]
    outage = (end - OUTAGE[0], end - OUTAGE[1])
    await live_through(str(file), lived, start=end - DAY, end=end, outage=outage)
