"""Checks of the tables: the schema, the partitions of the next days, and faulty schedules."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from duly.doctor.finding import Finding, Patient, fine, problem, warning
from duly.store.migrate import Schema, check
from duly.store.values import BadDay

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
    around = patient.store.surroundings
    return judge_days(await around.bad_days(ahead=DAYS_AHEAD), await around.now())


def judge_days(bad: Sequence[BadDay], now: datetime) -> Finding:
    detached = [_named(day) for day in bad if day.state == "detached"]
    missing = [_named(day) for day in bad if day.state == "missing"]
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
    return judge_schedules((await patient.store.upkeep.progress()).faulty, removed)


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


def _named(day: BadDay) -> str:
    return f"{day.table}_{day.day:%Y%m%d}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
