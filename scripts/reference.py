"""Writes the pages of the reference that the code knows: commands, settings, the HTTP API, tables.

With ``--check`` nothing is written, and the exit code is 1 if the pages say something else.
"""

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import duly.store
from duly.cli.main import main
from duly.events import EngineEvent
from duly.settings.settings import Settings, keys
from duly.web.api.openapi import ENDPOINTS, TAGS, VERSION, kind_of, specification

if TYPE_CHECKING:
    from tests.simulation import Sabotage

DOCS = Path(__file__).parents[1] / "docs"
MIGRATIONS = Path(duly.store.__file__).parent / "migrations"
# What stands above it is written by hand.
MARK = "<!-- What follows is written by make reference. -->\n"


def commands_page() -> str:
    return "\n".join(_pages(main, "duly"))


def settings_page() -> str:
    rows = ["| setting | typed | environment | default | |", "| --- | --- | --- | --- | --- |"]
    typed = _typed()
    plain = Settings()
    for name, key in keys().items():
        flag = f"`{key.flag}`" if key.flag in typed else ""
        variables = ", ".join(f"`{variable}`" for variable in key.variables)
        shown = plain.shown(name)
        default = "" if shown == "-" else f"`{shown}`"
        rows.append(f"| `{name}` | {flag} | {variables} | {default} | {key.about} |")
    return "\n".join(rows) + "\n"


def _pages(group: click.Group, path: str) -> Iterator[str]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from _page(command, f"{path} {name}")


def _page(command: click.Command, path: str) -> Iterator[str]:
    level = "##" if path.count(" ") == 1 else "###"
    yield f"{level} {path}\n"
    yield f"```\n{_usage(command, path)}\n```\n"
    yield from _prose(command.help or "")
    if isinstance(command, click.Group):
        yield from _pages(command, path)
        return
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        yield "| option | |\n| --- | --- |"
        yield "".join(_option(one) for one in options)


def _usage(command: click.Command, path: str) -> str:
    pieces = command.collect_usage_pieces(click.Context(command, info_name=path))
    return " ".join([path, *pieces])


