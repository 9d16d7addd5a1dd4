"""Load the SQL of a dialect from the ``.sql`` files in ``store/sql``.

A statement stands below a line ``-- name: claim``. Most statements are the same for both databases.
Where a database needs a text of its own, the line ends with it: ``-- name: claim for sqlite``. A
block below ``-- part: job`` is text that statements include as ``{job}``.

The text is PostgreSQL's SQL. For SQLite, a table ``duly.job`` becomes ``duly_job as job``, casts
(``:id::bigint``) are left out, and so is the table in ``returning job.id``. Everything else that
differs is a word in braces; ``WORDS`` is the list, with what each becomes.

Text between ``/*[flag]`` and ``[flag]*/`` is included only if the dialect has that feature, and
with ``!flag`` only if it does not.

Migrations (``store/migrations``) are written in the same way; for SQLite, the types of columns
are replaced too.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeAlias

from duly.store.database import Dialect

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]
Rewrites: TypeAlias = Sequence[tuple[re.Pattern[str], str]]


class Word(NamedTuple):
    """A word in braces (a regular expression), and its replacement for each dialect."""

    inside: str
    postgres: Replacement
    sqlite: Replacement


def _extracted(found: re.Match[str]) -> str:
    """Turn ``rows :rows as ended (id bigint, state text)`` into a query on SQLite."""
    rows, alias, columns = found.groups()
    names = [column.split()[0] for column in columns.split(",")]
    chosen = ", ".join([f"value ->> '{name}' as {name}" for name in names])
    return f"(select {chosen} from json_each({rows})) as {alias}"  # noqa: S608 - our own text


def _given(found: re.Match[str]) -> str:
    """Turn ``given as one (id bigint, key text)`` into a table with one row of parameters."""
    alias, columns = found.groups()
    pairs = [column.split() for column in columns.split(",")]
    return f"(select {', '.join(f':{name}::{kind} as {name}' for name, kind in pairs)}) as {alias}"


WORDS = (
    # The server's clock. A time that is given is a test's. In a query of its own, so that it is
    # read once and not for every row, and may be compared with an index.
    Word("now", "(select coalesce(:now::bigint, duly.now_us()))", ":now"),
    # The same as a table with one row, for statements that must use the same time twice.
    Word(
        "clock",
        "(select coalesce(:now::bigint, duly.now_us()) as now offset 0) as clock",
        "(select :now as now) as clock",
    ),
    # Membership: in a query, which PostgreSQL evaluates first and then finds the rows by primary
    # key; in a field of a JSON array of objects; in a list.
    Word(r"in (\(.*\))", r"= any(array\1)", r"in \1"),
    Word(
        r"in (:\w+) ->> ('\w+'|\d)::(\w+)",
        r"= any(array(select (one ->> \2)::\3 from json_array_elements(\1::json) as one))",
        r"in (select value ->> \2 from json_each(\1))",
    ),
    Word(r"in (:\S+)", r"= any(\1)", r"in (select value from json_each(\1))"),
    Word(r"not in (:\S+)", r"<> all(\1)", r"not in (select value from json_each(\1))"),
    # A condition that is true anyway and makes PostgreSQL use the primary key.
    Word(r"hint (\S+ )(in .*)", r"\1{\2}", "true"),
    # A JSON array of objects as a table; a JSON array or a list as a table of one column.
    Word(r"rows (:\w+) as (\w+) \((.*)\)", r"json_to_recordset(\1::json) as \2 (\3)", _extracted),
    # Parameters as a table with one row.
    Word(r"given as (\w+) \((.*)\)", _given, _given),
    Word(
        r"each (:\w+::json) as (\w+) \((\w+)\)",
        r"json_array_elements(\1) as \2 (\3)",
        r"(select value as \3 from json_each(\1)) as \2",
    ),
    Word(
        r"each (:\w+::\w+\[\]) as (\w+) \((\w+)\)",
        r"unnest(\1) as \2 (\3)",
        r"(select value as \3 from json_each(\1)) as \2",
    ),
    # The first rows of a table with a column id, for each row of the tables before it.
    Word(
        r"lateral (duly\.\w+) as (\w+)\s+(.*)",
        r"cross join lateral (select * from \1 \3) as \2",
        r"cross join \1 as \2 on \2.id in (select id from \1 \3)",
    ),
    # Row locks. SQLite has one writer.
    Word("for (.*)", r"for \1", ""),
    # The index that SQLite's planner would not choose.
    Word(r"indexed by (\w+)", "", r"indexed by duly_\1"),
    # A name in which * stands for any text.
    Word(
        r"like (:\S+)",
        r"like (select replace(replace(replace(replace(said, '\\', '\\\\'), '%', '\\%'), "
        r"'_', '\\_'), '*', '%') from (select \1 as said) as asked)",
        r"glob replace(replace(\1, '[', '[[]'), '?', '[?]')",
    ),
    Word("greatest", "greatest", "max"),
    Word("least", "least", "min"),
    Word("strpos", "strpos", "instr"),
    Word("chr", "chr", "char"),
    Word("rowid", "ctid", "rowid"),
    Word("bytewise", 'collate "C"', "collate binary"),
    # A table whose rows change often, with a share (in percent) of each page to fill at first.
    Word(
        r"busy (\d+)",
        r"with (fillfactor = \1, autovacuum_vacuum_scale_factor = 0.01, "
        "autovacuum_vacuum_cost_delay = 0)",
        "",
    ),
    # Anything else that one of the two has.
    Word(r"postgres\s(.*)", r"\1", ""),
    Word(r"sqlite\s(.*)", "", r"\1"),
)

_HEAD = re.compile(r"^-- (name|part): (\w+)(?: for (postgres|sqlite))?[ ]*$", re.MULTILINE)
_BRACES = re.compile(r"\{([^{}]+)\}")
_FEATURE = re.compile(r"/\*\[(!?)(\w+)\](.*?)\[\1\2\]\*/", re.DOTALL)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)

# For SQLite, one after the other.
_REWRITES = (
    (re.compile(r"\bduly\.(\w+)\b(?!\s+as\s)"), r"duly_\1 as \1"),
    (re.compile(r"\bduly\.(\w+)\b"), r"duly_\1"),
    (re.compile(r"\breturning \w+\.(\w+)"), r"returning \1"),
    (re.compile(r"::\w+(\[\])?"), ""),
)
_SCHEMA_REWRITES = (
    (re.compile(r"\bindex (\w+) on duly\."), r"index duly_\1 on duly."),
    (re.compile(r"\bduly\.(\w+)"), r"duly_\1"),
    (re.compile(r"\b(?:bigint|smallint|int|boolean)\b"), "integer"),
    (re.compile(r"\bdouble precision\b"), "real"),
    (re.compile(r' collate "C"'), ""),
    (re.compile(r"\bdefault false\b"), "default 0"),
)


class Block(NamedTuple):
    """A statement ("name") or a part, for one dialect or (None) for both."""

    kind: str
    name: str
    dialect: str | None
    text: str


class Statements(Mapping[str, str]):
    """The statements of a dialect by name, ready to be sent.

    Each text is made when it is first asked for: a process uses a tenth of them.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._blocks = {"name": dict[str, str](), "part": dict[str, str]()}
        # The dialect's own blocks come last and replace the common ones.
        for block in sorted(read_blocks(), key=lambda block: block.dialect is not None):
            if block.dialect in (None, dialect.name):
                self._blocks[block.kind][block.name] = block.text
        self._ready: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._ready:
            text = _expanded(self._blocks["name"][name], self._blocks["part"], self._dialect.name)
            self._ready[name] = _for_dialect(text, self._dialect)
        return self._ready[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks["name"])

    def __len__(self) -> int:
        return len(self._blocks["name"])


