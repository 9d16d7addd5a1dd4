"""The explanation of a job or moment: a sentence, its evidence, and commands that help.

Moments are shown in the zone of the schedule, and as short as the context allows.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import NamedTuple

from duly.policy.printable import one_line
from duly.rules import local_time

A_WEEKDAY_IS_ENOUGH = timedelta(days=6)
_LONGEST_LINE = 200
_DAYS = ((86_400, "d"), (3_600, "h"))
_HOURS = ((3_600, "h"), (60, "min"))
_MINUTES = ((60, "min"), (1, "s"))


@dataclass(frozen=True, slots=True)
class SuggestedCommand:
    """A command that helps: what it does in a few words, and the line to type."""

    what: str
    line: str
    job_id: int | None = None  # the job that the command is about, if any


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    sentence: str
    evidence: tuple[str, ...] = ()
    commands: tuple[SuggestedCommand, ...] = ()
    short: str = ""  # the sentence without name and time: ``skipped: …``, ``failed after …``

    def __str__(self) -> str:
        width = max((len(command.what) for command in self.commands), default=0)
        steps = [f"  {command.what:{width}}   {command.line}" for command in self.commands]
        lines = [self.sentence, *(f"  {line}" for line in self.evidence), *steps]
        return "\n".join(map(one_line, lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """The predicate of a sentence, with its evidence and commands."""

    text: str
    evidence: tuple[str, ...] = ()
    commands: tuple[SuggestedCommand, ...] = ()


def run_it(schedule: str, *, what: str = "run it now") -> SuggestedCommand:
    return SuggestedCommand(what, f"duly schedules run {quote(schedule)}")


def show_job(number: int) -> SuggestedCommand:
    return SuggestedCommand("see it", f"duly jobs show {number}", number)


def follow_job(number: int) -> SuggestedCommand:
    return SuggestedCommand("see it", f"duly jobs logs {number} -f", number)


def cancel_job(number: int, *, what: str = "stop it") -> SuggestedCommand:
    return SuggestedCommand(what, f"duly jobs cancel {number}", number)


def start_scheduler() -> SuggestedCommand:
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


def about(length: timedelta) -> str:
    """``12 ms``, ``3.2 s``, ``40 min``, ``27 h 58 min``, ``3 d 4 h``."""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{round(seconds * 1_000)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    units = _DAYS if whole >= 48 * 3_600 else _HOURS if whole >= 3_600 else _MINUTES
    (size, unit), (smaller, small_unit) = units
    count, rest = divmod(whole, size)
    left = rest // smaller
    return f"{count} {unit} {left} {small_unit}" if left else f"{count} {unit}"


def first_line(text: str | None) -> str:
    line = next((line.strip() for line in (text or "").splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _time(local: datetime) -> str:
    return f"{local:%H:%M:%S}" if local.second or local.microsecond else f"{local:%H:%M}"
