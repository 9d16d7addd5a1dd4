"""A name for a shell line: its main program.

    cd /srv && ./backup.sh --full                 backup
    test -x /usr/bin/certbot && certbot -q renew  certbot
    nice -n 10 flock -n /tmp/x php artisan tidy   tidy

A wrong guess only costs a rename.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

NAMELESS: Final = "command"
LONGEST: Final = 2_000  # characters of a line that are looked at

# Programs that run another one: their options with a value, and their number of own arguments.
_WRAPPERS: Final[dict[str, tuple[frozenset[str], int]]] = {
    "chronic": (frozenset(), 0),
    "cronic": (frozenset(), 0),
    "env": (frozenset({"-u", "-C"}), 0),
    "exec": (frozenset(), 0),
    "flock": (frozenset({"-w", "-E"}), 1),
    "ionice": (frozenset({"-c", "-n", "-p"}), 0),
    "nice": (frozenset({"-n"}), 0),
    "nohup": (frozenset(), 0),
    "run-one": (frozenset(), 0),
    "runuser": (frozenset({"-u", "-g"}), 0),
    "setsid": (frozenset(), 0),
    "su": (frozenset({"-s", "-g"}), 1),
    "sudo": (frozenset({"-u", "-g", "-h", "-p"}), 0),
    "time": (frozenset({"-f", "-o"}), 0),
    "timeout": (frozenset({"-k", "-s"}), 1),
}
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
_INTERPRETER: Final = re.compile(r"(?:python|php|perl|ruby|node|java|pypy)[\d.]*")
_TAKES_A_VALUE: Final = frozenset({"-d", "-W", "-X", "-I"})
_INLINE: Final = frozenset({"-e", "-r", "-c", "-E"})
# Programs whose first argument is the actual command.
_FRONTS: Final = frozenset(
    {"artisan", "bundle", "console", "make", "manage", "npm", "occ", "poetry", "rake", "run-parts"}
    | {"uv", "yarn"}
)
_GO_ON: Final = frozenset({"run", "exec"})
# Programs that only prepare, check or wait: another program in the line gives the name.
_DULL: Final = frozenset(
    {".", ":", "[", "[[", "cat", "cd", "command", "date", "echo", "eval", "exit", "export"}
    | {"false", "mkdir", "printf", "pushd", "set", "sleep", "source", "test", "trap", "true"}
    | {"type", "ulimit", "umask", "unset", "wait", "which"}
)
_KEYWORDS: Final = frozenset(
    {"!", "do", "done", "elif", "else", "fi", "if", "then", "until", "while", "{", "}"}
)
_ASSIGNMENT: Final = re.compile(r"\w+=.*", re.DOTALL)
_SUBSTITUTION: Final = re.compile(r"\$\([^()]*\)|`[^`]*`")
_EXTENSION: Final = re.compile(r"\.(?:sh|bash|py|pl|rb|php|js|jar|pyz|cgi)\Z", re.IGNORECASE)


def program_name(line: str) -> str:
    """Return a name for a line: the first program in it that does more than prepare."""
    calls = list(_calls(line[:LONGEST]))
    for words in calls:
        name = _name_of(words)
        if name:
            return name
    return next((slug(words[0]) for words in calls), NAMELESS)


def slug(text: str) -> str:
    """Turn a file name or other text into a name that TOML takes without quotes."""
    base = _EXTENSION.sub("", text.rstrip("/").rpartition("/")[2])
    return re.sub(r"[^a-z0-9_]+", "-", base.lower()).strip("-_")[:60] or NAMELESS


def _calls(line: str) -> Iterator[list[str]]:
    """Yield the simple commands of a line, without redirections and assignments."""
    call: list[str] = []
    tokens = iter(_tokens(line))
    for token in tokens:
        if token.strip("<>&|") == "" and ("<" in token or ">" in token):
            if call and call[-1].isdigit():
                call.pop()
            next(tokens, None)
        elif token.strip("();|&") == "":
            if call:
                yield call
            call = []
        elif call or not (token in _KEYWORDS or _ASSIGNMENT.fullmatch(token)):
            call.append(token)
    if call:
        yield call


def _tokens(line: str) -> list[str]:
    while line != (plain := _SUBSTITUTION.sub("$x", line)):
        line = plain
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # an unbalanced quotation mark
        return line.split()


def _name_of(words: Sequence[str]) -> str | None:
    words = list(words)
    while words:
        program = words[0].rpartition("/")[2]
        if program in _SHELLS or program in ("su", "flock", "runuser"):
            line = _line_of(words)
            if line is not None:
                return program_name(line)
        if program not in _WRAPPERS:
            break
        words = _unwrapped(words, *_WRAPPERS[program])
    if not words or words[0] in _DULL:
        return None
    return _told(words)


def _line_of(words: Sequence[str]) -> str | None:
    """Return the shell line after ``-c``."""
    for place, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-z]*c", word) and place + 1 < len(words):
            return words[place + 1]
    return None


def _unwrapped(words: Sequence[str], valued: frozenset[str], behind: int) -> list[str]:
    """Remove the first program with its options and own arguments."""
    rest = list(words[1:])
    while rest and (rest[0].startswith("-") or _ASSIGNMENT.fullmatch(rest[0])):
        rest = rest[2:] if rest[0] in valued else rest[1:]
    return rest[behind:]


def _told(words: Sequence[str]) -> str | None:
    """Return the program, the script that it interprets, or the subcommand of either."""
    program, rest = words[0], list(words[1:])
    base = program.rpartition("/")[2]
    if _INTERPRETER.fullmatch(base) or base in _SHELLS:
        while rest and rest[0].startswith("-"):
            if rest[0] in ("-m", "-jar", "-f"):
                rest = rest[1:]
                break
            if rest[0] in _INLINE:
                return None
            rest = rest[2:] if rest[0] in _TAKES_A_VALUE else rest[1:]
        if not rest:
            return slug(program)
        program, rest = rest[0], rest[1:]
    told = [word for word in rest if not word.startswith("-") and word not in _GO_ON]
    while slug(program) in _FRONTS and told:
        program = told.pop(0)
    return slug(program)
