"""Checks of any store: its tables, clocks, workers and alerts. Each returns a ``Finding``."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from duly import clock as wall
from duly.connection import configured
from duly.durations import about
from duly.engine.death_watch import present
from duly.engine.maintenance import MARGIN
from duly.errors import InvalidValue
from duly.model.alert import AlertMessage
from duly.model.schedule import PROMPT
from duly.model.worker import WorkerInfo
from duly.policy.redaction import redacted
from duly.policy.why import what_is_missing
from duly.policy.why.answer import plural
from duly.rules import zone_data_version
from duly.settings.tables import AlertSettings, filled
from duly.store.connect import is_postgres, is_remote, place
from duly.store.database import Database
from duly.store.diagnostics import BadDay, Orphans, WantedTask
from duly.store.maintenance import OVERDUE, StoreProgress
from duly.store.migrate import Schema, check
from duly.store.store import SqlStore, Store
from duly.views import FilledView, Made, Text

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: Level
    said: str
    fix: str = ""  # a sentence or a command; empty if there is nothing to do
    check: str = ""  # the name of the check; filled in by the examination


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView(FilledView):
    """The result of one check."""

    check: str
    level: Level
    said: Text
    fix: Annotated[
        str | None, Made(lambda fix: redacted(fix) or None), Meta(description="The fix.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """The results of duly doctor."""

    ok: Annotated[bool, Meta(description="No check found a problem.")]
    findings: list[FindingView]

    @classmethod
    def of(cls, found: Sequence[Finding]) -> "Doctor":
        ok = all(one.level != "problem" for one in found)
        return cls(ok=ok, findings=[FindingView.of(one) for one in found])


def fine(said: str) -> Finding:
    return Finding(level="ok", said=said)


def warning(said: str, fix: str) -> Finding:
    """A finding that is good to know: guarantees hold, but slower or not in every case."""
    return Finding(level="warning", said=said, fix=fix)


def problem(said: str, fix: str) -> Finding:
    """A finding that needs action: a guarantee is broken, or cannot be kept."""
    return Finding(level="problem", said=said, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    url: str
    store: Store  # open, and only to be read

    @property
    def database(self) -> Database:
        """The database of the store, which must be local."""
        assert isinstance(self.store, SqlStore)  # noqa: S101 - others are not asked for it
        return self.store.database

    @property
    def path(self) -> Path:
        """The resolved path of an SQLite store's file."""
        return Path(place(self.url)).resolve()


Check: TypeAlias = Callable[[Patient], Awaitable[Finding]]

DAYS_AHEAD = 3  # a scheduler makes thirty; with fewer than these, none has run for weeks
URGENT = timedelta(days=1)  # days that have begun, or begin within a day
MOST_NAMES = 5


async def schema(patient: Patient) -> Finding:
    return judge_schema(await check(patient.database))


def judge_schema(found: Schema) -> Finding:
    if found.too_new:
        return problem(found.too_new.partition(":")[0], "upgrade duly on this machine")
    if found.problem:
        return problem(found.problem.partition(":")[0], "duly db migrate")
    if found.note:
        return warning(found.note, "finish the deploy: upgrade duly on this machine")
    return fine(f"{len(found.applied)} of {len(found.expected)} migrations are applied")


async def partitions(patient: Patient) -> Finding:
    around = patient.store.diagnostics
    return judge_days(await around.bad_days(ahead=DAYS_AHEAD), await around.now())


def judge_days(bad: Sequence[BadDay], now: datetime) -> Finding:
    detached = [_partition(day) for day in bad if day.state == "detached"]
    missing = [_partition(day) for day in bad if day.state == "missing"]
    if detached:
        table, _, _ = detached[0].partition("_")
        return problem(
            f"{_listed(detached)} exists but is not attached to its table: its rows cannot be "
            "written",
            f"drop it if its rows are not needed (drop table duly.{detached[0]}), and duly "
            f"creates another; or attach it (alter table duly.{table} attach partition …)",
        )
    if not missing:
        return fine(f"today and the next {DAYS_AHEAD} days have their partitions")
    urgent = any(day.day <= now + URGENT for day in bad)
    said = f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    fix = "run a scheduler, which creates partitions thirty days ahead: duly up, or duly scheduler"
    return problem(said, fix) if urgent else warning(said, fix)


