"""The explanation of a job or moment: a sentence, its evidence, and commands that help.

Moments are shown in the zone of the schedule, and as short as the context allows. ``JobEvidence``
is what an explanation needs to know of a job.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from shlex import quote
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from duly.durations import DAY, MICROSECOND, MINUTE, SECOND, about
from duly.errors import InvalidValue
from duly.instants import BEGINNING, HORIZON, from_us, to_us
from duly.model.flow import FlowInfo
from duly.model.job import Attempt, StoredJob
from duly.model.journal import ProgressNote
from duly.model.limit import LimitInfo, Queue
from duly.model.policies import check_moment
from duly.model.states import State
from duly.model.worker import WorkerInfo
from duly.policy.redaction import one_line
from duly.policy.verdict import Tried
from duly.rules import local_time, zone_names
from duly.rules.zone import zone_named

A_WEEKDAY_IS_ENOUGH = timedelta(days=6)
_LONGEST_LINE = 200


@dataclass(frozen=True, slots=True)
class SuggestedCommand:
    """A command that helps: what it does in a few words, and the line to type."""

    what: str
    line: Annotated[str, Meta(description="What to type.")]
    job_id: Annotated[int | None, Meta(description="The job that it is about.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The position of a job in its flow. Steps and parts are counted from 1."""

    flow: int
    flow_name: str
    step: int
    name: str  # of the step
    kind: Literal["step", "map", "wait"] = "step"
    part: int | None = None  # of a mapped step
    parts: int = 1

    def __str__(self) -> str:
        part = "" if self.part is None else f", part {self.part:,} of {self.parts:,}"
        return f"step {self.step:,} ({self.name}{part}) of flow {self.flow} {self.flow_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A sentence about a job or a moment, with its evidence and commands that help."""

    sentence: str
    lineage: Lineage | None = None  # of a job that is a step of a flow
    evidence: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()  # a line for each of the last failed attempts
    commands: tuple[SuggestedCommand, ...] = ()
    short: str = ""  # the sentence without name and time: ``skipped: …``, ``failed after …``

    def __str__(self) -> str:
        width = max((len(command.what) for command in self.commands), default=0)
        steps = [f"  {command.what:{width}}   {command.line}" for command in self.commands]
        lines = [self.sentence, *(f"  {line}" for line in self.lines), *steps]
        return "\n".join(map(one_line, lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The lineage, the evidence and the attempts, as the lines below the sentence."""
        lineage = () if self.lineage is None else (str(self.lineage),)
        return (*lineage, *self.evidence, *self.attempts)


class Clause(NamedTuple):
    """The predicate of a sentence, with its evidence and commands."""

    text: str
    evidence: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()
    commands: tuple[SuggestedCommand, ...] = ()

    def explained(
        self, sentence: str, *, short: str = "", lineage: Lineage | None = None
    ) -> Explanation:
        """Return the explanation whose sentence contains this clause."""
        return Explanation(
            sentence=sentence,
            lineage=lineage,
            evidence=self.evidence,
            attempts=self.attempts,
            commands=self.commands,
            short=short,
        )


def run_it(schedule: str, *, what: str = "run it now") -> SuggestedCommand:
    return SuggestedCommand(what, f"duly schedules run {quote(schedule)}")


def show_job(number: int) -> SuggestedCommand:
    return SuggestedCommand("see it", f"duly jobs show {number}", number)


def follow_job(number: int) -> SuggestedCommand:
    return SuggestedCommand("see it", f"duly jobs logs {number} -f", number)


def cancel_job(number: int, *, what: str = "stop it") -> SuggestedCommand:
    return SuggestedCommand(what, f"duly jobs cancel {number}", number)


def start_node() -> SuggestedCommand:
    return SuggestedCommand("start one", "duly up")


class LocalClock(NamedTuple):
    """A zone and the current time; shows moments in that zone."""

    zone: str
    now: datetime

    def whole(self, moment: datetime) -> str:
        """``Fri 2026-11-13 02:00 Europe/Berlin``."""
        local = local_time(moment, self.zone)
        return f"{local:%a %Y-%m-%d} {_time(local)} {self.zone}"

    def due(self, moment: datetime) -> str:
        """Return the whole moment; only the time (``10:00:10 UTC``) for today in UTC."""
        today = local_time(moment, self.zone).date() == local_time(self.now, self.zone).date()
        return f"{self.near(moment)} UTC" if today and self.zone == "UTC" else self.whole(moment)

    def near(self, moment: datetime, to: datetime | None = None) -> str:
        """Return ``02:00``, ``Thu 02:00`` or ``Thu 2026-10-01 02:00``, by distance to ``to``."""
        local, other = local_time(moment, self.zone), local_time(to or self.now, self.zone)
        if local.date() == other.date():
            return _time(local)
        if abs(local - other) < A_WEEKDAY_IS_ENOUGH:
            return f"{local:%a} {_time(local)}"
        return f"{local:%a %Y-%m-%d} {_time(local)}"

    def ago(self, moment: datetime) -> str:
        return about(max(self.now - moment, timedelta()))


def first_line(text: str | None) -> str:
    line = next((line.strip() for line in (text or "").splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _time(local: datetime) -> str:
    return f"{local:%H:%M:%S}" if local.second or local.microsecond else f"{local:%H:%M}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvidence:
    job: StoredJob
    now: datetime
    zone: str = "UTC"
    schedule: str | None = None  # by its name, if one made the job
    attempts: Sequence[Attempt] = ()  # failed attempts
    note: ProgressNote | None = None  # the progress that the job reported
    runner: WorkerInfo | None = None  # the worker that runs it, or did
    usual: timedelta | None = None  # the usual runtime of its schedule
    stopping: str | None = None  # why it was asked to stop, if it was
    is_gone: bool = False  # the worker's process is known to have ended, whatever its lease says
    living: Sequence[WorkerInfo] = ()  # all living workers
    flow: FlowInfo | None = None  # its steps, if it is a flow that was opened
    lineage: Lineage | None = None  # the flow that it is a step of
    # Only for waiting jobs:
    queue: Queue | None = None
    running_in_queue: int = 0
    ahead: int = 0
    limit: LimitInfo | None = None
    behind: StoredJob | None = None  # the run of its schedule that it waits for

    @property
    def clock(self) -> LocalClock:
        return LocalClock(self.zone, self.now)

    @property
    def started_at(self) -> datetime | None:
        """The start of the first attempt."""
        return self.attempts[0].started_at if self.attempts else self.job.claimed_at

    @property
    def tries(self) -> str:
        """``attempt 2 of 3``; attempts lost with a worker do not count as tries, and are named.

        A retry by hand gives a job all its tries again.
        """
        job, most = self.job, Tried.of(self.job).retry.attempts
        at = max(1, job.attempt)
        goes_on = job.state in (State.RUNNING, State.SUCCEEDED)  # attempts hold failed ones only
        before = max(0, len(self.attempts) - (at - 1 if goes_on else at))
        # The crash counter of a job is reset when it succeeds.
        lost = sum(one.outcome == "lost" for one in self.attempts[before:])
        crashes = max(job.crashes, lost)
        number = max(1, at - crashes)
        if crashes:
            one = crashes == 1
            told = "1 was lost with its worker" if one else f"{crashes} were lost with workers"
            return f"attempt {before + at} ({told}: try {number} of {most})"
        if before:
            return f"attempt {before + at} ({number} of {most} since it was retried)"
        return f"attempt {number} of {most}" if number <= most else f"attempt {number}"

    @property
    def is_lost(self) -> bool:
        """Return whether the job is marked as running although its worker is gone."""
        if self.job.state is not State.RUNNING or self.job.worker is None:
            return False
        return self.is_gone or self.runner is None or self.runner.lease_until <= self.now

    @property
    def runner_name(self) -> str:
        return f"worker {self.job.worker}" if self.runner is None else self.runner.name


_TIME = re.compile(
    r"(?:(?P<word>today|yesterday|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*)\b,? *)?"
    r"(?:(?P<date>\d{4}-\d\d-\d\d)(?:[ T]+|$))?"
    r"(?:(?P<time>\d{1,2}:\d\d(?::\d\d(?:\.\d{1,6})?)?))?"
    r"(?P<offset>Z|[+-]\d\d:?\d\d)?"
    r"(?: +(?P<zone>[A-Za-z_+\-0-9/]+))?",
    re.IGNORECASE,
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTime:
    """A range of time, from ``start`` (inclusive) to ``until`` (exclusive).

    ``again`` is the start of the second pass, if the clock was set back and the time came twice.
    ``lost`` means that the clock was set forward over the time, so that it did not exist; ``start``
    is then the moment of the clock change.
    """

    start: datetime
    until: datetime
    text: str
    again: datetime | None = None
    lost: bool = False


def read_time(asked: datetime | str, *, zone: str, now: datetime) -> AskedTime:
    if isinstance(asked, datetime):
        check_moment("at", asked)
        start = asked.astimezone(UTC)
        return AskedTime(start=start, until=start + MICROSECOND, text=str(asked))
    text = asked.strip()
    found = _TIME.fullmatch(text)
    if not text or found is None or not (found["time"] or found["date"] or found["word"]):
        raise _unreadable(asked)
    zone = _zone(found["zone"], zone)
    try:
        clock = time.fromisoformat(found["time"].zfill(5)) if found["time"] else time()
        day = date.fromisoformat(found["date"]) if found["date"] else None
        offset = time.fromisoformat(f"{clock}{(found['offset'] or 'Z').upper()}").tzinfo
    except ValueError:
        raise _unreadable(asked) from None
    if day is not None and not BEGINNING.date() < day < HORIZON.date():
        raise _unreadable(asked)
    length = _precision(found["time"])
    if found["offset"] and day is not None:
        start = datetime.combine(day, clock, offset).astimezone(UTC)
        return AskedTime(start=start, until=start + length, text=text)
    if day is not None:
        return _on(datetime.combine(day, clock), zone, length, text)
    for candidate in _days(found["word"], local_time(now, zone).date()):
        read = _on(datetime.combine(candidate, clock), zone, length, text)
        if read.start <= now:
            return read
    raise _unreadable(asked)


def _days(word: str | None, today: date) -> Iterator[date]:
    """Yield the days that a word may mean, the latest first."""
    word = (word or "").lower()[:3]
    if word in ("tod", "yes"):
        yield today - DAY * (word == "yes")
        return
    for back in range(9):
        day = today - back * DAY
        if not word or _WEEKDAYS[day.weekday()] == word:
            yield day


def _on(wall: datetime, zone: str, length: timedelta, text: str) -> AskedTime:
    """Return the range at which the zone's clock shows a wall time: never, once or twice."""
    there = zone_named(zone)
    shown = to_us(wall.replace(tzinfo=UTC))
    ends = [*there.starts[1:], None]
    instants = [
        shown - offset
        for begin, end, offset in zip(there.starts, ends, there.offsets, strict=True)
        if begin <= shown - offset and (end is None or shown - offset < end)
    ]
    if not instants:
        k = next(k for k in range(1, len(there.starts)) if _jumps_over(there.gap_before(k), shown))
        start = from_us(there.starts[k])
        return AskedTime(start=start, until=start + length, text=text, lost=True)
    start, again = from_us(instants[0]), from_us(instants[1]) if instants[1:] else None
    return AskedTime(start=start, until=start + length, text=text, again=again)


def _jumps_over(gap: tuple[int, int] | None, wall: int) -> bool:
    return gap is not None and gap[0] <= wall < gap[1]


def _precision(text: str | None) -> timedelta:
    if text is None:
        return DAY
    if "." in text:
        return MICROSECOND
    return MINUTE if text.count(":") == 1 else SECOND


def _zone(name: str | None, default: str) -> str:
    if name is None:
        return default
    if name not in zone_names():
        raise InvalidValue(f'"{name}" is not a time zone; without one, {default} is meant')
    return name


def _unreadable(asked: object) -> InvalidValue:
    return InvalidValue(
        f'at={asked!r}: a time that has been, as "02:00", "Thu 02:00" or "2026-11-13 02:00"'
    )
