"""An examination: all checks that apply to the store, in order; a failing check stops none.

A check only collects data, and leaves the judgement to a function without side effects. A check
that cannot be made is a finding too, because nothing is known then.
"""

import asyncio
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from duly.clock import Timeout, boottime, now
from duly.connection import open_store
from duly.doctor import checks, postgres, sqlite
from duly.doctor.checks import Check, Finding, Patient, problem
from duly.errors import DulyError, InvalidValue, StoreUnavailable
from duly.rules import zone_data_version
from duly.store.connect import connect, is_postgres, is_remote, place
from duly.store.store import SqlStore, Store
from duly.version import __version__

SECONDS: Final = 20.0  # for one check: longer than a store lets an answer take

# The surroundings of a store, checked even before it has tables.
_AROUND_SQLITE: Final[Mapping[str, Check]] = {
    "SQLite": sqlite.version,
    "file system": sqlite.file_system,
    "disk space": sqlite.disk_space,
    "writing": sqlite.writing,
}
_AROUND_POSTGRES: Final[Mapping[str, Check]] = {
    "PostgreSQL": postgres.by_settings(postgres.judge_version),
    "durability": postgres.by_settings(postgres.judge_durability),
    "connections": postgres.by_settings(postgres.judge_connections),
    "writing": postgres.by_settings(postgres.judge_writing),
    "listening": postgres.listening,
    "vacuum": postgres.by_settings(postgres.judge_vacuum),
}
_OF_TABLES: Final[Mapping[str, Check]] = {
    "clock": checks.clock,
    "zone data": checks.zone_data,
    "moments": checks.moments,
    "schedules": checks.schedules,
    "tasks": checks.tasks,
    "workers": checks.workers,
    "alerts": checks.alerts,
}
_OF_TABLES_BY_THE_DAY: Final[Mapping[str, Check]] = {
    "partitions": checks.partitions,
    **_OF_TABLES,
}


def check_names() -> list[str]:
    """Return the names of all checks, in the order in which they are made."""
    every = [*_AROUND_SQLITE, *_AROUND_POSTGRES, "schema", *_OF_TABLES_BY_THE_DAY]
    return list(dict.fromkeys(every))


async def examine(url: str) -> list[Finding]:
    """Examine an existing store. ``StoreUnavailable`` if it cannot be opened.

    Nothing is created or changed. Without tables, only their surroundings are examined; for a
    remote store, only the tables.
    """
    if url == ":memory:":
        raise InvalidValue(
            "an in-memory database exists in one process only; give the path of a file"
        )
    is_afar, served = is_remote(url), is_postgres(url)
    around = {**(_AROUND_POSTGRES if served else _AROUND_SQLITE), "schema": checks.schema}
    inside = _OF_TABLES_BY_THE_DAY if served or is_afar else _OF_TABLES
    store: Store = await (open_store(url) if is_afar else _opened(url))
    try:
        patient = Patient(url=url, store=store)
        found = await _made_all({} if is_afar else around, patient)
        if is_afar or found[-1].level != "problem":
            found += await _made_all(inside, patient)
        return found
    finally:
        await store.close()


async def _made_all(wanted: Mapping[str, Check], patient: Patient) -> list[Finding]:
    return [await _made(name, check, patient) for name, check in wanted.items()]


async def _opened(url: str) -> SqlStore:
    store = connect(url, create=False, writes=False)
    try:
        await store.open()
    except StoreUnavailable as error:
        await store.close()
        if "unsupported startup parameter" in str(error):
            raise StoreUnavailable(f"{error}; {postgres.SAY_POOLER}") from error
        raise
    return store


async def _made(name: str, check: Check, patient: Patient) -> Finding:
    try:
        async with Timeout(SECONDS):
            found = await check(patient)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are still made
        said = " ".join(str(error).split()) or type(error).__name__
        pooled = getattr(error, "sqlstate", None) in postgres.PREPARED_ELSEWHERE
        unknown = "fix the cause, and run duly doctor again"
        found = problem(f"could not be checked: {said}", postgres.SAY_POOLER if pooled else unknown)
    return replace(found, check=name)


REST = 30.0  # seconds between two examinations
PATIENCE = 1.0  # seconds that the first caller waits for an examination

_DATABASES = {"sqlite_version": "SQLite", "server_version": "PostgreSQL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions in this process, and those that other processes use."""

    place: str  # of the store, without its password
    database: str = ""  # "SQLite 3.40.1"; empty: it is elsewhere, or cannot be asked
    duly: str = __version__
    python: str = field(default_factory=platform.python_version)
    zone_data: str = field(default_factory=zone_data_version)
    workers: Mapping[str, int] = field(default_factory=dict)  # how many have each version of duly
    zone_releases: Mapping[str, int] = field(default_factory=dict)  # of the schedules' next moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The findings and their time; ``trouble`` says why the store could not be examined."""

    at: datetime
    findings: Sequence[Finding]
    versions: Versions
    trouble: str = ""

    def count(self, level: str) -> int:
        return sum(finding.level == level for finding in self.findings)

    def headline(self) -> str:
        if self.trouble:
            return "The database cannot be checked."
        problems, warnings = self.count("problem"), self.count("warning")
        total = len(self.findings)
        if problems:
            return f"{problems} of {total} checks failed."
        known = f"{warnings} of {total} checks found a warning"
        return f"No check failed; {known}." if warnings else f"All {total} checks are OK."


class Rounds:
    """Keeps the last examination of one store. Created once per process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._last: Checkup | None = None
        self._made_at = 0.0
        self._going_on: asyncio.Task[Checkup] | None = None

    async def look(self, store: Store) -> Checkup | None:
        """Return the last examination; None if the first one is still running."""
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
    for worker in await store.diagnostics.living():
        version = worker.profile.version or "unknown"
        workers[version] = workers.get(version, 0) + 1
    return Versions(
        place=where,
        database=_database(await store.diagnostics.settings()),
        workers=workers,
        zone_releases=await store.diagnostics.zone_data(),
    )


def _database(settings: Mapping[str, str]) -> str:
    return next(
        (f"{name} {settings[key]}" for key, name in _DATABASES.items() if key in settings), ""
    )