async def schedules(patient: Patient) -> Finding:
    removed = [name for name, _ in await patient.store.schedules.removed()]
    return judge_schedules((await patient.store.maintenance.progress()).faulty, removed)


def judge_schedules(faulty: Sequence[str], removed: Sequence[str] = ()) -> Finding:
    if not faulty and removed:
        return warning(
            f"removed by hand, but still declared in code: {_listed(removed)}",
            f"remove them from the code, or restore them: duly schedules take-back {removed[0]}",
        )
    if not faulty:
        return fine("every schedule can be fired")
    return problem(
        f"{len(faulty)} cannot be fired: {_listed(faulty)}",
        f"see why, and edit the schedule: duly schedules show {faulty[0]}",
    )


def _partition(day: BadDay) -> str:
    return f"{day.table}_{day.day:%Y%m%d}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


ROUND_TRIPS: Final = 5
SKEW_SEEN: Final = timedelta(seconds=1)
SKEW_BAD: Final = timedelta(seconds=30)
REWIND: Final = "duly schedules rewind --ahead"
RESTS: Final = "fired while the clock was ahead, and silent until the clock reaches that time again"
SET_CLOCK: Final = "synchronize the clock over the network: timedatectl set-ntp true, or chrony"


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the store's clock: its time, and when and how fast it answered."""

    asked_at: datetime  # on this machine's clock
    round_trip: timedelta
    said: datetime

    @property
    def ahead(self) -> timedelta:
        """Return how far the store's clock is ahead, if both directions took equally long."""
        return self.said - (self.asked_at + self.round_trip / 2)


async def clock(patient: Patient) -> Finding:
    around = patient.store.diagnostics
    readings = [await _read(patient) for _ in range(ROUND_TRIPS)]
    set_back = judge_newest(await around.newest(), readings[-1].said)
    if set_back is not None or not is_postgres(patient.url):
        whose = "" if is_remote(patient.url) else "the database uses this machine's clock, and "
        return set_back or fine(f"{whose}nothing in it is from the future")
    return judge_skew(readings)


async def _read(patient: Patient) -> Reading:
    asked_at, began = wall.now(), wall.boottime()
    said = await patient.store.diagnostics.now()
    return Reading(asked_at, timedelta(seconds=wall.boottime() - began), said)


def judge_skew(readings: Sequence[Reading]) -> Finding:
    """Judge the clock skew by the fastest reading.

    Half of its round trip is not counted as skew.
    """
    best = min(readings, key=lambda reading: reading.round_trip)
    skew = max(abs(best.ahead) - best.round_trip / 2, timedelta())
    which = "behind" if best.ahead > timedelta() else "ahead of"
    said = f"this machine's clock is {about(skew)} {which} the database's"
    if skew >= SKEW_BAD:
        return problem(f"{said}, which duly uses", SET_CLOCK)
    if skew >= SKEW_SEEN:
        return warning(f"{said}, which duly uses", SET_CLOCK)
    within = abs(best.ahead) + best.round_trip / 2
    return fine(f"this machine and the database agree within {about(within)}")


def judge_newest(newest: datetime | None, now: datetime) -> Finding | None:
    """Report a stored timestamp that is in the future: a clock was ahead, or was set back."""
    if newest is None or newest - now < SKEW_SEEN:
        return None
    return problem(
        f"a row was written {about(newest - now)} in the future: the database's clock was ahead "
        "then, or was set back since",
        f"{SET_CLOCK}; then let the schedules that were fired too early continue: {REWIND}",
    )


async def zone_data(patient: Patient) -> Finding:
    return judge_zone_data(await patient.store.diagnostics.zone_data(), zone_data_version())


def judge_zone_data(used: Mapping[str, int], here: str) -> Finding:
    """Compare the zone data of nodes, which store their release with each moment they compute."""
    others = {release: count for release, count in sorted(used.items()) if release != here}
    if not others:
        return fine(f"release {here}, on this machine and in every schedule")
    listed = ", ".join(f"{release} ({plural(n, 'schedule')})" for release, n in others.items())
    said = f"release {here} on this machine, but other nodes have other releases: {listed}"
    if max(others) > here:
        return warning(
            said, 'on every node with older data, including this one: pip install -U "tzdata"'
        )
    return warning(
        said,
        "no scheduler with this machine's release has run since: start one (duly up), and on the "
        'nodes with older data: pip install -U "tzdata"',
    )


