"""The content of a file of schedules, as it was written, and the notation of its values in TOML.

An entry checks only its shape: exactly one thing to run, and the keys that go with it. Rules and
policies are checked when a file is read. Messages show values in TOML too, on one line each, so
that they can be pasted into the file.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timezone
from typing import Final, NoReturn

from duly.durations import MINUTE
from duly.errors import InvalidValue
from duly.policy.redaction import hidden, redacted, shortened

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f"} | {
    "\r": "\\r"
}
_QUOTED = re.compile(r'["\\]')


def table(*keys: str) -> str:
    """``[schedules.backup]``, ``[limits."crm:{customer_id}"]``."""
    return f"[{'.'.join(key(name) for name in keys)}]"


def key(name: str) -> str:
    return name if _BARE.fullmatch(name) else string(name)


def string(text: str) -> str:
    """Return a string in double quotes, or in single quotes if that avoids backslashes.

    Characters that do not print are escaped, for TOML and for terminals.
    """
    if _QUOTED.search(text) and text.isprintable() and "'" not in text:
        return f"'{text}'"
    return f'"{"".join(map(_escaped, text))}"'


def toml_value(found: object) -> str:  # noqa: PLR0911 - a kind of value a line
    """Return a value in TOML; None is refused, because TOML has no null."""
    match found:
        case bool():
            return "true" if found else "false"
        case int():
            return str(found)
        case float():
            return repr(found)
        case str():
            return string(found)
        case datetime():
            return _moment(found)
        case date() | time():
            return found.isoformat()
        case Mapping():
            inside = ", ".join(f"{key(name)} = {toml_value(item)}" for name, item in found.items())
            return f"{{ {inside} }}" if inside else "{}"
        case list() | tuple():
            return f"[{', '.join(toml_value(item) for item in found)}]"
        case _:
            raise InvalidValue(f"{found!r}: TOML has no {type(found).__name__}")


def shown(found: object) -> str:
    """Return a value for a message: in TOML, without secrets, shortened."""
    return shortened(shown_whole(found))


def shown_whole(found: object) -> str:
    """Return a value in TOML without secrets, at any length; ``nothing`` for None."""
    safe = hidden(found)
    try:
        return "nothing" if found is None else redacted(toml_value(safe))
    except InvalidValue:
        return redacted(repr(safe))


def _moment(moment: datetime) -> str:
    offset = moment.utcoffset()
    # Historic offsets have seconds, which TOML does not allow.
    in_minutes = offset is None or not offset % MINUTE
    return (moment if in_minutes else moment.astimezone(UTC)).isoformat()


def _escaped(letter: str) -> str:
    if (known := _ESCAPES.get(letter)) is not None:
        return known
    if letter.isprintable():
        return letter
    number = ord(letter)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


LONGEST_NAME: Final = 200
KINDS: Final = ("task", "command", "shell", "http")
HTTP_KEYS: Final = ("url", "method", "headers", "body", "expect", "timeout", "sign")

_UNSEEN = ("Cc", "Cs", "Zl", "Zp")  # control characters, lone surrogates, line separators


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """One ``[schedules.NAME]``: rule, what runs, and policies. None: not set."""

    name: str
    rule: str  # as it was written: "30 2 * * *", "Mon..Fri 02:00", "every 5m"
    zone: str | None = None  # None: in the rule, in [defaults], or not needed
    # What runs: exactly one of the four.
    task: str | None = None  # a Python task by name, with args
    args: Mapping[str, object] = field(default_factory=dict)
    command: tuple[str, ...] = ()  # argv, without a shell
    shell: str | None = None  # a line for /bin/sh -c
    http: Mapping[str, object] | None = None
    cwd: str | None = None  # of command and shell, as env and stdin
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    # The label and the policies, in the words of @duly.schedule and @duly.task.
    title: str = ""
    queue: str | None = None
    priority: int | str | None = None
    tags: tuple[str, ...] = ()
    tenant: str = ""
    submitter: str = ""
    overlap: str | None = None
    missed: str | Mapping[str, object] | None = None  # "all", { choice = "all", at_most = 10 }
    start_within: str | None = None
    late: str | None = None
    dst: str | None = None
    exclude: str | None = None  # a rule, or the name of a [calendars.NAME]
    jitter: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    max_runs: int | None = None
    timeout: str | None = None
    attempts: int | None = None
    paused: bool = False
    note: str = ""  # why it is paused; without a pause, a remark that becomes a comment

    def __post_init__(self) -> None:
        check_name("schedules", self.name)
        if not self.rule.strip():
            self._refuse('needs a rule, as rule = "30 2 * * *"')
        self._check_what_runs()
        for what in ("start", "end"):
            moment = getattr(self, what)
            if moment is not None:
                object.__setattr__(self, what, self._placed(what, moment))

    @property
    def kind(self) -> str:
        """``task``, ``command``, ``shell`` or ``http``: what runs."""
        return self._kinds()[0]

    def _kinds(self) -> list[str]:
        # An empty command is not set; an empty shell line is set, and refused below.
        return [kind for kind in KINDS if getattr(self, kind) not in (None, ())]

    def _check_what_runs(self) -> None:
        found = self._kinds()
        if len(found) != 1:
            there = " and ".join(found) or "none of them"
            self._refuse(f"says what runs by exactly one of {', '.join(KINDS)}; found {there}")
        kind = found[0]
        if kind != "task" and self.args:
            self._refuse(f"args go with task, and what runs here is {kind}")
        for what in ("cwd", "env", "stdin"):
            if kind not in ("command", "shell") and getattr(self, what):
                self._refuse(f"{what} goes with command or shell, and what runs here is {kind}")
        if kind == "http":
            self._check_http()
        elif kind == "command":
            self._check_command()
        elif not str(getattr(self, kind)).strip():
            self._refuse(f"{kind} is empty")

    def _check_command(self) -> None:
        command: object = self.command
        if not isinstance(command, tuple) or not command[0]:
            self._refuse('command is a program and its arguments, as ["/srv/backup", "--full"]')

    def _check_http(self) -> None:
        http = self.http
        if not isinstance(http, Mapping) or not isinstance(http.get("url"), str):
            self._refuse('http needs a url, as http = { url = "https://example.com/hook" }')
        for key in http:
            if key not in HTTP_KEYS:
                self._refuse(f"http knows no {shown(key)}; it has {', '.join(HTTP_KEYS)}")

    def _placed(self, what: str, moment: datetime) -> datetime:
        """Return the moment with a fixed offset.

        A datetime in the repeated hour of a zone does not compare equal to itself once it is read.
        """
        offset = moment.utcoffset()
        if offset is None:
            self._refuse(f"{what} = {moment.isoformat()} needs an offset, as {moment}Z")
        return moment.astimezone(timezone(offset))

    def _refuse(self, problem: str) -> NoReturn:
        raise InvalidValue(f"{table('schedules', self.name)} {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """One ``[queues.NAME]``."""

    name: str
    paused: bool = False
    note: str = ""
    concurrency: int | None = None
    rate: str | None = None  # "50/s"
    fair: bool = False

    def __post_init__(self) -> None:
        check_name("queues", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEntry:
    """One ``[limits.NAME]``."""

    name: str
    concurrency: int | None = None
    rate: str | None = None

    def __post_init__(self) -> None:
        check_name("limits", self.name)
        if self.concurrency is None and self.rate is None:
            raise InvalidValue(
                f"{table('limits', self.name)} limits nothing: "
                'say concurrency = 1, or rate = "5/s", or both'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFile:
    """A whole file: its entries by name, in order."""

    schedules: Mapping[str, ScheduleEntry] = field(default_factory=dict)
    queues: Mapping[str, QueueEntry] = field(default_factory=dict)
    limits: Mapping[str, LimitEntry] = field(default_factory=dict)
    calendars: Mapping[str, str] = field(default_factory=dict)  # name -> rule, for exclude
    zone: str | None = None  # [defaults] zone, or the default zone of the reader

    def resolved(self) -> "ScheduleFile":
        """Return a copy whose entries do not depend on the default zone and the calendars."""
        return ScheduleFile(
            schedules={name: self.resolved_entry(entry) for name, entry in self.schedules.items()},
            queues=self.queues,
            limits=self.limits,
        )

    def resolved_entry(self, entry: ScheduleEntry) -> ScheduleEntry:
        exclude = self.calendars.get(entry.exclude or "", entry.exclude)
        return replace(entry, zone=entry.zone or self.zone, exclude=exclude)


def check_name(kind: str, name: object) -> None:
    """Refuse a name that is empty, too long, or has control characters."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidValue(f"[{kind}] {shown(name)}: a name is 1 to {LONGEST_NAME} characters")
    if any(unicodedata.category(character) in _UNSEEN for character in name):
        raise InvalidValue(f"[{kind}] {shown(name)}: a name has no control characters")
