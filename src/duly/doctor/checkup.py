"""The doctor's rounds for a page that many look at: now and then, and never while somebody waits.

An examination may take long, and a page is made anew every second. So it is made in the background,
at most once in a while, and whoever looks is shown the last one, and when it was.
"""

import asyncio
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from duly.clock import boottime, now
from duly.doctor import Finding, examine
from duly.errors import DulyError
from duly.rules import zone_data_version
from duly.store.connect import place
from duly.store.protocol import Store
from duly.version import __version__

REST = 30.0  # seconds between two examinations
PATIENCE = 1.0  # seconds that the first who looks waits for one

_DATABASES = {"sqlite_version": "SQLite", "server_version": "PostgreSQL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What is here, and what the others have."""

    place: str  # of the store, without its password
    database: str = ""  # "SQLite 3.40.1"; empty: it is elsewhere, or cannot be asked
    duly: str = __version__
    python: str = field(default_factory=platform.python_version)
    zone_data: str = field(default_factory=zone_data_version)
    workers: Mapping[str, int] = field(default_factory=dict)  # how many have each version of duly
    zone_releases: Mapping[str, int] = field(default_factory=dict)  # of the schedules' next moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What was found, and when; ``trouble``: why nothing could be."""

    at: datetime
    findings: Sequence[Finding]
    versions: Versions
    trouble: str = ""

    def count(self, level: str) -> int:
        return sum(finding.level == level for finding in self.findings)

    def headline(self) -> str:
        if self.trouble:
            return "The store cannot be looked at."
        problems, warnings = self.count("problem"), self.count("warning")
        total = len(self.findings)
        if problems:
            return f"{problems} of {total} checks need{'s' * (problems == 1)} you."
        known = f"{warnings} of {total} checks {'is' if warnings == 1 else 'are'} worth knowing"
        return f"Nothing needs you; {known}." if warnings else f"All {total} checks are well."


class Rounds:
    """Made once in a process, for one store: it remembers the last examination."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._last: Checkup | None = None
        self._made_at = 0.0
        self._going_on: asyncio.Task[Checkup] | None = None

    async def look(self, store: Store) -> Checkup | None:
        """The last one; None: the first is still going on."""
        if self._going_on is None and (self._last is None or boottime() - self._made_at >= REST):
            self._going_on = asyncio.create_task(checkup(store, self._url))
        if self._going_on is not None:
            await asyncio.wait({self._going_on}, timeout=0 if self._last else PATIENCE)
            self._take()
        return self._last

    def _take(self) -> None:
        if self._going_on is not None and self._going_on.done():
            done, self._going_on = self._going_on, None
            if not done.cancelled():  # with the loop that it was begun on
                self._last, self._made_at = done.result(), boottime()


async def checkup(store: Store, url: str) -> Checkup:
    """Examine the store now."""
    try:
        findings = await examine(url)
        versions = await _versions(store, place(url))
    except DulyError as error:
        there = Versions(place=place(url))
        return Checkup(at=now(), findings=(), versions=there, trouble=str(error))
    return Checkup(at=now(), findings=findings, versions=versions)


async def _versions(store: Store, where: str) -> Versions:
    workers: dict[str, int] = {}
    for worker in await store.surroundings.living():
        version = worker.profile.version or "unknown"
        workers[version] = workers.get(version, 0) + 1
    return Versions(
        place=where,
        database=_database(await store.surroundings.settings()),
        workers=workers,
        zone_releases=await store.surroundings.zone_data(),
    )


def _database(settings: Mapping[str, str]) -> str:
    return next(
        (f"{name} {settings[key]}" for key, name in _DATABASES.items() if key in settings), ""
    )
