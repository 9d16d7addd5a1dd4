"""An answer: the sentence, then the evidence, then what can be done."""

from dataclasses import dataclass
from shlex import quote
from typing import NamedTuple

from duly.policy.printable import one_line


class Command(NamedTuple):
    """Something that can be done about it: in a word or two, and what to type."""

    what: str
    line: str
    job_id: int | None = None  # the job that it is about, if it is about one


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    sentence: str
    evidence: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    short: str = ""  # the same beside a name and a time: ``skipped: …``, ``failed after …``

    def __str__(self) -> str:
        width = max((len(command.what) for command in self.commands), default=0)
        steps = [f"  {command.what:{width}}   {command.line}" for command in self.commands]
        lines = [self.sentence, *(f"  {line}" for line in self.evidence), *steps]
        return "\n".join(map(one_line, lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A piece of a sentence without its subject, and what belongs to it."""

    text: str
    evidence: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()


def run_it(schedule: str, *, what: str = "run it now") -> Command:
    return Command(what, f"duly schedules run {quote(schedule)}")


def show_job(number: int) -> Command:
    return Command("see it", f"duly jobs show {number}", number)


def follow_job(number: int) -> Command:
    return Command("see it", f"duly jobs logs {number} -f", number)


def cancel_job(number: int, *, what: str = "stop it") -> Command:
    return Command(what, f"duly jobs cancel {number}", number)


def start_scheduler() -> Command:
    return Command("start one", "duly up")
