"""The lines of a crontab, as Vixie's cron and cronie read them.

A line is blank, a comment, a variable (``NAME = value``), or a job: five fields or one ``@word``,
in a system crontab a user, and the rest is a command. There are no continuation lines and no
comments behind a command. An unescaped ``%`` ends the command, and what follows it is its standard
input with every further ``%`` a new line; quotation marks do not protect a ``%``, a backslash does.
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
    """Nothing: it ends the comment above it."""

    number: int


@dataclass(frozen=True, slots=True)
class Comment:
    """What a person wrote for people."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """What holds for every job below it, until it is set again."""

    number: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class CrontabJob:
    """When, what, and as whom."""

    number: int
    when: str
    command: str
    stdin: str | None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """What cron itself would refuse."""

    number: int
    text: str


Line = Blank | Comment | Variable | CrontabJob | UnreadableLine


def read_lines(text: str, *, system: bool) -> Iterator[Line]:
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        yield _read_line(number, line.strip(" \t"), system=system)


def has_users(text: str) -> bool:
    """Whether it looks like a system crontab: each job names a user, and one is well known."""
    jobs = [line for line in read_lines(text, system=False) if isinstance(line, CrontabJob)]
    named = [found for job in jobs if (found := _WITH_USER.fullmatch(job.command))]
    users = [found["user"] for found in named if _USER.fullmatch(found["user"])]
    return len(users) == len(jobs) and not _WELL_KNOWN.isdisjoint(users)


def is_a_job(text: str) -> bool:
    """Whether a comment is a job that somebody has switched off."""
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
    r"""The command, and its standard input: ``\%`` is a percent sign, ``%`` the end or a line's."""
    command = re.match(r"(?:[^\\%]|\\.|\\\Z)*", rest, re.DOTALL)
    end = command.end() if command else 0
    stdin = re.sub(r"\\%|%", lambda found: "%" if found[0] == r"\%" else "\n", rest[end + 1 :])
    if stdin and not stdin.endswith("\n"):
        stdin += "\n"
    return re.sub(r"\\(.)", _unescaped, rest[:end]), stdin or None


def _unescaped(found: re.Match[str]) -> str:
    return "%" if found[1] == "%" else found[0]


def _unquoted(value: str) -> str:
    """Cron takes off one pair of quotation marks, and looks at nothing inside."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
