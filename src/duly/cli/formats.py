"""Output formats of lists: table, JSON or names; once, or refreshed with ``--watch``.

A command that lists takes ``list_options``, describes its rows in a ``Listing``, and passes both to
``show_list``.
"""

import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

import click

from duly.cli.app_and_store import ask
from duly.cli.output import command, roughly, table
from duly.clock import now, sleep
from duly.policy.redaction import json_text
from duly.rules import local_time
from duly.settings.loading import machine_zone
from duly.views import Listed, as_dict

if TYPE_CHECKING:
    from duly.app import Store

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Found = TypeVar("Found", bound="Sequence[Any] | Listed[Any]")

OUTPUTS = ("table", "wide", "json", "jsonl", "name")
SECONDS_BETWEEN_LOOKS = 2
NOTHING = "-"
_TO_THE_TOP = "\x1b[H\x1b[2J"


class NounGroup(click.Group):
    """A command group whose default command is ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help = bool(args) and args[0] in ctx.help_option_names
        if not args or (args[0].startswith("-") and not asks_for_help):
            args = ["list", *args]
        return super().parse_args(ctx, args)


class FilteredNounGroup(NounGroup):
    """A command group where words of a filter may follow the noun: ``duly jobs state:failed``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            self._refuse_misspelt(args)
            args = ["list", *args]
        elif args and args[0].startswith("-"):
            self._refuse_a_verb_behind_options(args)
        return super().parse_args(ctx, args)

    def _refuse_a_verb_behind_options(self, args: Sequence[str]) -> None:
        """Refuse a verb after options: it would be taken for a search text."""
        for word in args[1:]:
            if word in self.commands:
                raise click.UsageError(
                    f"the verb comes first: duly {self.name} {word} …; as a text: text:{word}"
                )

    def _refuse_misspelt(self, args: Sequence[str]) -> None:
        """Refuse a misspelt verb: it would be taken for a search text."""
        from difflib import get_close_matches

        near = get_close_matches(args[0], self.commands, n=1, cutoff=0.75)
        if near:
            meant = " ".join([near[0], *args[1:]])
            raise click.UsageError(
                f'there is no command "duly {self.name} {args[0]}"; did you mean'
                f' "duly {self.name} {meant}"? To search for the text: text:{args[0]}'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The output options of a command, and how it shows times."""

    output: str = "table"
    watch: bool = False
    utc: bool = False
    seconds: bool = True
    now: datetime = field(default_factory=now)

    @property
    def zone(self) -> str:
        """The time zone of the output: this machine's, or UTC."""
        return "UTC" if self.utc else machine_zone() or "UTC"

    @property
    def time(self) -> str:
        """The format of a time of day."""
        return "%H:%M:%S" if self.seconds else "%H:%M"

    def moment(self, moment: datetime | None, zone: str | None = None) -> str:
        """Return ``Mon 2026-11-16 02:00:00 CET``, in the given zone or else this machine's."""
        if moment is None:
            return NOTHING
        shown = "UTC" if self.utc else zone or machine_zone() or "UTC"
        local = local_time(moment, shown)
        return f"{local:%a %Y-%m-%d} {local:{self.time}} {_clock(local, shown)}"

    def left(self, moment: datetime | None) -> str:
        """Return ``in 3 min``, or ``2 h ago`` for a time in the past."""
        if moment is None:
            return NOTHING
        length = moment - self.now
        return f"in {roughly(length)}" if length >= timedelta() else f"{roughly(-length)} ago"

    def passed(self, moment: datetime | None) -> str:
        """Return ``2 h ago``; ``0 s ago`` for a time after ``now``."""
        return NOTHING if moment is None else f"{roughly(max(self.now - moment, timedelta()))} ago"


Column: TypeAlias = str | Callable[[T, View], str]


def view_json(view: object) -> str:
    """Return a view as JSON, with the same fields as in the HTTP API."""
    return json_text(as_dict(view))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """The columns, JSON form and name of the items of a list.

    A column is a function, or the name of an attribute: a moment is shown in the zone of the view,
    several values with commas, and none as ``-``.
    """

    columns: Mapping[str, Column[T]]  # by heading
    name: Callable[[T], str]
    nothing: str  # the message for an empty list
    wide: Mapping[str, Column[T]] = field(default_factory=dict)  # more columns, with -o wide
    colour: Callable[[T], str | None] = lambda _: None
    plain: Callable[[T], Mapping[str, object]] = as_dict  # for JSON


utc_option: Final = click.option("--utc", is_flag=True, help="Show times in UTC.")
watch_option: Final = click.option(
    "-w", "--watch", is_flag=True, help="Refresh every 2 seconds, until Ctrl-C."
)


def format_option(about: str, outputs: Sequence[str] = OUTPUTS) -> Callable[[F], F]:
    """Return the option for the format of the output."""
    kind = click.Choice(outputs)
    return click.option("-o", "--output", type=kind, default="table", show_default=True, help=about)


def list_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every list; the command gets them as ``view``."""

    @format_option("wide has more columns; json and jsonl (one object per line) are for programs.")
    @watch_option
    @utc_option
    @wraps(command)
    def viewed(*args: Any, output: str, watch: bool, utc: bool, **words: Any) -> None:
        command(*args, view=View(output=output, watch=watch, utc=utc), **words)

    return viewed


def show_list(
    url: str,
    view: View,
    question: "Callable[[Store], Awaitable[Found]]",
    listing: Listing[Any],
) -> "Found":
    """Query the store and print the list, once or with ``--watch`` until Ctrl-C; return the last.

    ``question`` returns the items, or a page of them.
    """
    last: list[Found] = []

    async def look(store: "Store") -> str:
        last[:] = [await question(store)]
        items = last[0].items if isinstance(last[0], Listed) else last[0]
        return written(items, replace(view, now=now()), listing)

    if view.watch:
        watch(url, look, nothing=listing.nothing)
    else:
        _print(ask(url, look), listing.nothing)
    if not last:  # Ctrl-C came before the first result
        raise SystemExit(0)
    return last[0]


def watch(url: str, look: "Callable[[Store], Awaitable[str]]", *, nothing: str = "") -> None:
    """Print the result of ``look`` every two seconds, until Ctrl-C."""

    async def watched(store: "Store") -> None:
        while True:
            _show_again(await look(store), nothing)
            await sleep(SECONDS_BETWEEN_LOOKS)

    try:
        ask(url, watched)
    except KeyboardInterrupt:
        click.echo(err=True)


def written(items: Sequence[T], view: View, listing: Listing[T]) -> str:
    """Return the list in the chosen format; empty if a table would have no rows."""
    match view.output:
        case "json":
            return json_text([listing.plain(item) for item in items])
        case "jsonl":
            lines = (json_text(listing.plain(item)) for item in items)
            return "\n".join(lines)
        case "name":
            return "\n".join(map(listing.name, items))
        case _:
            return _table(items, view, listing) if items else ""


def is_coloured() -> bool:
    """Return whether stdout is a terminal and NO_COLOR is not set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def iso(moment: datetime | None) -> str | None:
    """Return ``2026-11-16T01:00:00Z``, for programs."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _table(items: Sequence[T], view: View, listing: Listing[T]) -> str:
    columns = {**listing.columns, **(listing.wide if view.output == "wide" else {})}
    rows = [[cell(item, view, column) for column in columns.values()] for item in items]
    lines = table([*columns], rows).split("\n")
    if not is_coloured():
        return "\n".join(lines)
    head, *body = lines
    colours = (listing.colour(item) for item in items)
    painted = [click.style(line, fg=fg) for line, fg in zip(body, colours, strict=True)]
    return "\n".join([click.style(head, bold=True), *painted])


def cell(item: T, view: View, column: Column[T]) -> str:
    if not isinstance(column, str):
        return column(item, view)
    match attrgetter(column)(item):
        case None | "":
            return NOTHING
        case datetime() as moment:
            return view.moment(moment)
        case tuple() as values:
            return ",".join(values)
        case value:
            return str(value)


def _print(text: str, nothing: str) -> None:
    if text:
        click.echo(text)
    else:
        click.echo(nothing, err=True)


def _show_again(text: str, nothing: str) -> None:
    """Redraw the screen on a terminal, cut to its height; elsewhere print all, and a gap."""
    if not sys.stdout.isatty():
        _print(f"{text}\n" if text else text, nothing)
        return
    height = shutil.get_terminal_size().lines - 1
    lines = (text or nothing).split("\n")
    if len(lines) > height:
        lines[height - 1 :] = [f"… and {len(lines) - height + 1} more"]
    command(_TO_THE_TOP)
    click.echo("\n".join(lines))


def _clock(local: datetime, zone: str) -> str:
    """Return ``CET``, or ``UTC+03`` for a zone without an abbreviation."""
    if zone == "UTC":
        return zone
    named = local.astimezone(ZoneInfo(zone))
    letters = named.tzname() or ""
    # The machine's zone data may be older than ours, which decides.
    if letters.isalpha() and named.utcoffset() == local.utcoffset():
        return letters
    return f"{local:%Z}".removesuffix(":00")
