"""``duly schedules add`` and ``edit``: create or change a schedule from options."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import click

from duly.cli.find_app import app_of, has_app, imported
from duly.cli.formats import View, read_moment, utc_option
from duly.cli.options import WholeNumber
from duly.cli.output import RuleRefused
from duly.cli.store import ask, refuse, settled, store_option
from duly.errors import DulyError, NotFound, RuleError, ZoneMissing
from duly.model.policies import MOST_AT_ONCE, Catchup, Late, Overlap
from duly.rules import parse

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.schedule import Plan, StoredSchedule


NONE = "none"
_COMMAND = "duly.cli.schedules.command"
_MOMENTS = ("start", "end")
_MAY_BE_NONE = ("zone", "start_within", "exclude", "jitter", "spacing", "max_runs", *_MOMENTS)
_NUMBERS = ("priority", "max_runs")


class TypedCall(NamedTuple):
    called: str  # the name of the schedule, unless one is given
    task: str
    args: Mapping[str, object]
    unchecked: bool = False  # no app was found that has the task
    unknown: NotFound | None = None  # the error of the app, which has no such task


class _BeforeCommand(click.Command):
    """A command that keeps the arguments after ``--`` unparsed, as a command line to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD…]"]


def policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of ``@duly.schedule``; ``spoken`` returns those that were given."""
    for option in reversed(
        (
            click.option("--zone", metavar="ZONE", help=_ZONE),
            click.option("--overlap", type=click.Choice(get_args(Overlap)), help=_OVERLAP),
            click.option("--missed", type=click.Choice(get_args(Catchup)), help=_MISSED),
            click.option("--at-most", type=WholeNumber(1, MOST_AT_ONCE), help=_AT_MOST),
            click.option("--spacing", metavar="TIME", help="Time between the catch-up runs: 1m."),
            click.option("--start-within", metavar="TIME", help="How late it may start: 4h."),
            click.option(
                "--late",
                type=click.Choice(get_args(Late)),
                help="Policy for runs later than --start-within.",
            ),
            click.option("--dst", metavar="CHOICE", help=_DST),
            click.option("--exclude", metavar="RULE", help='What to leave out: "holidays(DE)".'),
            click.option(
                "--jitter", metavar="TIME", help="Random delay of the start, up to this: 5m."
            ),
            click.option("--start", metavar="TIME", help="Nothing before: 2026-12-01."),
            click.option("--end", metavar="TIME", help="Nothing after."),
            click.option("--max-runs", metavar="N", help=_MAX_RUNS),
        )
    ):
        command = option(command)
    return command


def _label_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("--queue", metavar="QUEUE", help="Queue of its jobs."),
            click.option(
                "--priority", metavar="N", help="-100 to 100, or high, normal, low, idle."
            ),
            click.option("--title", metavar="TEXT", help="For people."),
            click.option("--tags", metavar="A,B", help="To find it by."),
        )
    ):
        command = option(command)
    return command


_ZONE = "Time zone, as Europe/Berlin; else the rule's own, or zone in duly.toml."
_OVERLAP = "What to do while the last run has not ended."
_MISSED = "Which missed runs are caught up."
_MAX_RUNS = "At most so many runs, counted from now; then it is finished."
_AT_MOST = "… with all: the newest so many."
_DST = "What clock changes do: cron, systemd, elapsed, quartz, or as end/first."


@click.command("add", cls=_BeforeCommand)
@click.argument("rule", metavar="RULE")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE…]")
@click.option("--name", metavar="NAME", help="By default as the task, or the program.")
@click.option("--task", metavar="TASK", help="What to run, with KEY=VALUE as its arguments.")
@policy_options
@_label_options
@utc_option
@store_option
@click.pass_context
def add(
    context: click.Context,
    /,
    *,
    rule: str,
    arguments: Sequence[str],
    name: str | None,
    task: str | None,
    utc: bool,
    store: str,
    **options: Any,
) -> None:
    """Remember a schedule: RULE, and a task or a command. Its first moment is after now.

    \b
      duly schedules add "Mon..Fri 02:00 Europe/Berlin" --task nightly_report
      duly schedules add "every 5m" --task sync --name sync-eu region=eu deep=true limit=10
      duly schedules add "02:30 Europe/Berlin" --name backup -- /srv/backup --full
      duly schedules add "0 4 * * *" --zone UTC --overlap queue_one --start-within 4h --task tidy

    Where an app is at hand (DULY_APP, app in duly.toml, tasks.py here), TASK is looked for in it,
    and each VALUE read by the type of its parameter. Elsewhere a VALUE that is JSON is taken as
    such (10, true, null, ["a"]), any other as text; '"10"' is text. A command is run without a
    shell, by workers that may do so: duly up --allow shell.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    command: list[str] = context.meta.get(_COMMAND, [])
    try:
        start = start_of(task, arguments, command)
        plan = new(rule, name=name, what=start, said=spoken(options))
    except RuleError as error:
        raise RuleRefused(error, rule) from None
    except DulyError as error:
        refuse(error)

    async def added(there: "Store") -> "tuple[StoredSchedule, str | None]":
        from duly.views.workers import unknown_task

        problem = None if command else await unknown_task(there, start.task)
        if problem and start.unknown:
            raise start.unknown
        [schedule] = await there.schedules.add([plan])
        return schedule, problem if start.unchecked else None

    schedule, note = ask(store, added, make=True)
    _tell("added", schedule, utc=utc)
    if command:
        note = "workers run commands only if they may: duly up --allow shell"
    if note:
        click.echo(f"note: {note}", err=True)