@cache
def statements(dialect: Dialect) -> Mapping[str, str]:
    """Return every statement of the dialect by its name."""
    return Statements(dialect)


class OwnStatements(dict[str, str]):
    """A few statements of a module's own, and the dialect's under all other names."""

    def __init__(self, own: Mapping[str, str], dialect: Dialect) -> None:
        super().__init__(own)
        self._dialect = dialect

    def __missing__(self, name: str) -> str:
        return statements(self._dialect)[name]


def script(text: str, dialect: Dialect) -> str:
    """Return the text of a migration for the dialect.

    It may begin with parts, and then goes on below a line ``-- name: initial``.
    """
    blocks = list(_blocks(text))
    parts = {block.name: block.text for block in blocks if block.kind == "part"}
    text = blocks[-1].text if blocks else text
    return _for_dialect(_expanded(text, parts, dialect.name), dialect, _SCHEMA_REWRITES)


@cache
def read_blocks() -> list[Block]:
    """Read every block of the folder, without its comments."""
    found: dict[tuple[str, str, str | None], Block] = {}
    for file in sorted(files("duly.store").joinpath("sql").iterdir(), key=lambda file: file.name):
        for block in _blocks(file.read_text(encoding="utf-8")):
            if block[:3] in found:
                raise ValueError(f"{file.name}: there are two blocks -- {block.kind}: {block.name}")
            found[block[:3]] = block
    return list(found.values())


