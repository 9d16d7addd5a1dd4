"""Read jobs: one, a list, or those that match a filter, in all tables of jobs.

Live, ended and failed jobs are in three tables. Each table that can have matches is queried once,
and the results are merged: live jobs by id, then ended jobs by their end, the newest first.

Most searches want a few of many jobs. So there is a statement for every access path, and the filter
decides which is sent. For any filter, a page examines a bounded number of rows: first the last row
of this range is found, with one bound for all ended jobs, and then the matches within it. The next
page continues from there.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from duly.durations import MICROSECOND
from duly.errors import InvalidValue, NotFound
from duly.instants import from_us, to_us
from duly.model.columns import read_rows
from duly.model.job import Attempt, StoredJob
from duly.model.job_filter import Filter, Name, Pattern
from duly.model.states import ENDED, LIVE, State
from duly.store import rows
from duly.store.database import Ask, Operation
from duly.store.retries import RetryCursor
from duly.store.schedule_changes import unknown

LONGEST_TAIL = 400  # characters of an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Matching jobs, and the cursor to continue with.

    A page ends when it is full or has examined enough rows: it may be short or empty without being
    the last.
    """

    jobs: Sequence[StoredJob]
    after: str | None = None  # the cursor of the next page; None: this is the last
    searched_to: datetime | None = None  # all jobs that ended since then were examined; None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed job, with the facts that group similar failures."""

    id: int
    task: str
    queue: str
    ended_at: datetime
    reason: str
    error: str  # the end of it, no more than LONGEST_TAIL


MOST = 10_000
# Rows of one table for one page. Measured on PostgreSQL with a million of them: each is 10 to
# 40 ms of a page that finds nothing.
MOST_EXAMINED = 20_000
MOST_ERRORS_EXAMINED = 4_000  # which are long
MOST_OF_SCHEDULE_EXAMINED = 5_000  # whose jobs lie far from one another
_TRY: Final = re.compile(r"^attempt (\d+ of \d+)")

Values: TypeAlias = dict[str, Any]  # of statements


