"""Import of a systemd service: its commands, folder and environment, and notes about the rest.

One plain command in ``ExecStart=`` stays a program with its arguments. Several commands, one whose
failure is ignored, or one with variables become a shell line: systemd splits ``$NAME`` into words
and does not split ``${NAME}``, as a shell does with ``$NAME`` and ``"${NAME}"``.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from duly.declare.importers.systemd_units import Unit, read_span
from duly.durations import show_duration
from duly.rules.explain import listed

STEPS: Final = ("ExecStartPre", "ExecStart", "ExecStartPost")
# Settings about logging, stopping, and services that keep running: they are ignored.
OF_NO_MATTER: Final = frozenset(
    {"Type", "RemainAfterExit", "SyslogIdentifier", "StandardOutput", "StandardError", "KillMode"}
    | {"KillSignal", "SendSIGKILL", "TimeoutStopSec", "TimeoutSec", "NotifyAccess", "PIDFile"}
    | {"SyslogFacility", "SyslogLevel", "LogLevelMax", "GuessMainPID", "CollectMode"}
)
SPOKEN_OF: Final = frozenset(
    {*STEPS, "WorkingDirectory", "Environment", "EnvironmentFile", "User", "Group", "DynamicUser"}
    | {"TimeoutStartSec", "RuntimeMaxSec", "PassEnvironment"}
)
INSTEAD: Final = {
    "SuccessExitStatus": "every exit code but 0 is a failure: let the command end with 0",
    "Restart": "a failed run is tried again as often as attempts = … says",
    "ExecCondition": "put the test before the command",
    "ExecStop": "nothing is done when a run is stopped",
    "ExecStopPost": "nothing is done behind a run that failed: let the command do it",
    "StandardInput": "write the input as stdin = …",
    "StandardInputText": "write it as stdin = …",
    "StandardInputData": "write it as stdin = …",
}

_PREFIXES: Final = "@-:+!|"
_PIECE: Final = re.compile(
    r"\\(?P<escape>x[0-9a-fA-F]{2}|[0-7]{3}|.)|(?P<mark>[\"'])|(?P<space>\s+)|[^\\\"'\s]+|\\\Z"
)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {
    "s": " ",
    "\\": "\\",
    '"': '"',
    "'": "'",
}
_ALONE: Final = re.compile(r"\$[A-Za-z_]\w*", re.ASCII)
_INSIDE: Final = re.compile(r"(\$\{[A-Za-z_]\w*\})", re.ASCII)
_SPECIAL: Final = re.compile(r"([\\\"$`])")


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A program with its arguments, and the prefixes that tell systemd how to run it."""

    prefixes: str
    words: tuple[str, ...]

    @property
    def may_fail(self) -> bool:
        return "-" in self.prefixes

    @property
    def privileged(self) -> bool:
        return "+" in self.prefixes or "!" in self.prefixes

    @property
    def has_variables(self) -> bool:
        return ":" not in self.prefixes and any(
            _ALONE.fullmatch(word) or _INSIDE.search(word.replace("$$", "")) for word in self.words
        )

    def argv(self) -> tuple[str, ...]:
        if ":" in self.prefixes:
            return self.words
        return tuple(word.replace("$$", "$") for word in self.words)

    def line(self) -> str:
        if ":" in self.prefixes:
            return shlex.join(self.words)
        return " ".join(map(_for_the_shell, self.words))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """The fields of an entry that come from a service, and notes about the rest."""

    command: tuple[str, ...] = ()
    shell: str | None = None
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    timeout: str | None = None
    user: str | None = None
    title: str = ""
    notes: tuple[str, ...] = ()


def read_service(unit: Unit) -> ServiceUnit:
    try:
        commands = _commands(unit)
        env = _environment(unit)
    except ValueError as error:
        return ServiceUnit(notes=(f"{error}; it is left out",))
    if not commands:
        return ServiceUnit(notes=("it has no ExecStart=; it is left out",))
    command, shell = what_runs(commands)
    cwd = (unit.last("Service", "WorkingDirectory") or "").removeprefix("-")
    return ServiceUnit(
        command=command,
        shell=shell,
        cwd=cwd if cwd and cwd != "~" else None,
        env=env,
        timeout=_timeout(unit),
        user=unit.last("Service", "User"),
        title=unit.last("Unit", "Description") or "",
        notes=(*_about_commands(commands), *_about_surroundings(unit), *_about_the_rest(unit)),
    )


def about_any_unit(unit: Unit) -> list[str]:
    """Return notes about conditions and unknown specifiers of a unit."""
    notes = []
    checks = [key for key in unit.keys("Unit") if key.startswith(("Condition", "Assert"))]
    if checks:
        notes.append(f"{_are(checks)} not checked: put a test before the command")
    if unit.unfilled:
        notes.append(f"{listed(unit.unfilled)} stands there unfilled: write what it stood for")
    return notes


def _commands(unit: Unit) -> list[ExecCommand]:
    """Return the commands of all steps; each runs only if the one before it succeeded."""
    if not unit.values("Service", "ExecStart"):
        return []
    return [command for step in STEPS for command in read_commands(unit.values("Service", step))]


def _environment(unit: Unit) -> dict[str, str]:
    words = (word for text in unit.values("Service", "Environment") for word in split_words(text))
    return dict(word.split("=", 1) for word in words if "=" in word)