def _blocks(text: str) -> Iterator[Block]:
    pieces = _HEAD.split(text)[1:]
    for kind, name, owner, inside in zip(*(pieces[place::4] for place in range(4)), strict=True):
        yield Block(kind, name, owner, _COMMENT.sub("", inside).strip().rstrip(";"))


def _expanded(text: str, parts: Mapping[str, str], dialect: str) -> str:
    """Replace words and parts, the innermost braces first."""

    def replaced(found: re.Match[str]) -> str:
        inside = found[1].strip()
        if inside in parts:
            return parts[inside]
        for word in WORDS:
            if match := re.fullmatch(word.inside, inside, re.DOTALL):
                becomes = word.sqlite if dialect == "sqlite" else word.postgres
                return match.expand(becomes) if isinstance(becomes, str) else becomes(match)
        raise ValueError(f"{{{inside}}} is neither a part nor a word of the .sql files")

    while (whole := _BRACES.sub(replaced, text)) != text:
        text = whole
    return text


def _for_dialect(text: str, dialect: Dialect, rewrites: Rewrites = _REWRITES) -> str:
    text = _with_features(text, dialect)
    if dialect.name == "sqlite":
        for pattern, becomes in rewrites:
            text = pattern.sub(becomes, text)
    return text


def _with_features(text: str, dialect: Dialect) -> str:
    """Keep or drop ``/*[partitions] … [partitions]*/`` as the dialect has the feature or not."""
    known = {field.name for field in fields(dialect)}

    def choose(found: re.Match[str]) -> str:
        absent, feature, inside = found.groups()
        if feature not in known:
            raise ValueError(f"{feature} is not a feature; there are: {', '.join(sorted(known))}")
        return inside.strip() if getattr(dialect, feature) is not bool(absent) else ""

    return _FEATURE.sub(choose, text)


_PIECE = re.compile(
    r"""
      (?P<kept>
          \b[eE]'(?:[^'\\]|\\.|'')*'         # a string in which \' does not end it
        | '(?:[^']|'')*'                     # a string
        | "(?:[^"]|"")*"                     # a name
        | \$(?P<tag>(?:[a-zA-Z_]\w*)?)\$.*?\$(?P=tag)\$    # the body of a function
        | --[^\n]*
        | /\*.*?\*/
        | ::                                 # a cast
      )
    | :(?P<name>[a-zA-Z_]\w*)
    | %
    """,
    re.VERBOSE | re.DOTALL,
)


class NumberedStatement(NamedTuple):
    """A statement with the places ``$1``, ``$2`` and so on, and the names of their values."""

    text: bytes
    names: tuple[str, ...]


@cache
def for_libpq(text: str) -> NumberedStatement:
    places: dict[str, str] = {}
    numbered = with_places(
        text, lambda name: places.setdefault(name, f"${len(places) + 1}"), percent="%"
    )
    return NumberedStatement(numbered.encode(), tuple(places))


@cache
def for_psycopg(text: str) -> bytes:
    return with_places(text, lambda name: f"%({name})s", percent="%%").encode()


def with_places(text: str, place: Callable[[str], str], *, percent: str) -> str:
    """Return the text with every value and every percent sign replaced by the driver's form."""

    def rewritten(piece: re.Match[str]) -> str:
        return place(piece["name"]) if piece["name"] else piece[0].replace("%", percent)

    return _PIECE.sub(rewritten, text)
