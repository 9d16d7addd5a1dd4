"""Simulate a schedule in memory, and read the ledger afterwards."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Final

from duly.connection import migrate_tables
from duly.durations import DAY
from duly.errors import InvalidValue, RuleError
from duly.instants import from_us, to_us
from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.job import Claimed, StoredJob
from duly.model.schedule import Pause, Plan
from duly.model.states import State
from duly.policy.decision import LedgerEntry
from duly.policy.firing import ready_at, skipped_by_pause
from duly.rehearse.story import ClockChange, Outage, Story, StoryMoment, Unended, WhatIf, Word
from duly.rehearse.world import World, WorldClock
from duly.rules import Spaced
from duly.rules.zone import zone_named
from duly.store.connect import connect
from duly.store.store import Store

# Each takes about a millisecond.
MOST_MOMENTS: Final = 5_000
A_MOMENT = timedelta.resolution


async def simulate(what: WhatIf) -> Story:
    """Return the simulated runs of a schedule and the reasons.

    Nothing outside memory is changed.
    """
    _check(what)
    what = replace(what, plan=_without_followers(what.plan))
    clock = WorldClock(what.start)
    store = connect(":memory:", clock=clock)
    await store.open()
    try:
        await migrate_tables(store)
        moments = await _lived(store, World(store, clock, what), what)
    finally:
        await store.close()
    return Story(what=what, moments=moments, clock_changes=list(_clock_changes(what)))


async def _lived(store: Store, world: World, what: WhatIf) -> list[StoryMoment]:
    await world.begin()
    await world.pass_to(what.end - A_MOMENT)
    decided = {fire.id for fire in await _fires(store, what)}
    left = await _undecided(store, world, what)
    await _go_on(store, world, what)
    alive = {job.id: job for job in await _alive(store)}
    moments = [_of_row(row, what) for row in left]
    moments += [_of_row(fire, what) for fire in what.asked if what.start <= fire.due_at < what.end]
    for fire in await _fires(store, what):
        if fire.id in decided:
            moments.append(await _of_fire(store, world, fire, alive=alive))
    return sorted(moments, key=lambda moment: moment.due_at)


async def _undecided(store: Store, world: World, what: WhatIf) -> list[LedgerEntry]:
    """Foresee the ledger entries of past moments that are undecided: skipped, or in a pause."""
    schedule = await store.schedules.get(what.plan.name)
    if schedule.pause is not None and schedule.pause.until and schedule.pause.until > world.now:
        return skipped_by_pause(schedule, world.now, world.asked)
    return (await store.ledger.foresee(what.plan.name, world.decide)).entries


async def _go_on(store: Store, world: World, what: WhatIf) -> None:
    """Continue, for at most as long again, until the jobs alive at the end have finished."""
    newest = max((job.id for job in await _alive(store)), default=None)
    if newest is None:
        return

    async def enough() -> bool:
        oldest = await store.jobs.page(limit=1)
        return not oldest or oldest[0].id > newest or world.fired > 2 * MOST_MOMENTS

    await world.pass_to(what.end + (what.end - what.start), enough=enough)


async def _of_fire(
    store: Store, world: World, fire: StoredFire, *, alive: Mapping[int, StoredJob]
) -> StoryMoment:
    attempts = world.attempts_of(fire)
    row = replace(_of_row(fire, world.what), attempts=attempts)
    if fire.outcome is not Outcome.QUEUED or fire.job_id is None:
        return row
    if attempts and attempts[-1].outcome == "succeeded":
        return replace(row, outcome="runs")
    job = alive.get(fire.job_id) or await store.jobs.get(fire.job_id)
    word: Word = "runs" if job.state is State.RUNNING else _WORDS.get(job.state, "waits")
    said = f"{row.why}; {job.reason}" if job.reason and job.reason not in row.why else row.why
    return replace(row, outcome=word, why=said)


def _of_row(row: StoredFire | LedgerEntry, what: WhatIf) -> StoryMoment:
    return StoryMoment(
        due_at=row.due_at,
        covers_from=row.covers_from,
        count=row.count,
        outcome="merged" if row.outcome is Outcome.MERGED else "skipped",
        cause=row.cause,
        why=_NUMBER.sub("", row.reason),
        ready_at=ready_at(what.plan, row.due_at, start=row.due_at),
    )


async def _fires(store: Store, what: WhatIf) -> list[StoredFire]:
    return await store.ledger.fires(what.plan.name, since=what.start, limit=4 * MOST_MOMENTS)


async def _alive(store: Store) -> list[StoredJob]:
    return await store.jobs.page(limit=4 * MOST_MOMENTS)


def _without_followers(plan: Plan) -> Plan:
    """Remove the tasks that are enqueued when a run ends: they are not simulated."""
    quiet = replace(plan.terms, on_success=None, on_failure=None, on_cancelled=None)
    return replace(plan, terms=quiet)


def _check(what: WhatIf) -> None:
    if what.end <= what.start:
        raise InvalidValue(f"from {what.start} to {what.end}: the end is not after the start")
    for outage in what.outages:
        if outage.end <= outage.start:
            raise InvalidValue(f"an outage from {outage.start} to {outage.end} ends too early")
        if outage.end >= what.end:
            raise InvalidValue(
                f"the outage that ends at {outage.end} is not over by {what.end}: what it made "
                "late is decided when it is over; simulate a longer stretch"
            )
    pause = what.pause
    if pause is not None and pause.catch_up and (pause.until is None or pause.until >= what.end):
        raise InvalidValue(
            f"the pause is not over by {what.end}: what is due in it is decided when it is over; "
            "simulate a longer stretch"
        )
    _check_count(what)


def _check_count(what: WhatIf) -> None:
    timing, length = what.plan.timing, what.end - what.start
    count: int | None = None
    if isinstance(timing, Spaced):
        count = length // (timing.delay + what.runtime)
    else:
        with suppress(RuleError):  # there are too many to be counted
            count = timing.count(what.start - A_MOMENT, what.end - A_MOMENT)
    if count is None or count > MOST_MOMENTS:
        shown = "more than can be counted" if count is None else f"{count:,}"
        raise InvalidValue(
            f'{shown} runs of "{what.plan.rule}" are due from {what.start} to {what.end}, and '
            f"at most {MOST_MOMENTS:,} are simulated: choose a shorter stretch"
        )


def _clock_changes(what: WhatIf) -> Iterator[ClockChange]:
    zone = zone_named(what.plan.shown_zone)
    first, last = zone.segment(to_us(what.start)), zone.segment(to_us(what.end))
    for k in range(first + 1, last + 1):
        by = zone.offsets[k] - zone.offsets[k - 1]
        if by:
            yield ClockChange(from_us(zone.starts[k]), timedelta(microseconds=by))


_WORDS: Final[dict[State, Word]] = {
    State.CANCELLED: "stopped",
    State.FAILED: "failed",
    State.EXPIRED: "expired",
}
# Job numbers of a simulation mean nothing to users.
_NUMBER = re.compile(r" \(job \d+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A schedule, and roughly how long its runs took."""

    plan: Plan
    runtime: timedelta