def _timeout(unit: Unit) -> str | None:
    """Return the timeout; for a oneshot service the start timeout counts too."""
    keys = ["RuntimeMaxSec"]
    if unit.last("Service", "Type") == "oneshot":
        keys.append("TimeoutStartSec")
    for key in keys:
        length = read_span(unit.last("Service", key) or "")
        if length:
            return show_duration(length)
    return None


def _about_commands(commands: list[ExecCommand]) -> list[str]:
    notes = []
    if len(commands) > 1:
        notes.append(
            f"its {len(commands)} commands are carried as one line for the shell, each after the "
            "one before it succeeded"
        )
    if any(command.may_fail for command in commands):
        notes.append('"-" before a command is carried as || true: its failure is not seen')
    if any(command.privileged for command in commands):
        notes.append('"+" or "!" before a command is not carried: it ran with all privileges')
    if any("@" in command.prefixes for command in commands):
        notes.append('"@" before a command is not carried: the program has its own name')
    return notes


def _about_surroundings(unit: Unit) -> list[str]:
    notes = []
    user = unit.last("Service", "User")
    if user:
        notes.append(
            f"User={user}: duly runs a command as the user who started the worker: start one as "
            f"{user} with a queue of its own, or write sudo -u {user} before the command"
        )
    other = [key for key in ("Group", "DynamicUser") if unit.last("Service", key)]
    if other:
        notes.append(f"{_are(other)} not carried: a command has the worker's own")
    if unit.last("Service", "WorkingDirectory") == "~":
        notes.append("WorkingDirectory=~ is not carried: write cwd = … with the home of its user")
    notes += [
        f"EnvironmentFile={path} is not read: write its values into env"
        for path in unit.values("Service", "EnvironmentFile")
    ]
    passed = unit.last("Service", "PassEnvironment")
    if passed:
        notes.append(f"PassEnvironment={passed} is not carried: write the values into env")
    return notes


def _about_the_rest(unit: Unit) -> list[str]:
    notes = about_any_unit(unit)
    for key, advice in INSTEAD.items():
        value = unit.last("Service", key)
        if value and value != "no":
            notes.append(f"{key}={value} is not carried: {advice}")
    if unit.last("Service", "Type") == "forking":
        notes.append("Type=forking: duly waits for the command itself: let it stay in front")
    known = OF_NO_MATTER | SPOKEN_OF | INSTEAD.keys()
    left = [key for key in unit.keys("Service") if key not in known]
    if left:
        notes.append(
            f"{_are(left)} not carried: duly puts no limits and no fence around a command; "
            "write systemd-run, nice or their like before it where they matter"
        )
    return notes


def _are(words: list[str]) -> str:
    return f"{listed(words)} {'is' if len(words) == 1 else 'are'}"


def read_commands(values: Iterable[str]) -> Iterator[ExecCommand]:
    """Yield the commands; raise ``ValueError`` for an unbalanced quotation mark."""
    for value in values:
        rest = value.lstrip(_PREFIXES)
        prefixes = value[: len(value) - len(rest)]
        for words in _divided(split_words(rest)):
            if "@" in prefixes:
                del words[1:2]  # argv[0]
            if words:
                yield ExecCommand(prefixes, tuple(words))


def what_runs(commands: Sequence[ExecCommand]) -> tuple[tuple[str, ...], str | None]:
    """Return arguments for ``command``, or a line for ``shell``."""
    first = commands[0]
    if len(commands) == 1 and not first.may_fail and not first.has_variables:
        return first.argv(), None
    if len(commands) == 1:
        return (), first.line() + (" || true" if first.may_fail else "")
    steps = (f"{{ {c.line()} || true; }}" if c.may_fail else c.line() for c in commands)
    return (), " && ".join(steps)


def split_words(text: str) -> list[str]:
    """Split into words as systemd does, with both quotation marks and C escapes."""
    words: list[str] = []
    word: str | None = None
    mark = ""
    for piece in _PIECE.finditer(text):
        if piece["space"] and not mark:
            words += [] if word is None else [word]
            word = None
        elif piece["mark"] and mark in ("", piece["mark"]):
            mark, word = ("" if mark else piece["mark"]), word or ""
        else:
            escape = piece["escape"]
            word = (word or "") + (_meant(escape) if escape else piece[0])
    if mark:
        raise ValueError(f"a {mark} without its fellow")
    return words if word is None else [*words, word]


def _divided(words: Iterable[str]) -> Iterator[list[str]]:
    """Split at semicolons that are words of their own."""
    command: list[str] = []
    for word in words:
        if word == ";":
            yield command
            command = []
        else:
            command.append(";" if word == "\\;" else word)
    yield command


def _meant(escape: str) -> str:
    if len(escape) == 3:
        return chr(int(escape[1:], 16) if escape[0] == "x" else int(escape, 8))
    return _ESCAPES.get(escape, f"\\{escape}")


def _for_the_shell(word: str) -> str:
    if _ALONE.fullmatch(word):
        return word
    plain = word.replace("$$", "\0")
    if not _INSIDE.search(plain):
        return shlex.quote(plain.replace("\0", "$"))
    parts = (
        part if place % 2 else _SPECIAL.sub(r"\\\1", part.replace("\0", "$"))
        for place, part in enumerate(_INSIDE.split(plain))
    )
    return f'"{"".join(parts)}"'
