"""``duly schedules add`` and ``edit``: create or change a schedule from options."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import click

from duly.app import Store
from duly.app.schedule_drafts import COMMAND, changed_plan, new_plan
from duly.cli.app_and_store import app_of, ask, has_app, imported, settled, store_option
from duly.cli.formats import View, utc_option
from duly.cli.inputs import read_arguments
from duly.cli.options import F, WholeNumber, with_options
from duly.cli.output import RuleRefused
from duly.clock import now
from duly.errors import NotFound, RuleError, ZoneMissing
from duly.model.payload import decode
from duly.model.schedule import Plan, StoredSchedule
from duly.model.schedule_fields import ScheduleField, fields_on
from duly.policy.why.answer import plural
from duly.rules import parse
from duly.views.capacity import unknown_task
from duly.views.schedules import own_zone
from duly.views.times import read_moment

NONE = "none"
_COMMAND = "duly.cli.schedules.command"
OPTIONS: Final = {one.name: one for one in fields_on("command")}
_METAVARS: Final = {"length": "TIME", "moment": "TIME", "rule": "RULE", "dst": "CHOICE"} | {
    "number": "N", "priority": "N", "tags": "A,B", "text": "TEXT",
}  # fmt: skip


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


def policy_options(command: F) -> F:
    """Add the policies of ``@duly.schedule``; ``spoken`` returns those that were given."""
    return with_options(command, *(_option(one) for one in OPTIONS.values() if not one.of_jobs))


def _job_options(command: F) -> F:
    return with_options(command, *(_option(one) for one in OPTIONS.values() if one.of_jobs))


def _option(field: ScheduleField) -> Callable[[F], F]:
    kind: Any = None
    if field.choices:
        kind = click.Choice(list(field.choices))
    elif field.most and not field.optional:  # an optional one may be "none"
        kind = WholeNumber(1, field.most)
    return click.option(
        f"--{field.name.replace('_', '-')}",
        type=kind,
        metavar=None if kind else _METAVARS.get(field.kind, field.name.upper()),
        help=field.about,
    )


@click.command("add", cls=_BeforeCommand)
@click.argument("rule", metavar="RULE")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE…]")
@click.option("--name", metavar="NAME", help="Default: the name of the task or program.")
@click.option("--task", metavar="TASK", help="Task to run, with KEY=VALUE as its arguments.")
@click.option("--paused", is_flag=True, help="Add it paused: nothing runs until it is resumed.")
@policy_options
@_job_options
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
    paused: bool,
    utc: bool,
    store: str,
    **options: Any,
) -> None:
    """Add a schedule: RULE, and a task or a command. Its first run is in the future.

    A rule with one moment that has passed counts as missed: it runs at once, or as --missed says.

    \b
      duly schedules add "Mon..Fri 02:00 Europe/Berlin" --task nightly_report
      duly schedules add "every 5m" --task sync --name sync-eu region=eu deep=true limit=10
      duly schedules add "02:30 Europe/Berlin" --name backup -- /srv/backup --full
      duly schedules add "0 4 * * *" --zone UTC --overlap queue_one --start-within 4h --task tidy

    If there is an app (DULY_APP, app in duly.toml, tasks.py here), TASK is looked up in it, and
    each VALUE is parsed by the type of its parameter. Otherwise a VALUE that is JSON is parsed as
    JSON (10, true, null, ["a"]), and any other is text; '"10"' is text. A command is run without a
    shell, by workers that allow it: duly up --allow shell.
    """
    command: list[str] = context.meta.get(_COMMAND, [])
    try:
        start = start_of(task, arguments, command)
        plan = new(rule, name=name, what=start, said=spoken(options))
    except RuleError as error:
        raise RuleRefused(error, rule) from None

    async def added(there: Store) -> tuple[StoredSchedule, str | None]:
        problem = None if command else await unknown_task(there, start.task)
        if problem and start.unknown:
            raise start.unknown
        [schedule] = await there.schedules.add([plan], paused=paused)
        return schedule, problem if start.unchecked else None

    schedule, note = ask(store, added, make=True)
    _tell("added", schedule, utc=utc)
    if command:
        note = "workers run commands only with: duly up --allow shell"
    if note:
        click.echo(f"note: {note}", err=True)


@click.command("edit")
@click.argument("name", metavar="NAME")
@click.option("--rule", metavar="RULE", help="New rule.")
@policy_options
@_job_options
@utc_option
@store_option
def edit(*, name: str, rule: str | None, utc: bool, store: str, **options: Any) -> None:
    """Change only the given options of a schedule. An edit never makes a run missed.

    \b
      duly schedules edit nightly --rule "Mon..Fri 03:00"
      duly schedules edit nightly --missed all --at-most 10 --spacing 1m
      duly schedules edit nightly --start-within none --exclude none
      duly schedules edit nightly --queue reports --priority low

    none removes a zone, a bound, an exclusion or a duration. An edit stays, even if code or a file
    declares the schedule differently.
    """
    said = spoken(options)
    if not said and rule is None:
        raise click.UsageError("say what to change: --rule, --overlap, --missed, --zone, …")

    async def edited(there: Store) -> StoredSchedule:

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
) -> Plan:
    """Return the plan of a new schedule; its zone is the configured one if none was given."""
    zone = said["zone"] if "zone" in said else settled().zone
    timing = parse(rule, zone=zone, dst=said.get("dst", "cron"), name=name or what.called)
    read = in_zone(said, said.get("zone") or timing.stated_zone or zone)
    words = {**read, "zone": zone}
    called = what.called if name is None else name
    return new_plan(called, rule, task=what.task, args=what.args, words=words)


def changed(plan: Plan, rule: str | None, said: Mapping[str, Any]) -> Plan:
    """Return the changed plan; the configured zone is used if one is needed and none is known."""
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
    return {
        word: None if OPTIONS[word].optional and value == NONE else OPTIONS[word].typed(value)
        for word, value in options.items()
        if value is not None
    }


def in_zone(words: Mapping[str, Any], zone: str | None) -> dict[str, Any]:
    """Return ``words`` with start and end parsed; without an offset they are in ``zone``."""
    read = {
        word: read_moment(words[word], zone=zone, what=f"--{word}")
        for word in words
        if OPTIONS[word].kind == "moment" and words[word] is not None
    }
    return {**words, **read}


def _tell(done: str, schedule: StoredSchedule, *, utc: bool) -> None:
    view, plan = View(utc=utc), schedule.plan
    missed = schedule.next_at is not None and schedule.next_at <= now()
    following = f"{'missed' if missed else 'next'} {view.moment(schedule.next_at, own_zone(plan))}"
    state = "paused" if schedule.pause else following if schedule.next_at else "never due again"
    left = "" if schedule.runs_left is None else f", {plural(schedule.runs_left, 'run')} left"
    click.echo(f"{done}  {plan.name}  {state}{left}")
    click.echo(plan.kept.explain(), err=True)


OURS = "duly."  # prefix of built-in tasks, which are in no app


def start_of(task: str | None, arguments: Sequence[str], command: Sequence[str]) -> TypedCall:
    if (task is None) == (not command):
        raise click.UsageError("say what to run: --task NAME KEY=VALUE…, or -- and a command")
    if task is not None:
        return _task(task, arguments)
    if arguments:
        raise click.UsageError(f'"{arguments[0]}": put the arguments of a command after the --')
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
            raise click.UsageError(f'"{pair}": write an argument of a task as KEY=VALUE')
        if key in found:
            raise click.UsageError(f'"{key}" is given twice')
        found[key] = _value(value)
    return found


def _value(text: str) -> object:
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text