class _Uneven(World):
    """Varies the run time by due moment, always in the same way."""

    def runtime(self, job: Claimed) -> timedelta:
        share = blake2s(str(job.due_at).encode(), digest_size=1).digest()[0] / 255
        return self.what.runtime * (0.6 + share**3)


async def live_through(
    url: str,
    lived: Sequence[Lived],
    *,
    start: datetime,
    end: datetime,
    outage: tuple[datetime, datetime],
) -> None:
    """Simulate the schedules one after the other, each from the start to the end."""
    clock = WorldClock(start)
    store = connect(url, clock=clock)
    await store.open()
    try:
        await migrate_tables(store)
        for one in lived:
            clock.moment = start
            down = [Outage(*outage)]
            what = WhatIf(plan=one.plan, start=start, end=end, runtime=one.runtime, outages=down)
            world = _Uneven(store, clock, what)
            await world.begin()
            await world.pass_to(end)
            await world.leave()
    finally:
        await store.close()


ENOUGH: Final = 20  # moments to see how a schedule goes
CROWDED: Final = 100  # more than these in a day are too many to look at
MOST_ASKED: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSchedule:
    """The current state of a schedule."""

    now: datetime  # by the store's clock
    plan: Plan
    pause: Pause | None
    next_at: datetime | None
    asked: Sequence[StoredFire]  # upcoming moments that were skipped in advance
    runs: Sequence[timedelta]  # how long the last ones took that ended well
    unended: StoredJob | None  # the oldest run that has not ended


async def known_of(store: Store, name: str) -> KnownSchedule:
    schedule = await store.schedules.get(name)
    now = (await store.maintenance.progress()).now
    ahead = await store.ledger.fires(name, since=schedule.cursor, limit=MOST_ASKED)
    job = await store.activity.run_in_the_way(schedule.id, now)
    return KnownSchedule(
        now=now,
        plan=schedule.plan,
        pause=schedule.pause,
        next_at=schedule.next_at,
        asked=[fire for fire in ahead if fire.cause is Cause.ASKED],
        runs=await store.activity.past_runs(schedule.id),
        unended=job if job is not None and job.ended_at is None else None,
    )


def continued(what: WhatIf, known: KnownSchedule) -> WhatIf:
    """Start with the current state: a running job goes on, and a fixed delay ends when it would."""
    job, start = known.unended, what.start
    begun = None if job is None else min(job.claimed_at or start, start)
    kept = what.plan.kept
    if not isinstance(kept, Spaced):
        run = None if job is None or begun is None else Unended(min(job.due_at, begun), begun)
        return replace(what, unended=run)
    due = known.next_at if begun is None else max(begun + what.runtime, start) + kept.delay
    if due is None or due <= start:
        return what
    policies = replace(what.plan.policies, start=max(due, what.plan.policies.start or due))
    return replace(what, plan=replace(what.plan, policies=policies))


def window_end(
    plan: Plan, start: datetime, *, outages: Sequence[Outage] = (), runtime: timedelta = timedelta()
) -> datetime:
    """Return the default end: after a day, sooner if there are many runs, later if none is due.

    After an outage, as long again, to show the recovery.
    """
    begins = [start, *(outage.end for outage in outages)]
    return max(_far_enough(plan, begin, runtime) for begin in begins)


def _far_enough(plan: Plan, start: datetime, runtime: timedelta) -> datetime:
    kept = plan.kept
    if isinstance(kept, Spaced):
        between = kept.delay + runtime
        return start + min(max(DAY, 2 * between), ENOUGH * between)
    moments = list(kept.between(start, start + DAY, CROWDED + 1))
    if len(moments) > CROWDED:
        return moments[ENOUGH]
    following = kept.after(start)
    return start + DAY if moments or following is None else following + DAY
