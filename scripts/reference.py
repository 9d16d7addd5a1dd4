"""What commands and settings say of themselves, written into docs/commands.md and docs/settings.md.

With ``--check`` nothing is written, and the exit code is 1 if the pages say something else.
"""

import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from duly.cli.main import main
from duly.settings.settings import Settings, keys

DOCS = Path(__file__).parents[1] / "docs"
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
            yield "```sh\n" + textwrap.dedent("\n".join(lines[1:])) + "\n```\n"
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


PAGES = {"commands.md": commands_page, "settings.md": settings_page}


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
