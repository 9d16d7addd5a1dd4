r"""What ``ExecStart=`` and its like say: prefixes, words, variables; and the same for a shell.

One plain command stays a program with its arguments. Several, one whose failure is ignored, or one
with variables becomes a line for the shell: ``$NAME`` alone is split into words and ``${NAME}`` is
not, which is what ``$NAME`` and ``"${NAME}"`` mean there.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

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
class Command:
    """One program with its arguments, and how systemd was told to treat it."""

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


def read_commands(values: Iterable[str]) -> Iterator[Command]:
    """The commands of several values; ``ValueError`` if a quotation mark is left open."""
    for value in values:
        rest = value.lstrip(_PREFIXES)
        prefixes = value[: len(value) - len(rest)]
        for words in _divided(split_words(rest)):
            if "@" in prefixes:
                del words[1:2]  # the name that the program is to be shown by
            if words:
                yield Command(prefixes, tuple(words))


def what_runs(commands: Sequence[Command]) -> tuple[tuple[str, ...], str | None]:
    """Arguments for ``command``, or a line for ``shell``."""
    first = commands[0]
    if len(commands) == 1 and not first.may_fail and not first.has_variables:
        return first.argv(), None
    if len(commands) == 1:
        return (), first.line() + (" || true" if first.may_fail else "")
    steps = (f"{{ {c.line()} || true; }}" if c.may_fail else c.line() for c in commands)
    return (), " && ".join(steps)


def split_words(text: str) -> list[str]:
    """Words as systemd parts them: both quotation marks, and the escapes of C everywhere."""
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
    """A semicolon that is a word of its own parts two commands."""
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
