"""The lines of a crontab, as Vixie cron and cronie read them.

A line is blank, a comment, a variable (``NAME = value``), or a job: five fields or one ``@word``,
in a system crontab a user, and then the command. There are no continuation lines and no comments
after a command. An unescaped ``%`` ends the command; the text after it is the standard input, in
which every further ``%`` is a newline. A backslash escapes a ``%``, quotation marks do not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_VARIABLE: Final = re.compile(
    r"""(?:"(?P<quoted>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s=#"'][^\s=]*))\s*=\s*(?P<value>.*)"""
)
_JOB: Final = re.compile(r"(?P<when>@\S+|\S+(?:\s+\S+){4})\s+(?P<rest>\S.*)")
_WITH_USER: Final = re.compile(r"(?P<user>\S+)\s+(?P<rest>\S.*)")
_USER: Final = re.compile(r"[a-z_][a-z0-9_.-]*\$?(?:[:/][a-z0-9_.-]+)?")
_FIELD: Final = re.compile(
    r"(?:[\d*?~,/-]|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|"
    r"(?:sun|mon|tue|wed|thu|fri|sat))+",
    re.IGNORECASE,
)

_WELL_KNOWN: Final = frozenset({"root", "www-data", "nobody", "daemon", "apache"})
_WORDS: Final = frozenset(
    {"@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
)


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line; it ends the comment above it."""

    number: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable for the jobs below it, until it is set again."""

    number: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class CrontabJob:
    """A job: its time, command, standard input and user."""

    number: int
    when: str
    command: str
    stdin: str | None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line that cron itself would refuse."""

    number: int
    text: str


Line = Blank | Comment | Variable | CrontabJob | UnreadableLine


def read_lines(text: str, *, system: bool) -> Iterator[Line]:
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        yield _read_line(number, line.strip(" \t"), system=system)


def has_users(text: str) -> bool:
    """Return whether each job names a user and one of the users is well known."""
    jobs = [line for line in read_lines(text, system=False) if isinstance(line, CrontabJob)]
    named = [found for job in jobs if (found := _WITH_USER.fullmatch(job.command))]
    users = [found["user"] for found in named if _USER.fullmatch(found["user"])]
    return len(users) == len(jobs) and not _WELL_KNOWN.isdisjoint(users)


def is_a_job(text: str) -> bool:
    """Return whether a comment is a disabled job."""
    found = _JOB.fullmatch(text.strip())
    if not found:
        return False
    if found["when"].startswith("@"):
        return found["when"].lower() in _WORDS
    return all(_FIELD.fullmatch(field) for field in found["when"].split())


def _read_line(number: int, line: str, *, system: bool) -> Line:
    if not line:
        return Blank(number)
    if line.startswith("#"):
        return Comment(number, line.lstrip("#").strip())
    if found := _VARIABLE.fullmatch(line):
        name = found["quoted"] or found["single"] or found["bare"] or ""
        return Variable(number, name, _unquoted(found["value"]))
    return _job(number, line, system=system)


def _job(number: int, line: str, *, system: bool) -> CrontabJob | UnreadableLine:
    found = _JOB.fullmatch(line.removeprefix("-"))  # cronie: not to be logged
    if not found:
        return UnreadableLine(number, line)
    user, rest = None, found["rest"]
    if system:
        behind = _WITH_USER.fullmatch(rest)
        if not behind:
            return UnreadableLine(number, line)
        user, rest = behind["user"], behind["rest"]
    command, stdin = split_at_percent(rest)
    if not command.strip():
        return UnreadableLine(number, line)
    return CrontabJob(number, " ".join(found["when"].split()), command.strip(), stdin, user)


def split_at_percent(rest: str) -> tuple[str, str | None]:
    r"""Split a command from its standard input; ``\%`` is a percent sign."""
    command = re.match(r"(?:[^\\%]|\\.|\\\Z)*", rest, re.DOTALL)
    end = command.end() if command else 0
    stdin = re.sub(r"\\%|%", lambda found: "%" if found[0] == r"\%" else "\n", rest[end + 1 :])
    if stdin and not stdin.endswith("\n"):
        stdin += "\n"
    return re.sub(r"\\(.)", _unescaped, rest[:end]), stdin or None


def _unescaped(found: re.Match[str]) -> str:
    return "%" if found[1] == "%" else found[0]


def _unquoted(value: str) -> str:
    """Remove one pair of quotation marks, as cron does."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