async def moments(patient: Patient) -> Finding:
    return judge_moments(await patient.store.maintenance.progress())


def judge_moments(progress: StoreProgress) -> Finding:
    """Report the oldest moment that no scheduler has fired, and the oldest job not made ready."""
    start = "no scheduler is running, or it cannot keep up: duly up, or duly scheduler"
    unfired = progress.oldest_unfired
    if unfired is not None and progress.now - unfired > PROMPT:
        return problem(
            f"the oldest overdue run was due {_at(unfired, progress)} and no scheduler has fired "
            "it",
            start,
        )
    waiting = progress.oldest_undispatched
    if waiting is not None and progress.now - waiting > OVERDUE:
        return problem(
            f"a job was due {_at(waiting, progress)} and no scheduler has made it ready", start
        )
    if progress.ahead:
        return problem(
            f"{plural(len(progress.ahead), 'schedule')} {RESTS}: {', '.join(progress.ahead[:5])}",
            f"when the clock is right: {REWIND}",
        )
    return fine("nothing is overdue")


def _at(moment: datetime, progress: StoreProgress) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC ({about(progress.now - moment)} ago)"


# A worker renews its lease after a fifth of it, and stops its jobs after two thirds.
SILENT: Final = 1 / 2
# After the margin, any running node takes jobs back within a second or two.
TAKEN_BACK: Final = MARGIN + timedelta(seconds=5)
# The tasks of duly's own, and the word that allows each.
BUILT_IN: Final = {"duly.shell": "shell", "duly.command": "shell", "duly.http": "http"}


async def tasks(patient: Patient) -> Finding:
    around = patient.store.diagnostics
    return judge_tasks(await around.wanted(), present(await around.living()))


def judge_tasks(wanted: Sequence[WantedTask], living: Sequence[WorkerInfo]) -> Finding:
    if not living:
        return _without_workers(wanted)
    known = {task for worker in living for task in worker.tasks}
    unknown = [one for one in wanted if one.task not in known]
    if unknown:
        return problem(
            f"no running worker knows {_listed([_named(one) for one in unknown])}",
            _start_for(unknown, living),
        )
    for one in wanted:
        missing = what_is_missing(living, task=one.task, queue=one.queue, needs=one.needs)
        if missing is not None:
            why, command = missing
            fix = command.line if command else "start a worker that has the resources they need"
            return problem(f"{_named(one)}: {why}", fix)
    return fine("every queued task has a worker that can run it")


def _without_workers(wanted: Sequence[WantedTask]) -> Finding:
    if not wanted:
        return fine("no task is queued, and no worker is running")
    found = problem if any(one.jobs for one in wanted) else warning
    allow = _allowing(wanted)
    start = f"duly up{allow}, or duly worker{allow}"
    return found(f"no worker is running for {_listed([_named(one) for one in wanted])}", start)


def _start_for(unknown: Sequence[WantedTask], living: Sequence[WorkerInfo]) -> str:
    if allow := _allowing(unknown):
        return f"allow it where the worker is started: duly up{allow}"
    names = ", ".join(sorted({worker.name for worker in living})[:MOST_NAMES])
    return (
        f"start a worker with the code of the task: duly worker APP (running: {names}); or, if "
        "the task was removed on purpose, cancel its jobs: duly jobs cancel "
        f"task:{unknown[0].task}"
    )


def _allowing(wanted: Sequence[WantedTask]) -> str:
    words = sorted({BUILT_IN[one.task] for one in wanted if one.task in BUILT_IN})
    return f" --allow {','.join(words)}" if words else ""


async def workers(patient: Patient) -> Finding:
    around = patient.store.diagnostics
    now, believed = await around.now(), await around.living()
    living = present(believed)
    gone = [] if living else believed
    orphans = await around.orphans(dead=[one.id for one in gone])
    return (
        judge_gone(gone, orphans, now)
        or judge_orphans(orphans, living, now)
        or judge_leases(living, now)
    )


