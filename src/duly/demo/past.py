"""Yesterday in the shop: a day that has passed when somebody looks at the demo for the first time.

It is lived through by the parts that a real day is lived through by, in a second, on a clock that
jumps. In the night, nobody was running for an hour.
"""

from datetime import timedelta
from pathlib import Path
from typing import Final

from duly.clock import now
from duly.demo import duly
from duly.rehearse.simulation import Lived, live_through

DAY: Final = timedelta(hours=26)
OUTAGE: Final = (timedelta(hours=9), timedelta(hours=7, minutes=50))  # so long ago, from and to
# What takes how long; the others are too frequent to be lived through in a second.
RUNTIMES: Final = {
    "nightly_report": timedelta(minutes=3),
    "invoices": timedelta(seconds=50),
    "stock": timedelta(seconds=20),
    "rollup_eu": timedelta(minutes=4),
}


async def make_past(file: Path) -> None:
    """Make a store in which a day has passed."""
    announced = duly.announcement()
    plans = [] if announced is None else [one.plan for one in announced.wanted]
    end = now().replace(microsecond=0)
    lived = [
        Lived(plan=plan, runtime=RUNTIMES[plan.name]) for plan in plans if plan.name in RUNTIMES
    ]
    outage = (end - OUTAGE[0], end - OUTAGE[1])
    await live_through(str(file), lived, start=end - DAY, end=end, outage=outage)
