"""APScheduler 4, an alpha, on PostgreSQL. ``make setup`` installs it apart from APScheduler 3."""

import os
from pathlib import Path
from typing import ClassVar

from benchmarks.queue.contestants.apscheduler3 import APScheduler3Postgres
from benchmarks.queue.crew import ROOT, program

INSTALLED = ROOT / ".venv" / "apscheduler4"

if not INSTALLED.exists():
    raise ModuleNotFoundError(name="apscheduler 4")


class APScheduler4(APScheduler3Postgres):
    name: ClassVar[str] = "APScheduler 4"

    def worker(self) -> list[str]:
        return program("apscheduler4")

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join(map(str, [INSTALLED, Path(ROOT)]))}


SCHEDULERS = (APScheduler4,)