@click.command("edit")
@click.argument("name", metavar="NAME")
@click.option("--rule", metavar="RULE", help="When, from now on.")
@policy_options
@_label_options
@utc_option
@store_option
def edit(*, name: str, rule: str | None, utc: bool, store: str, **options: Any) -> None:
    """Change what is said, and nothing else. No moment becomes missed by it.

    \b
      duly schedules edit nightly --rule "Mon..Fri 03:00"
      duly schedules edit nightly --missed all --at-most 10 --spacing 1m
      duly schedules edit nightly --start-within none --exclude none
      duly schedules edit nightly --queue reports --priority low

    none takes away a zone, a bound, an exclusion or a length of time. What a person has edited
    stays, whatever code or file declares it.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    said = spoken(options)
    if not said and rule is None:
        raise click.UsageError("say what to change: --rule, --overlap, --missed, --zone, …")

    async def edited(there: "Store") -> "StoredSchedule":

        try:
            return await there.schedules.edit(name, lambda plan: changed(plan, rule, said))
        except RuleError as error:
            raise RuleRefused(error, rule or error.text) from None

    _tell("edited", ask(store, edited), utc=utc)


def new(
    rule: str,
    *,
    name: str | None,
    what: TypedCall,
    said: Mapping[str, Any],
) -> "Plan":
    """Return the plan of a new schedule; its zone is the configured one if none was given."""
    from duly.app.typed_schedules import new_plan

    zone = said["zone"] if "zone" in said else settled().zone
    timing = parse(rule, zone=zone, dst=said.get("dst", "cron"), name=name or what.called)
    read = in_zone(said, said.get("zone") or timing.stated_zone or zone)
    words = {**read, "zone": zone}
    called = what.called if name is None else name
    return new_plan(called, rule, task=what.task, args=what.args, words=words)


def changed(plan: "Plan", rule: str | None, said: Mapping[str, Any]) -> "Plan":
    """Return the changed plan; the configured zone is used if one is needed and none is known."""
    from duly.app.typed_schedules import changed_plan
    from duly.views.schedules import own_zone

    zone = settled().zone
    words = in_zone(said, said.get("zone") or own_zone(plan) or zone)
    try:
        return changed_plan(plan, rule, words)
    except ZoneMissing:
        if zone is None or "zone" in said:
            raise
        return changed_plan(plan, rule, {**words, "zone": zone})


def spoken(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, with their values as ``@duly.schedule`` takes them."""
    words = {word: value for word, value in options.items() if value is not None}
    for word in _MAY_BE_NONE:
        if words.get(word) == NONE:
            words[word] = None
    if "tags" in words:
        words["tags"] = tuple(tag.strip() for tag in words["tags"].split(",") if tag.strip())
    for word in _NUMBERS:
        if words.get(word) is not None:
            words[word] = _number(words[word])
    return words


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def in_zone(words: Mapping[str, Any], zone: str | None) -> dict[str, Any]:
    """Return ``words`` with start and end parsed; without an offset they are in ``zone``."""
    read = {
        word: read_moment(words[word], zone=zone, option=f"--{word}")
        for word in _MOMENTS
        if words.get(word) is not None
    }
    return {**words, **read}


def _tell(done: str, schedule: "StoredSchedule", *, utc: bool) -> None:
    from duly.policy.why.answer import plural
    from duly.views.schedules import own_zone

    view, plan = View(utc=utc), schedule.plan
    following = f"next {view.moment(schedule.next_at, own_zone(plan))}"
    state = "paused" if schedule.pause else following if schedule.next_at else "never due again"
    left = "" if schedule.runs_left is None else f", {plural(schedule.runs_left, 'run')} left"
    click.echo(f"{done}  {plan.name}  {state}{left}")
    click.echo(plan.kept.explain(), err=True)


OURS = "duly."  # prefix of built-in tasks, which are in no app


def start_of(task: str | None, arguments: Sequence[str], command: Sequence[str]) -> TypedCall:
    from duly.app.typed_schedules import COMMAND

    if (task is None) == (not command):
        raise click.UsageError("say what to run: --task NAME KEY=VALUE…, or -- and a command")
    if task is not None:
        return _task(task, arguments)
    if arguments:
        raise click.UsageError(f'"{arguments[0]}": the arguments of a command stand behind the --')
    return TypedCall(PurePath(command[0]).name, COMMAND, {"argv": list(command)})


def _task(task: str, pairs: Sequence[str]) -> TypedCall:
    settings = settled()
    if task.startswith(OURS) or not has_app(settings):
        return TypedCall(task, task, _untyped(pairs), unchecked=True)
    try:
        return TypedCall(task, task, _typed(task, pairs))
    except NotFound as unknown:
        return TypedCall(task, task, _untyped(pairs), unchecked=True, unknown=unknown)


def _typed(task: str, pairs: Sequence[str]) -> Mapping[str, object]:
    from duly.cli.inputs import read_arguments
    from duly.model.payload import decode

    settings = settled()
    registry = imported(app_of(settings, "schedules add"), settings)
    definition = registry.get(task)
    call = registry.call(definition, (), read_arguments(definition, pairs))
    args: Mapping[str, object] = decode(call.args)
    return args


def _untyped(pairs: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise click.UsageError(f'"{pair}": an argument of a task is written as KEY=VALUE')
        if key in found:
            raise click.UsageError(f'"{key}" is said twice')
        found[key] = _value(value)
    return found


def _value(text: str) -> object:
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text
