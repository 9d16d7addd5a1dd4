"""Time travel in a sandbox: time passes from one due moment to the next, each fired on time."""

from datetime import datetime, timedelta

from duly.durations import parse_duration
from duly.errors import InvalidValue, RuleError
from duly.model.policies import check_moment
from duly.policy.firing import decide
from duly.store.store import Store
from duly.testing.clock import VirtualClock
from duly.views.fires import Fire, fires, made_by_events

BATCH = 1_000
MOST_MOMENTS = 100_000
NO_REST = timedelta(0)


async def travel(store: Store, clock: VirtualClock, end: datetime) -> list[Fire]:
    """Advance the clock with a scheduler that is never late; return the new fires, oldest first."""
    before = set(await _ledger(store))
    await _pass(store, clock, end)
    after = await _ledger(store)
    decided = [fire for number, fire in after.items() if number not in before]
    return sorted(decided, key=lambda fire: (fire.due_at, fire.id))


async def history(store: Store, schedule: str) -> list[Fire]:
    """Return the ledger of a schedule, oldest first."""
    found = await store.ledger.fires(schedule, limit=MOST_MOMENTS)
    return fires(found, schedule, reacts=await made_by_events(store, found))[::-1]


def moment_of(what: str, given: datetime | str) -> datetime:
    """Parse a time: a datetime or its ISO text."""
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise InvalidValue(
            f'{what}="{given}": a moment with its zone, as "2027-01-03T23:00+01:00"'
        ) from None
    check_moment(what, moment)
    return moment


def end_of(what: str, given: str | timedelta | datetime, now: datetime) -> datetime:
    """Parse an end: a datetime, its ISO text, or a duration from now."""
    if isinstance(given, datetime) or (isinstance(given, str) and given[4:5] == "-"):
        return moment_of(what, given)
    try:
        return now + parse_duration(given)
    except RuleError as error:
        raise InvalidValue(f"{what}: {error}") from None


async def _pass(store: Store, clock: VirtualClock, end: datetime) -> None:
    soon = timedelta.resolution
    for _ in range(MOST_MOMENTS):
        rest, did_something = await _keep_up(store)
        if rest is not None and rest <= NO_REST:
            # There is more; or it is due and not to be done yet: a job is not late at its deadline.
            rest, soon = (NO_REST, soon) if did_something else (soon, soon * 2)
        if rest is None or clock.now() + rest > end:
            clock.set(end)
            return
        clock.advance(rest)
    raise InvalidValue(
        f"{end} is too far: {MOST_MOMENTS:,} moments were due before, and it is {clock.now()}"
    )


async def _keep_up(store: Store) -> tuple[timedelta | None, bool]:
    """Do all that is due now; return the time until the next is due, and whether anything was."""
    fired = await store.ledger.fire(decide, limit=BATCH, trust=lambda _: True)
    seen = await store.events.react(limit=BATCH)
    answered = await store.upkeep.answer(limit=BATCH)
    moved = await store.upkeep.dispatch(limit=BATCH)
    rests = [rest for rest in (fired.rest, moved.rest) if rest is not None]
    if seen.more or answered == BATCH:
        rests.append(NO_REST)
    did = bool(fired.schedules or seen.events or answered)
    did |= bool(moved.ready or moved.hurried or moved.expired)
    return min(rests, default=None), did


async def _ledger(store: Store) -> dict[int, Fire]:
    """Return all fires of all schedules, by number."""
    found: dict[int, Fire] = {}
    schedules = await store.schedules.page(limit=BATCH)
    while schedules:
        for schedule in schedules:
            name = schedule.plan.name
            found |= {fire.id: fire for fire in await history(store, name)}
        schedules = await store.schedules.page(after=schedules[-1].plan.name, limit=BATCH)
    return found
