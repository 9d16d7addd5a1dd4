"""Jobs by what they have in common, wherever they are kept.

What lives, what has ended and what has failed are three tables; each that is meant is asked once,
and the answers are put together. The highest number comes first, and a page goes on behind the
last number of the one before: a job that ends meanwhile stays where it was.

Most people ask for a few of many jobs. So there is a statement for every way in which the rows can
be found, and what was asked decides which is sent.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.errors import InvalidValue
from duly.instants import to_us
from duly.model.filter import Filter
from duly.model.job import Job
from duly.model.states import ENDED, LIVE, State
from duly.store import rows
from duly.store.database import Ask, Operation, Value
from duly.store.held import unknown
from duly.store.retrying import Place

FIRST, LAST = -(2**63), 2**63 - 1
MOST = 10_000
_MICROSECOND = timedelta(microseconds=1)


class Way(NamedTuple):
    """Two statements that look at the same rows: for a page of them, and for how many there are."""

    find: str
    tally: str


LIVING = Way("find_live", "count_live")
RUNNING = Way("find_running", "count_running")
LIVING_OF_SCHEDULE = Way("find_live_of_schedule", "count_live_of_schedule")
HISTORY = Way("find_history", "count_history")
RECENT_HISTORY = Way("find_recent_history", "count_recent_history")
HISTORY_OF_SCHEDULE = Way("find_history_of_schedule", "count_history_of_schedule")
FAILED = Way("find_among_failed", "count_among_failed")


def find(wanted: Filter, after: int | None, limit: int) -> Operation[list[Job]]:
    """A page of the jobs that match, the highest number first, behind the number ``after``."""
    _check("limit", limit)
    values = yield from _values(wanted)
    values |= {"after": LAST if after is None else after, "limit": limit}
    found: list[Job] = []
    for way, states in _ways(wanted):
        asked = yield Ask(way.find, {**values, "states": states})
        found += [rows.job(row) for row in asked]
    return sorted(found, key=lambda job: job.id, reverse=True)[:limit]


def count(wanted: Filter, at_most: int) -> Operation[int]:
    """How many match; from ``at_most`` on nobody counts."""
    _check("at_most", at_most)
    values = yield from _values(wanted)
    counted = 0
    for way, states in _ways(wanted):
        left = at_most - counted
        [(more,)] = yield Ask(way.tally, {**values, "states": states, "limit": left})
        counted += more
    return counted


def failed_numbers(wanted: Filter, place: Place, limit: int) -> Operation[tuple[list[int], Place]]:
    """The next that match and have failed, what failed first before others; and where to go on."""
    if wanted.states and State.FAILED not in wanted.states:
        return [], place
    values = yield from _values(wanted)
    walked = {"until": place.until, "behind": place.ended_at, "behind_id": place.id}
    found = yield Ask("failed_numbers", {**values, **walked, "limit": limit})
    return [number for number, _ in found], place.behind(found)


def schedule_names(numbers: Sequence[int]) -> Operation[dict[int, str]]:
    """What the schedules are called that jobs come from; those that are gone have no name."""
    return dict((yield Ask("schedule_names", {"ids": list(numbers)})))


def _ways(wanted: Filter) -> Iterator[tuple[Way, list[str]]]:
    """Where the jobs are that can match, and which states are meant there."""
    states = wanted.states or tuple(State)
    living = [state.value for state in LIVE if state in states]
    ended = [state.value for state in ENDED if state in states and state is not State.FAILED]
    if living:
        yield _way_to_living(wanted, living), living
    if ended:
        yield _way_to_history(wanted), ended
    if State.FAILED in states:
        yield FAILED, [State.FAILED.value]


def _way_to_living(wanted: Filter, states: list[str]) -> Way:
    if wanted.schedule is not None:
        return LIVING_OF_SCHEDULE
    return RUNNING if states == [State.RUNNING.value] else LIVING


def _way_to_history(wanted: Filter) -> Way:
    if wanted.schedule is not None:
        return HISTORY_OF_SCHEDULE
    return HISTORY if wanted.since is None else RECENT_HISTORY


def _values(wanted: Filter) -> Operation[dict[str, Value]]:
    [(now,)] = yield Ask("now")
    schedules: list[int] | None = None
    if wanted.schedule is not None:
        schedules = yield from _schedules(wanted.schedule)
    return {
        "task": wanted.task,
        "queue": wanted.queue,
        "tenant": wanted.tenant,
        "key": wanted.key,
        "schedules": schedules,
        "tags": list(wanted.tags),
        "error": wanted.error,
        "texts": list(wanted.texts),
        "since": FIRST if wanted.since is None else _instant(wanted.since, now),
        "before": LAST if wanted.before is None else _instant(wanted.before, now),
        "after": LAST,
    }


def _schedules(name: str) -> Operation[list[int]]:
    """The schedule of that name, or those that once had it: their jobs are still there."""
    found = yield Ask("schedule_numbers", {"name": name})
    if not found:
        found = yield Ask("former_schedule_numbers", {"name": name})
    if not found:
        yield from unknown(name)
    return [number for (number,) in found]


def _instant(moment: datetime | timedelta, now: int) -> int:
    return now - moment // _MICROSECOND if isinstance(moment, timedelta) else to_us(moment)


def _check(what: str, number: object) -> None:
    if type(number) is not int or not 1 <= number <= MOST:
        raise InvalidValue(f"{what}={number!r}: a whole number from 1 to {MOST:,}")