def judge_orphans(
    orphans: Sequence[Orphans], living: Sequence[WorkerInfo], now: datetime
) -> Finding | None:
    """Report jobs of dead workers, unless they died seconds ago and will be taken back."""
    left = [one for one in orphans if not living or not _is_fresh(one, now)]
    if not left:
        return None
    jobs = sum(one.jobs for one in left)
    names = ", ".join(one.name or f"number {one.worker}" for one in left[:MOST_NAMES])
    return problem(
        f"{plural(jobs, 'job')} held by {names}, whose lease has expired, and no node takes "
        f"{('it' if jobs == 1 else 'them')} back",
        "start any node, which takes them back within seconds: duly up, or duly worker",
    )


def judge_gone(
    gone: Sequence[WorkerInfo], orphans: Sequence[Orphans], now: datetime
) -> Finding | None:
    """Report workers on this machine whose process has ended before their lease."""
    if not gone:
        return None
    left = about(max(max(one.lease_until for one in gone) - now, timedelta()))
    names = ", ".join(one.name for one in gone[:MOST_NAMES])
    jobs = sum(one.jobs for one in orphans)
    its = (
        "its process is gone; its lease expires"
        if len(gone) == 1
        else ("their processes are gone; their leases expire")
    )
    held = f", and {plural(jobs, 'job')} wait{'s' * (jobs == 1)} for that" if jobs else ""
    found = problem if jobs else warning
    return found(f"{names}: {its} in {left}{held}", "start another: duly up, or duly worker")


def judge_leases(living: Sequence[WorkerInfo], now: datetime) -> Finding:
    for worker in living:
        length, silent = worker.lease_until - worker.beat_at, now - worker.beat_at
        if silent > length * SILENT:
            return warning(
                f"{worker.name} has sent no heartbeat for {about(silent)}, and its lease of "
                f"{about(length)} expires in {about(worker.lease_until - now)}",
                "check its machine: it may be suspended, overloaded, or cut off from the database",
            )
    if not living:
        return fine("none is running, and none has left jobs behind")
    return fine(
        f"{plural(len(living), 'worker')} running with recent heartbeats; no job left behind"
    )


def _is_fresh(one: Orphans, now: datetime) -> bool:
    """Return whether the lease ended recently.

    A lease that was ended on purpose has no end time; living workers know of it.
    """
    return one.ended_at is None or now - one.ended_at < TAKEN_BACK


def _named(one: WantedTask) -> str:
    jobs = [plural(one.jobs, "job")] if one.jobs else []
    schedules = [plural(one.schedules, "schedule")] if one.schedules else []
    return f'"{one.task}" ({" and ".join(jobs + schedules)})'


MOST = 100


async def alerts(patient: Patient) -> Finding:
    settings = configured().alerts
    missing = None if settings is None else _missing(settings)
    return judge_alerts(settings, missing, await patient.store.alerts.messages(limit=MOST))


def judge_alerts(
    settings: AlertSettings | None, missing: str | None, messages: list[AlertMessage]
) -> Finding:
    """Judge the settings and the newest messages; ``missing`` says what the settings lack."""
    if missing is not None:
        return problem(missing, "set the variable where duly runs, and: duly alerts test")
    unsent = [one for one in messages if one.sent_at is None and one.attempts]
    if unsent:
        said = f"{plural(len(unsent), 'message')} to {unsent[0].destination} could not be sent"
        return problem(f"{said}: {unsent[0].error}", "duly alerts --pending; duly alerts test")
    if settings is None or not settings.is_active:
        return fine("nobody is told of problems: no [alerts] in the settings here")
    names = [one.name for one in settings.to]
    return fine(f"sent to {', '.join(names)}" if names else "only pings")


def _missing(settings: AlertSettings) -> str | None:
    addresses = [settings.ping, *settings.pings.values()]
    for one in settings.to:
        addresses += [one.url, one.user, one.password, *one.headers.values()]
        addresses += [f"${{{one.sign}}}"] if one.sign else []
    try:
        for address in addresses:
            filled(address)
    except InvalidValue as error:
        return str(error)
    return None