def _prose(text: str) -> Iterator[str]:
    """Paragraphs; what is not to be wrapped is an example."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0] != "\b":
            yield textwrap.fill(" ".join(lines), 108) + "\n"
        elif any("  " in line for line in lines[1:]):  # columns
            yield "```text\n" + textwrap.dedent("\n".join(lines[1:])) + "\n```\n"
        else:
            yield textwrap.fill(" ".join(lines[1:]), 108) + "\n"


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {_value(option)}"
    default = f" Default: `{option.default}`." if option.show_default else ""
    return f"| {names}{value} | {option.help or ''}{default} |\n"


def _value(option: click.Option) -> str:
    shown = option.metavar or option.make_metavar(click.Context(click.Command("duly")))
    return f"`{shown}`".replace("|", "\\|")


def _typed() -> set[str]:
    """Every option that there is, and the arguments."""
    found: set[str] = set()
    todo: list[click.Command] = [main]
    while todo:
        command = todo.pop()
        for one in command.params:
            found |= {*one.opts, *one.secondary_opts, (one.name or "").upper()}
        if isinstance(command, click.Group):
            context = click.Context(command)
            names = command.list_commands(context)
            todo += [one for name in names if (one := command.get_command(context, name))]
    return found


def http_page() -> str:
    return "\n".join([*_endpoints(), *_objects()])


def _endpoints() -> Iterator[str]:
    for tag, about in TAGS.items():
        yield f"## {tag.capitalize()}\n\n{about}\n\n| | role | |\n| --- | --- | --- |"
        for one in (one for one in ENDPOINTS if one.tag == tag):
            path = one.path.replace(":path", "")
            text = one.summary + _bodies(one.method, path)
            yield f"| `{one.method} {VERSION}{path}` | {one.role} | {text} |"
        yield ""


def _bodies(method: str, path: str) -> str:
    """The objects that an endpoint takes and returns, as links."""
    found = SPECIFICATION["paths"][path][method.lower()]
    taken = found.get("requestBody", {}).get("content", {}).get("application/json", {})
    done = next(answer for status, answer in found["responses"].items() if status.startswith("2"))
    given = done.get("content", {}).get("application/json", {})
    return "".join(
        f"; {word} {_linked(content['schema'])}"
        for word, content in (("takes", taken), ("returns", given))
        if content
    )


def _objects() -> Iterator[str]:
    yield "## Objects\n"
    for name, schema in SPECIFICATION["components"]["schemas"].items():
        if name.startswith(LISTED):
            continue
        yield f"### {name}\n\n{_sentence(schema.get('description', ''))}"
        if "enum" in schema:
            yield " · ".join(f"`{value}`" for value in schema["enum"]) + "\n"
        if fields := schema.get("properties"):
            yield "| field | | |\n| --- | --- | --- |"
            for field, found in fields.items():
                yield f"| `{field}` | {_linked(found)} | {found.get('description', '')} |"
            yield ""


def _linked(schema: Mapping[str, Any]) -> str:
    """The kind of a value; an object is a link to its fields, and a page of objects is a list."""
    kind = kind_of(schema).replace("|", "\\|")
    kind = re.sub(rf"{LISTED}(\w+?)_\b", r"a page of \1", kind)
    return re.sub(r"\b[A-Z]\w+\b", lambda found: f"[{found[0]}](#{found[0].lower()})", kind)


def _sentence(text: str) -> str:
    return f"{' '.join(text.split())}\n" if text else ""


REACHED = """\
A world in which no lease ever expires says nothing about leases. Each of these is counted;
a run of `make test-rest` in which one of them never happens fails, and `make simulate` prints how
often each did:
"""


def guards_page() -> str:
    sys.path.insert(0, str(DOCS.parent))
    from tests.simulation.counts import SOMETIMES  # noqa: PLC0415 - tests are no package
    from tests.simulation.sabotages import SABOTAGES  # noqa: PLC0415
    from tests.simulation.telling import told  # noqa: PLC0415

    rows = "".join(
        f"| {guard} | {_place(removed)} | {told()[guard].broken} | {told()[guard].seed} |\n"
        for guard, removed in SABOTAGES.items()
    )
    titles = "guard that is removed | where | the promise that is then broken | seed"
    table = f"| {titles} |\n| --- | --- | --- | --- |\n{rows}"
    return f"{table}\n## What the simulator reaches\n\n{REACHED}{', '.join(SOMETIMES)}.\n"


def _place(removed: "Sabotage") -> str:
    """The statements, functions or services that the removal changes."""
    functions = (f"{owner.__name__.rpartition('.')[2]}.{name}" for owner, name in removed.code)
    flags = [name for name in ("torn", "nodes_clock") if getattr(removed, name)]
    return ", ".join(
        f"`{name}`" for name in (*removed.statements, *functions, *removed.without, *flags)
    )


_TABLE = re.compile(
    r"(?P<about>(?:^-- [^\n]+\n)*)^create table duly\.(?P<name>\w+) \(\n(?P<columns>.*?)^\)",
    re.MULTILINE | re.DOTALL,
)
_COLUMN = re.compile(
    r"^ *(?P<name>[a-z_]+) +(?P<type>text|bigint|int|smallint|boolean|double precision)\b"
    r"(?P<rest>[^\n]*?)(?: *-- (?P<about>.+))?$",
    re.MULTILINE,
)
_PART = re.compile(r"^-- part: (\w+)\n(.*?)(?=\n\n-- (?:part|name))", re.MULTILINE | re.DOTALL)


def schema_page() -> str:
    """The tables as the migrations make them, with the comments that stand there."""
    found = "\n".join(file.read_text() for file in sorted(MIGRATIONS.glob("*.sql")))
    for name, text in reversed(_PART.findall(found)):
        found = found.replace(f"{{{name}}}", re.sub(r"^-- .*\n", "", text, flags=re.MULTILINE))
    return "\n".join(_table(table) for table in _TABLE.finditer(found))


def _table(table: re.Match[str]) -> str:
    about = " ".join(line.removeprefix("--").strip() for line in table["about"].splitlines())
    rows = "".join(
        f"| `{column['name']}` | {column['type']} | {'' if _is_set(column['rest']) else 'null'} "
        f"| {_stated(column)} |\n"
        for column in _COLUMN.finditer(table["columns"])
    )
    heading = f"### {table['name']}\n\n" + (f"{about}\n\n" if about else "")
    return f"{heading}| column | type | | |\n| --- | --- | --- | --- |\n{rows}"


def _is_set(rest: str) -> bool:
    return "not null" in rest or "primary key" in rest


def _stated(column: re.Match[str]) -> str:
    if column["about"]:
        return column["about"].replace("|", "\\|")
    return "a time" if column["name"].endswith("_at") or column["name"] == "at" else ""


def events_page() -> str:
    rows = "".join(
        f"| `{event.__name__}` | {_first_sentence(event)} "
        f"| {', '.join(f'`{field.name}`' for field in fields(event))} |\n"
        for event in sorted(EngineEvent.__subclasses__(), key=lambda event: event.__name__)
    )
    return f"| `event` | | fields |\n| --- | --- | --- |\n{rows}"


def _first_sentence(event: type[EngineEvent]) -> str:
    text = inspect.cleandoc(event.__doc__ or "").partition("\n\n")[0]
    return " ".join(text.replace("``", "`").split())


LISTED = "Listed_"
SPECIFICATION = specification(ENDPOINTS, VERSION)
PAGES = {
    "commands.md": commands_page,
    "settings.md": settings_page,
    "http-reference.md": http_page,
    "proof.md": guards_page,
    "schema.md": schema_page,
    "observability.md": events_page,
}


def written(name: str) -> str:
    """The page as it should be: what stands above the mark, and what the code says."""
    above = (DOCS / name).read_text().partition(MARK)[0]
    return f"{above}{MARK}\n{PAGES[name]()}"


def run(*, check: bool) -> int:
    stale = [name for name in PAGES if (DOCS / name).read_text() != written(name)]
    for name in stale:
        if check:
            print(f"docs/{name} is not what the code says: make reference")
        else:
            (DOCS / name).write_text(written(name))
            print(f"docs/{name} written")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(run(check="--check" in sys.argv))
