"""systemd unit files (sections of ``Key=value``, templates, drop-ins), and services as entries.

Units are given as texts by file name. A drop-in is named with its folder,
``backup.timer.d/more.conf``, and adds to its unit; an empty value resets earlier values.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Final

from duly.durations import show_duration
from duly.rules.explain import listed

_SHOWN_PATH: Final = re.compile(r"^# (/\S+\.(?:timer|service|conf))$", re.MULTILINE)
_SPECIFIER: Final = re.compile(r"%([A-Za-z%])")
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµμ]*)\s*", re.ASCII)
_ESCAPED: Final = re.compile(r"\\x([0-9a-fA-F]{2})")

_UNITS: Final = {
    "us usec": 0.000001,
    "ms msec": 0.001,
    "s sec second seconds": 1,
    "m min minute minutes": 60,
    "h hr hour hours": 3600,
    "d day days": 86400,
    "w week weeks": 7 * 86400,
    "M month months": 30.44 * 86400,
    "y year years": 365.25 * 86400,
}
_SECONDS: Final = {name: length for names, length in _UNITS.items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit with the settings of all its files, in order."""

    name: str
    settings: tuple[tuple[str, str, str], ...]  # section, key, value
    unfilled: tuple[str, ...] = ()  # specifiers such as %h whose values are unknown here

    def all(self, section: str, *keys: str) -> list[tuple[str, str]]:
        """Return the keys and values in order, without those that were reset."""
        found: list[tuple[str, str]] = []
        for section_, key, value in self.settings:
            if section_ == section and key in keys:
                found = [*found, (key, value)] if value else [p for p in found if p[0] != key]
        return found

    def values(self, section: str, key: str) -> list[str]:
        return [value for _, value in self.all(section, key)]

    def last(self, section: str, key: str) -> str | None:
        return next(reversed(self.values(section, key)), None)

    def says(self, section: str, key: str) -> bool:
        """Return whether a boolean setting is on."""
        return (self.last(section, key) or "").lower() in ("1", "yes", "y", "true", "t", "on")

    def keys(self, section: str) -> list[str]:
        named = dict.fromkeys(key for section_, key, _ in self.settings if section_ == section)
        return [key for key in named if self.values(section, key)]


def by_file_name(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts by unit file name, without their folders."""
    return {_file_name(path): text for path, text in texts.items()}


def split_shown(text: str) -> dict[str, str]:
    """Split the output of ``systemctl cat`` at the ``# /path`` above each file."""
    _, *pieces = _SHOWN_PATH.split(text)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def find_unit(name: str, files: Mapping[str, str]) -> Unit | None:
    """Return a unit, perhaps an instance of a template, with its drop-ins."""
    template = re.sub(r"@.+\.", "@.", name)
    main = next((files[known] for known in (name, template) if known in files), None)
    if main is None:
        return None
    added = [
        text
        for known in dict.fromkeys((template, name))
        for path, text in sorted(files.items())
        if path.startswith(f"{known}.d/")
    ]
    settings = [setting for text in (main, *added) for setting in _read(text)]
    known = _specifiers(name)
    unfilled = (
        found[0]
        for section, _, value in settings
        for found in _SPECIFIER.finditer(value)
        if section != "Install" and found[1] not in known
    )
    filled = (
        (section, key, _SPECIFIER.sub(_filler(key, known), value))
        for section, key, value in settings
    )
    return Unit(name, tuple(filled), tuple(dict.fromkeys(unfilled)))


def read_span(text: str) -> timedelta | None:
    """Read ``1h 30min`` or ``90`` (seconds); None for other text, and for infinity."""
    seconds, at, body = 0.0, 0, text.strip()
    while at < len(body) and (found := _SPAN.match(body, at)):
        if (found[2] or "s") not in _SECONDS:
            return None
        seconds += float(found[1]) * _SECONDS[found[2] or "s"]
        at = found.end()
    return timedelta(seconds=seconds) if body and at == len(body) and seconds < 1e10 else None


def _file_name(path: str) -> str:
    parts = PurePosixPath(path).parts
    return "/".join(parts[-2:]) if len(parts) > 1 and parts[-2].endswith(".d") else parts[-1]


def _read(text: str) -> list[tuple[str, str, str]]:
    settings, section = [], ""
    # Comments are allowed between the lines of one value.
    kept = "\n".join(line for line in text.splitlines() if line.lstrip()[:1] not in ("#", ";"))
    for line in re.sub(r"\\\n", " ", kept).splitlines():
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            section = stripped[1:-1]
        elif "=" in stripped:
            key, _, value = stripped.partition("=")
            settings.append((section, key.strip(), value.strip()))
    return settings


def _specifiers(name: str) -> dict[str, str]:
    """Return the specifiers that follow from the name of the unit."""
    whole = name.rpartition(".")[0]
    prefix, at, instance = whole.partition("@")
    known = {"%": "%", "n": name, "N": whole, "p": prefix, "P": _unescaped(prefix)}
    known["j"] = prefix.rpartition("-")[2]
    return known | ({"i": instance, "I": _unescaped(instance)} if at else {})


def _filler(key: str, known: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    """Return the substitution for specifiers; values inside command lines are escaped."""
    words = key.startswith(("Exec", "Environment"))

    def fill(found: re.Match[str]) -> str:
        text = known.get(found[1], found[0])
        return re.sub(r"([\\\s\"'])", _escape, text) if words else text

    return fill


def _escape(found: re.Match[str]) -> str:
    return "\\s" if found[1].isspace() else f"\\{found[1]}"


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text.replace("-", "/"))


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
            f"its {len(commands)} commands become one line for the shell, each after the "
            "one before it succeeded"
        )
    if any(command.may_fail for command in commands):
        notes.append('"-" before a command becomes || true: its failure is not seen')
    if any(command.privileged for command in commands):
        notes.append('"+" or "!" before a command is not kept: it ran with all privileges')
    if any("@" in command.prefixes for command in commands):
        notes.append('"@" before a command is not converted: the program has its own name')
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
        notes.append(f"{_are(other)} not converted: a command has the worker's own")
    if unit.last("Service", "WorkingDirectory") == "~":
        notes.append("WorkingDirectory=~ is not converted: write cwd = … with the home of its user")
    notes += [
        f"EnvironmentFile={path} is not read: write its values into env"
        for path in unit.values("Service", "EnvironmentFile")
    ]
    passed = unit.last("Service", "PassEnvironment")
    if passed:
        notes.append(f"PassEnvironment={passed} is not converted: write the values into env")
    return notes


def _about_the_rest(unit: Unit) -> list[str]:
    notes = about_any_unit(unit)
    for key, advice in INSTEAD.items():
        value = unit.last("Service", key)
        if value and value != "no":
            notes.append(f"{key}={value} is not converted: {advice}")
    if unit.last("Service", "Type") == "forking":
        notes.append("Type=forking: duly waits for the command itself: let it stay in front")
    known = OF_NO_MATTER | SPOKEN_OF | INSTEAD.keys()
    left = [key for key in unit.keys("Service") if key not in known]
    if left:
        notes.append(
            f"{_are(left)} not converted: duly puts no limits and no fence around a command; "
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
