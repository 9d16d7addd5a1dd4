"""Import from a crontab of a user (``crontab -l``) or of the system (``/etc/crontab``).

Every job becomes a shell line, named after its program. A comment directly above it becomes its
title. Variables apply to the jobs below them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, assert_never

from duly.errors import RuleError
from duly.files.importers.collector import (
    ImportCollector,
    Imported,
    lines,
    title_of,
    zone_asked_for,
)
from duly.files.importers.program_name import program_name
from duly.files.schedule_file import ScheduleEntry
from duly.rules.cron import FIELDS, CronField
from duly.rules.rule_text import checked_zone

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


OWN_SHELL: Final = ("/bin/sh", "sh")
MAIL: Final = ("MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING")
ANACRON: Final = ("START_HOURS_RANGE", "NO_MAIL_OUTPUT", "PREFERRED_HOUR")

_HEADING: Final = re.compile(
    r"m(?:in\w*)?[ ,]+h(?:our)?[ ,]+d\w*.*|\W*(?:minute|hour|day of|month|m h dom).*|"
    r"DO NOT EDIT THIS FILE.*|\(.*installed on.*|\(Cron version.*|[^A-Za-z0-9]*",
    re.IGNORECASE,
)
_RANDOM: Final = re.compile(r"(?P<low>\w*)~(?P<high>\w*)(?:/(?P<step>\d+))?")
_OPEN_STEP: Final = re.compile(r"(?:^|[\s,])(\w+/\d+)")
_RELATIVE: Final = re.compile(r"(?:^|[\s;&|(<>])\.{1,2}/|^[\w-]+/")
_GOES_SOMEWHERE: Final = re.compile(r"\bcd\s")


def from_crontab(
    text: str,
    *,
    zone: str | None = None,
    machine_zone: str | None = None,
    system: bool | None = None,
) -> Imported:
    """Read a crontab.

    ``zone`` is the zone of its times; it is required unless ``CRON_TZ`` is set for every job.
    ``system`` says whether each command has a user before it; None: find out.
    """
    reader = _CrontabReader(checked_zone(zone), machine_zone)
    for line in read_lines(text, system=has_users(text) if system is None else system):
        reader.take(line)
    reader.note_what_differs()
    return reader.basket.imported()


@dataclass(slots=True)
class _CrontabReader:
    """Reads line by line; variables and comments above a job apply to it."""

    zone: str | None
    machine_zone: str | None
    basket: ImportCollector = field(default_factory=ImportCollector)
    comment: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    cron_zone: str | None = None
    shell: str = "/bin/sh"
    delay: int = 0
    users: dict[str, list[int]] = field(default_factory=dict)
    relative: list[int] = field(default_factory=list)

    def take(self, line: Blank | Comment | Variable | CrontabJob | UnreadableLine) -> None:
        match line:
            case Comment():
                self.remember(line.text)
                return
            case CrontabJob():
                self.job(line)
            case Variable():
                self.set(line)
            case UnreadableLine():
                self.basket.leave_out(
                    f"line {line.number}",
                    f'"{_short(line.text)}" is neither a job nor a variable',
                )
            case Blank():
                pass
            case _:
                assert_never(line)
        self.comment.clear()

    def remember(self, text: str) -> None:
        """Collect the comment above a job; headings and disabled jobs reset it."""
        if is_a_job(text) or _HEADING.fullmatch(text):
            self.comment.clear()
        else:
            self.comment.append(text)

    def job(self, job: CrontabJob) -> None:
        where = f"line {job.number}"
        if job.when.lower() == "@reboot":
            self.basket.note(
                where,
                f'@reboot is not a rule about time, so "{_short(job.command)}" is left out: start '
                "it with the machine, from a systemd unit for example",
            )
            return
        zone = self.cron_zone or self.zone
        if zone is None:
            raise zone_asked_for("a crontab", self.machine_zone)
        rule = self.rule(job)
        name = self.basket.free_name(program_name(job.command))
        if self.basket.add(where, self.entry(job, name=name, rule=rule, zone=zone)):
            self.note_about(job)

    def rule(self, job: CrontabJob) -> str:
        if "~" not in job.when:
            return "* * * * *" if job.when == "@every_minute" else job.when
        picked = _picked_by_name(job.when)
        self.basket.note(
            f"line {job.number}",
            f'"{job.when}" becomes "{picked}": picked once, by the schedule\'s name, and not '
            "anew whenever cron starts",
        )
        return picked

    def entry(self, job: CrontabJob, *, name: str, rule: str, zone: str) -> ScheduleEntry:
        plain = self.shell in OWN_SHELL
        return ScheduleEntry(
            name=name,
            rule=rule,
            zone=zone,
            shell=job.command if plain else None,
            command=() if plain else (self.shell, "-c", job.command),
            stdin=job.stdin,
            env=dict(self.env),
            cwd=self.env.get("HOME"),
            title=title_of(" ".join(self.comment)),
            jitter=f"{self.delay}m" if self.delay else None,
            note=f"ran as {job.user}" if job.user else "",
        )

    def note_about(self, job: CrontabJob) -> None:
        if job.user:
            self.users.setdefault(job.user, []).append(job.number)
        placed = "HOME" in self.env or _GOES_SOMEWHERE.search(job.command)
        if not placed and _RELATIVE.search(job.command):
            self.relative.append(job.number)
        for step in _OPEN_STEP.findall(job.when):
            self.basket.note(
                f"line {job.number}",
                f"{step} means from {step.partition('/')[0]} on in steps; some crons refuse it, "
                "some take the first value alone: write the range that is meant",
            )

    def set(self, variable: Variable) -> None:
        where, name, value = f"line {variable.number}", variable.name, variable.value
        if name == "CRON_TZ":
            self.set_zone(where, value)
        elif name == "RANDOM_DELAY":
            self.set_delay(where, value)
        elif name == "SHELL":
            self.set_shell(where, value)
        elif name in MAIL:
            if value:
                self.basket.note(
                    where,
                    f"{name}={value} is not converted: [alerts] in duly.toml sends mail; "
                    "what a job prints is in its log (duly jobs logs)",
                )
        elif name == "LOGNAME" or name in ANACRON:
            self.basket.note(where, f"{name} is not converted: cron itself does not heed it")
        else:
            self.env[name] = value
            self.note_variable(where, name, value)

    def set_zone(self, where: str, value: str) -> None:
        try:
            self.cron_zone = checked_zone(value) if value else None
        except RuleError as error:
            self.cron_zone = None
            self.basket.note(where, f"CRON_TZ={value} is not converted: {error}")
            return
        if value:
            self.basket.note(
                where,
                f"CRON_TZ={value} is the zone of the jobs below it, as in cronie; Debian's cron "
                "does not heed it: if this ran there, change their zone",
            )

    def set_delay(self, where: str, value: str) -> None:
        self.delay = int(value) if re.fullmatch(r"\d{1,5}", value, re.ASCII) else 0
        if not self.delay and value != "0":
            self.basket.note(where, f"RANDOM_DELAY={value} is not a number of minutes; left out")

    def set_shell(self, where: str, value: str) -> None:
        self.shell = value or "/bin/sh"
        if self.shell not in OWN_SHELL:
            self.basket.note(
                where,
                f'SHELL={value} is kept: the jobs below it run as command = ["{value}", "-c", '
                "…]; where /bin/sh will do, write shell = …",
            )

    def note_variable(self, where: str, name: str, value: str) -> None:
        if name == "PATH":
            self.basket.note(where, "PATH becomes env of the jobs below it")
        elif name == "TZ":
            self.basket.note(
                where,
                f"TZ={value} becomes env of the commands; their times stay in the zone of "
                "the crontab, as in cron: change zone if yours took it for that",
            )
        if "$" in value:
            self.basket.note(
                where, f"{name}={value} is kept as it is: cron puts no value for a $ either"
            )

    def note_what_differs(self) -> None:
        for user, numbers in self.users.items():
            self.basket.note(
                lines(numbers),
                f"ran as {user}; duly runs a command as the user who started the worker: start one "
                f"as {user} with a queue of its own, or write sudo -u {user} before the command",
            )
        if self.relative:
            self.basket.note(
                lines(self.relative),
                "cron starts in the user's home, duly where the worker was started: write cwd = …",
            )
        if self.basket.entries:
            self.basket.note(
                "every line",
                "cron starts a line even while its last run is running, and forgets runs that "
                "were due while the machine was off; duly skips the former and catches up once for "
                'the latter: write overlap = "allow" or missed = "skip" for cron\'s behaviour',
            )


def _picked_by_name(when: str) -> str:
    """Convert ``0~30 2 * * *`` to ``H(0-30) 2 * * *``."""
    return " ".join(
        ",".join(_picked(item, column) for item in text.split(","))
        for text, column in zip(when.split(), FIELDS, strict=False)
    )


def _picked(item: str, column: CronField) -> str:
    found = _RANDOM.fullmatch(item)
    if not found:
        return item
    step = f"/{found['step']}" if found["step"] else ""
    if not found["low"] and not found["high"]:
        return f"H{step}"
    low = _number(found["low"], column) if found["low"] else str(column.low)
    high = _number(found["high"], column) if found["high"] else str(column.last_hashed)
    return f"H({low}-{high}){step}"


def _number(word: str, column: CronField) -> str:
    known = column.names
    return str(known.index(word.lower()) + column.low) if word.lower() in known else word


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