FIRST, LAST = -(2**63), 2**63 - 1
_SHAPE = re.compile(r"(?:l|e\.(?P<ended_at>\d{1,19}))\.(?P<id>\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobCursor:
    """A position in search results: after a live job, or after one that ended at this moment.

    No job has number 0: after it come the jobs that ended before the moment.
    """

    id: int = LAST
    ended_at: int | None = None

    def __str__(self) -> str:
        return f"l.{self.id}" if self.ended_at is None else f"e.{self.ended_at}.{self.id}"

    @property
    def before(self) -> int:
        """Return the exclusive upper bound of ``ended_at`` for the jobs after this cursor."""
        if self.ended_at is None:
            return LAST
        return min(self.ended_at + (self.id > 0), LAST)


def cursor_of(job: StoredJob) -> JobCursor:
    return JobCursor(job.id, None if job.ended_at is None else to_us(job.ended_at))


def read_cursor(text: object) -> JobCursor:
    """Parse the text of a cursor; None is the beginning."""
    if text is None:
        return JobCursor()
    found = _SHAPE.fullmatch(text) if isinstance(text, str) else None
    numbers = [int(number) for number in found.groups() if number] if found else []
    if not numbers or max(numbers) > LAST:
        raise InvalidValue(
            f"after={text!r}: not a cursor of jobs; pass the `after` of the previous page, or "
            "nothing for the first page"
        )
    *ended_at, number = numbers
    return JobCursor(number, *ended_at)


class Way(NamedTuple):
    """An access path: statements on the same rows, to find matches and to count them.

    ``edge`` finds the last row that a page examines; a path without one has few rows.
    """

    find: str
    tally: str
    edge: str | None = None


LIVING = Way("find_live", "count_live", "edge_of_live")
RUNNING = Way("find_running", "count_running")
LIVING_OF_SCHEDULE = Way("find_live_of_schedule", "count_live_of_schedule")
HISTORY = Way("find_history", "count_history", "edge_of_history")
HISTORY_OF_SCHEDULE = Way(
    "find_history_of_schedule", "count_history_of_schedule", "edge_of_history_of_schedule"
)
FAILED = Way("find_among_failed", "count_among_failed", "edge_of_failed")


def get(number: int) -> Operation[StoredJob]:
    found = yield from known(number)
    if found is None:
        raise NotFound(f"there is no job {number}; it may have ended and been deleted")
    return found


def known(number: int) -> Operation[StoredJob | None]:
    """Return the job, or None if there is none with that id."""
    found = yield Ask("live_job", {"id": number})
    if not found:
        found = yield Ask("ended_job", {"id": number})
    return rows.job(found[0]) if found else None


def live_jobs(*, after: int = 0, limit: int = 100) -> Operation[list[StoredJob]]:
    """Return jobs that have not ended."""
    found = yield Ask("list_jobs", {"after": after, "limit": limit})
    return [rows.job(row) for row in found]


def ended_jobs(
    state: State, *, since: datetime | None = None, limit: int = 100
) -> Operation[list[StoredJob]]:
    """Return ended jobs, the newest first: the failed ones, or all others."""
    which = "list_failed" if state is State.FAILED else "list_history"
    start = to_us(since) if since else 0
    found = yield Ask(which, {"since": start, "limit": limit, "state": state.value})
    return [rows.job(row) for row in found]


def attempts(number: int) -> Operation[list[Attempt]]:
    """Return the attempts, numbered on across manual retries, which restart the count at 1."""
    found = yield Ask("list_attempts", {"job_id": number})
    counted: list[Attempt] = []
    before = last = 0
    for one in (rows.attempt(row) for row in found):
        before, last = before + (last if one.number <= last else 0), one.number
        reason = _TRY.sub(r"attempt \1 since it was retried", one.reason) if before else one.reason
        counted.append(replace(one, number=before + one.number, reason=reason))
    return counted


def find(
    wanted: Filter, after: str | None, limit: int, *, examined: int | None = None
) -> Operation[Page]:
    """Return a page of matching jobs, after the cursor of the previous page."""
    _check("limit", limit)
    start = read_cursor(after)
    values = yield from _values(wanted)
    values["examined"] = examined or MOST_EXAMINED
    found: list[StoredJob] = []
    if start.ended_at is None:
        found, edge = yield from _find_living(wanted, {**values, "after": start.id}, limit + 1)
        if edge is not None and len(found) <= limit:
            return Page(jobs=found, after=str(JobCursor(edge)))
        start = JobCursor(LAST, LAST)
    edge = None
    if len(found) <= limit:
        more, edge = yield from _find_ended(wanted, start, values, limit + 1 - len(found))
        found += more
    return _page(found, edge, limit)


def count(wanted: Filter, *, at_most: int = MOST) -> Operation[int]:
    """Count the jobs that match; ``at_most`` means as many or more."""
    _check("at_most", at_most)
    values = yield from _values(wanted)
    counted = 0
    for way, states in _ways(wanted):
        left = at_most - counted
        [(more,)] = yield Ask(way.tally, {**values, "states": states, "limit": left})
        counted += more
    return counted


def failures(wanted: Filter, *, limit: int = 2_000) -> Operation[list[Failure]]:
    """Return the newest failures that match, among the newest failures of all."""
    _check("limit", limit)
    if wanted.states and State.FAILED not in wanted.states:
        return []
    values = yield from _values(wanted)
    edge = yield Ask("edge_of_failed", {**values, "examined": MOST})
    since = edge[0][0] if edge else values["since"]
    asked = {**values, "since": since, "tail": LONGEST_TAIL, "limit": limit}
    return read_rows(Failure, (yield Ask("failures", asked)))


def schedule_names(numbers: Sequence[int]) -> Operation[dict[int, str]]:
    """Return the names of schedules by number; removed schedules are left out."""
    return dict((yield Ask("schedule_names", {"ids": list(numbers)})))


def failed_numbers(
    wanted: Filter, place: RetryCursor, limit: int
) -> Operation[tuple[list[int], RetryCursor]]:
    """Return the next matching failed jobs, the oldest failure first, and the new cursor."""
    if wanted.states and State.FAILED not in wanted.states:
        return [], place
    values = yield from _values(wanted)
    walked = {"until": place.until, "behind": place.ended_at, "behind_id": place.id}
    found = yield Ask("failed_numbers", {**values, **walked, "limit": limit})
    return [number for number, _ in found], place.behind(found)


def _find_living(
    wanted: Filter, values: Values, limit: int
) -> Operation[tuple[list[StoredJob], int | None]]:
    """Return matching live jobs, and where the search stopped (None: at the end)."""
    for way, states in _ways(wanted, LIVE):
        edge: int | None = None
        if way.edge is not None:
            [(edge,)] = (yield Ask(way.edge, values)) or [(None,)]
        values |= {"states": states, "edge": FIRST if edge is None else edge, "limit": limit}
        found = yield Ask(way.find, values)
        return [rows.job(row) for row in found], edge
    return [], None


def _find_ended(
    wanted: Filter, start: JobCursor, values: Values, limit: int
) -> Operation[tuple[list[StoredJob], int | None]]:
    """Return matching ended jobs, and where the search stopped: one moment for all tables."""
    ways = list(_ways(wanted, ENDED))
    values = {**values, "before": min(values["before"], start.before)}
    values |= {"behind": start.ended_at, "behind_id": start.id, "limit": limit}
    edges = []
    for way, _ in ways:
        edges += yield Ask(
            str(way.edge), {**values, "examined": _most_examined(way, wanted, values["examined"])}
        )
    edge = max((moment for (moment,) in edges), default=None)
    values |= {} if edge is None else {"since": edge}
    found: list[StoredJob] = []
    for way, states in ways:
        found += map(rows.job, (yield Ask(way.find, {**values, "states": states})))
    return sorted(found, key=lambda job: (job.ended_at, job.id), reverse=True)[:limit], edge


def _most_examined(way: Way, wanted: Filter, most: int) -> int:
    if way is HISTORY_OF_SCHEDULE:
        return min(most, MOST_OF_SCHEDULE_EXAMINED)
    reads_errors = way is FAILED and (wanted.error or wanted.texts)
    return min(most, MOST_ERRORS_EXAMINED) if reads_errors else most


def _page(found: list[StoredJob], edge: int | None, limit: int) -> Page:
    """Return a page that is full, or ends where the search stopped or at the last job."""
    if len(found) > limit:
        last = found[limit - 1]
        return Page(jobs=found[:limit], after=str(cursor_of(last)), searched_to=last.ended_at)
    if edge is not None:
        return Page(jobs=found, after=str(JobCursor(0, edge)), searched_to=from_us(edge))
    return Page(jobs=found)


def _ways(wanted: Filter, among: Sequence[State] = tuple(State)) -> Iterator[tuple[Way, list[str]]]:
    """Yield the access paths of tables that can have matches, with the states to find there."""
    states = [state for state in among if not wanted.states or state in wanted.states]
    living = [state.value for state in states if state in LIVE]
    ended = [state.value for state in states if state in ENDED and state is not State.FAILED]
    if living:
        yield _way_to_living(wanted, living), living
    if ended:
        yield HISTORY if wanted.schedule is None else HISTORY_OF_SCHEDULE, ended
    if State.FAILED in states:
        yield FAILED, [State.FAILED.value]


def _way_to_living(wanted: Filter, states: list[str]) -> Way:
    if wanted.schedule is not None:
        return LIVING_OF_SCHEDULE
    return RUNNING if states == [State.RUNNING.value] else LIVING


def _values(wanted: Filter) -> Operation[Values]:
    [(now,)] = yield Ask("now")
    schedules: list[int] | None = None
    if wanted.schedule is not None:
        schedules = yield from _schedules(wanted.schedule)
    return {
        **_names("task", wanted.task),
        **_names("queue", wanted.queue),
        **_names("tenant", wanted.tenant),
        **_names("key", wanted.key),
        "schedules": schedules,
        "flow": wanted.flow,
        "tags": list(wanted.tags),
        "error": wanted.error,
        "texts": list(wanted.texts),
        "since": FIRST if wanted.since is None else _instant(wanted.since, now),
        "before": LAST if wanted.before is None else _instant(wanted.before, now),
    }


def _names(word: str, name: Name | None) -> Values:
    """Return the parameters of a filter by exact name or by pattern."""
    if isinstance(name, Pattern):
        return {word: None, f"{word}_like": name.text}
    return {word: name, f"{word}_like": None}


def _schedules(name: str) -> Operation[list[int]]:
    """Return the schedule of that name, or those that once had it: their jobs are kept."""
    found = yield Ask("schedule_numbers", {"name": name})
    if not found:
        found = yield Ask("former_schedule_numbers", {"name": name})
    if not found:
        yield from unknown(name)
    return [number for (number,) in found]


def _instant(moment: datetime | timedelta, now: int) -> int:
    return now - moment // MICROSECOND if isinstance(moment, timedelta) else to_us(moment)


def _check(what: str, number: object) -> None:
    if type(number) is not int or not 1 <= number <= MOST:
        raise InvalidValue(f"{what}={number!r}: a whole number from 1 to {MOST:,}")
