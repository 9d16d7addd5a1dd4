"""``duly schedules simulate``: predict which runs would start, be late, merged or skipped."""

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any

import click

from duly.cli.app_and_store import ask, output_option, run, store_option
from duly.cli.formats import NOTHING, View, iso, utc_option
from duly.cli.output import RuleRefused, roughly, table
from duly.cli.schedules.editing import TypedCall, changed, new, policy_options, spoken
from duly.cli.schedules.simulation_chart import drawn
from duly.clock import now
from duly.durations import parse_duration, show_duration, usual_runtime
from duly.errors import RuleError
from duly.model.schedule import Pause, Plan
from duly.policy.redaction import json_text
from duly.rehearse.simulation import KnownSchedule, continued, known_of, window_end
from duly.rehearse.simulation import simulate as simulated
from duly.rehearse.story import Outage, Story, StoryMoment, WhatIf
from duly.rules import local_time, parse
from duly.settings.loading import machine_zone
from duly.views.schedules import own_zone
from duly.views.times import read_length, read_moment

WIDTH, WIDEST = 100, 160  # without a terminal; at most, to stay readable


@click.command("simulate")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--from", "start", metavar="TIME", help="Start of the period. Default: now.")
@click.option(
    "--to", "end", metavar="TIME", help="End of the period, or its length: 48h. Default: a day."
)
@click.option(
    "--outage",
    "outages",
    metavar="TIME..TIME",
    multiple=True,
    help="Simulated outage: 01:00..05:30, or 01:00..4h. Repeatable.",
)
@click.option(
    "--runtime", metavar="TIME", help="How long each run takes. Default: as the last runs."
)
@click.option("--rule", metavar="RULE", help="Simulate this rule instead, with or without a NAME.")
@policy_options
@utc_option
@store_option
@output_option
def simulate(  # noqa: PLR0913 - one for each option
    *,
    name: str | None,
    start: str | None,
    end: str | None,
    outages: Sequence[str],
    runtime: str | None,
    rule: str | None,
    utc: bool,
    store: str,
    output: str,
    **options: Any,
) -> None:
    """Simulate a schedule: draw which runs would start, be skipped, merged or late, and why.

    \b
      duly schedules simulate nightly
      duly schedules simulate nightly --from 2026-11-16 --to 48h --runtime 40m
      duly schedules simulate nightly --outage 01:00..05:30 --outage "Tue 01:00..2h"
      duly schedules simulate nightly --runtime 3h --overlap queue_one     if it were changed so
      duly schedules simulate --rule "Mon..Fri 02:00 Europe/Berlin" --missed skip --outage 01:00..4h
      duly schedules simulate nightly -o json | jq '.moments[] | select(.late)'

    The scheduler itself decides, on a database in memory and a simulated clock; nothing is written
    to your database. The simulation assumes that there are enough workers, that a job that is asked
    to stop stops at once, and that a run ends with an outage and is repeated after it. A TIME is an
    ISO time, a time in the schedule's zone (02:00, "Tue 02:00": the next one), or a duration.

    \b
    Exit codes: 0 success, 2 invalid usage, or more than 5,000 runs, 3 no such schedule, 5 the
    database cannot be reached.
    """
    if name is None and rule is None:
        raise click.UsageError("say what: the NAME of a schedule, or --rule RULE")
    known = None if name is None else ask(store, lambda there: known_of(there, name))
    try:
        plan = planned(known, rule, spoken(options))
        what = supposed(plan, known, start=start, end=end, outages=outages, runtime=runtime)
    except RuleError as error:
        raise RuleRefused(error, rule or error.text) from None
    story = run(simulated(what))
    if output == "json":
        click.echo(json_text(_plain(story)))
    else:
        click.echo("\n".join(_lines(story, View(utc=utc, seconds=_has_seconds(story)))))


def _lines(story: Story, view: View) -> Iterator[str]:
    zone = "UTC" if view.utc else shown_zone(story.what.plan)
    yield f"{story.sentence}."
    if not story.moments:
        return
    rows = [_row(moment, view, zone) for moment in story.moments]
    yield f"\n{table(('DUE', 'OUTCOME', 'STARTS', 'ENDS', 'LATENESS', 'WHY'), rows)}\n"
    yield from drawn(story, zone=zone, width=_width())


def _has_seconds(story: Story) -> bool:
    """Return whether any time of the table is not a full minute."""
    times = (
        time
        for moment in story.moments
        for time in (moment.covers_from, moment.due_at, moment.starts_at, moment.ends_at)
    )
    return any(time.second for time in times if time is not None)


def _width() -> int:
    """Return the terminal's width; without a terminal a constant, whatever COLUMNS says."""
    if not sys.stdout.isatty():
        return WIDTH
    return min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDEST)


def _row(moment: StoryMoment, view: View, zone: str) -> tuple[str, ...]:
    return (
        _due(moment, view, zone),
        _outcome(moment),
        _on_clock(moment.starts_at, moment.due_at, zone, view),
        _on_clock(moment.ends_at, moment.due_at, zone, view),
        NOTHING if moment.lateness is None else roughly(moment.lateness),
        _why(moment, zone, view),
    )


def _due(moment: StoryMoment, view: View, zone: str) -> str:
    """Return ``Mon 2026-11-16 05:00 CET``; for several, ``Mon 2026-11-16 05:00 … 07:00 CET``."""
    last = view.moment(moment.due_at, zone)
    if moment.covers_from == moment.due_at:
        return last
    day, _, clock = last.rpartition(f"{local_time(moment.due_at, zone):%Y-%m-%d} ")
    first = view.moment(moment.covers_from, zone).rpartition(" ")[0]
    same_day = first.startswith(f"{day}{local_time(moment.due_at, zone):%Y-%m-%d}")
    return f"{first} … {clock if same_day else last}"


def _outcome(moment: StoryMoment) -> str:
    if moment.count == 1:
        return moment.outcome
    return f"{moment.outcome} {'many' if moment.count is None else format(moment.count, ',')}"


def _why(moment: StoryMoment, zone: str, view: View) -> str:
    """Return the reason of the outcome, and each attempt that an outage or timeout ended."""
    said = [moment.why]
    for one, following in zip_longest(moment.attempts, moment.attempts[1:]):
        if one.outcome in _ENDED:
            again = following and _on_clock(following.start, moment.due_at, zone, view)
            ended = f"{_ENDED[one.outcome]} at {_on_clock(one.end, moment.due_at, zone, view)}"
            said.append(f"{ended}, begins again at {again}" if again else ended)
    return "; ".join(said)


_ENDED = {"lost": "cut off by the outage", "timedout": "stopped for its timeout"}


def _on_clock(moment: datetime | None, beside: datetime, zone: str, view: View) -> str:
    """Return ``02:40``; if the day is not that of ``beside``, ``Tue 2026-11-17 02:40``."""
    if moment is None:
        return NOTHING
    local = local_time(moment, zone)
    same_day = local.date() == local_time(beside, zone).date()
    return f"{local:{view.time}}" if same_day else f"{local:%a %Y-%m-%d} {local:{view.time}}"


def _plain(story: Story) -> dict[str, object]:
    what = story.what
    return {
        "name": what.plan.name,
        "rule": what.plan.rule,
        "zone": shown_zone(what.plan),
        "policies": json.loads(what.plan.policies.as_json()),
        "from": iso(what.start),
        "to": iso(what.end),
        "runtime": show_duration(what.runtime),
        "outages": [{"from": iso(one.start), "to": iso(one.end)} for one in what.outages],
        "sentence": story.sentence,
        "clock_changes": [
            {"at": iso(change.at), "minutes": change.by // timedelta(minutes=1)}
            for change in story.clock_changes
        ],
        "moments": [_plain_moment(moment) for moment in story.moments],
    }


def _plain_moment(moment: StoryMoment) -> dict[str, object]:
    late = moment.lateness
    return {
        "due_at": iso(moment.due_at),
        "covers_from": iso(moment.covers_from),
        "count": moment.count,
        "outcome": moment.outcome,
        "cause": moment.cause,
        "why": moment.why,
        "starts_at": iso(moment.starts_at),
        "ends_at": iso(moment.ends_at),
        "lateness": None if late is None else show_duration(late),
        "late": moment.is_late,
        "attempts": [
            {"starts_at": iso(one.start), "ends_at": iso(one.end), "outcome": one.outcome}
            for one in moment.attempts
        ],
    }


UNNAMED = "simulated"
_ON_A_CLOCK = re.compile(r"(?:[A-Z][a-z]{2} )?\d{1,2}:\d{2}(?::\d{2})?")
_JUST_BEFORE = timedelta.resolution


def planned(known: KnownSchedule | None, rule: str | None, words: Mapping[str, Any]) -> Plan:
    """Return the schedule's plan with the given changes; without a schedule, one of the rule."""
    if known is not None:
        return changed(known.plan, rule, words)
    return new(rule or "", name=UNNAMED, what=TypedCall(UNNAMED, UNNAMED, {}), said=words)


def supposed(
    plan: Plan,
    known: KnownSchedule | None,
    *,
    start: str | None,
    end: str | None,
    outages: Sequence[str],
    runtime: str | None,
) -> WhatIf:
    """Return the scenario: the given options, and for the others the schedule's known values."""
    zone, moment = shown_zone(plan), now() if known is None else known.now
    begin = moment if start is None else _moment(start, moment, zone, "--from")
    down, length = _outages(outages, begin, zone), _runtime(runtime, known)
    if end is None:
        last = window_end(plan, begin, outages=down, runtime=length)
    else:
        last = _moment(end, begin, zone, "--to")
    what = WhatIf(
        plan=plan,
        start=begin,
        end=last,
        outages=down,
        runtime=length,
        pause=_pause(known, begin),
        asked=() if known is None else known.asked,
    )
    return what if known is None or start is not None else continued(what, known)


def shown_zone(plan: Plan) -> str:
    """Return the time zone for input and output: the plan's, else this machine's, else UTC."""
    return own_zone(plan) or machine_zone() or "UTC"


def _outages(texts: Sequence[str], start: datetime, zone: str) -> list[Outage]:
    found = []
    for text in texts:
        begin, dots, end = text.partition("..")
        if not (begin and dots and end):
            hint = f'"{text}": from when to when, as 01:00..05:30, 2026-11-16T01:00..4h'
            raise click.BadParameter(hint, param_hint="--outage")
        began = _moment(begin, start, zone, "--outage")
        found.append(Outage(began, _moment(end, began, zone, "--outage")))
    return found


def _moment(text: str, after: datetime, zone: str, option: str) -> datetime:
    """Parse an ISO time, a time of day (its next occurrence), or a duration after ``after``."""
    length = read_length(text)
    if length is not None:
        return after + length
    if _ON_A_CLOCK.fullmatch(text.strip()):
        try:
            rule = parse(text.strip(), zone=zone)
        except RuleError as error:
            raise click.BadParameter(str(error), param_hint=option) from None
        found = rule.after(after - _JUST_BEFORE)
        if found is not None:
            return found
    return read_moment(text, zone=zone, what=option, or_length=True)


def _runtime(text: str | None, known: KnownSchedule | None) -> timedelta:
    if text is not None:
        try:
            return parse_duration(text)
        except RuleError as error:
            raise click.BadParameter(str(error), param_hint="--runtime") from None
    runs = () if known is None else known.runs
    usual = usual_runtime(runs)
    if usual is None:
        click.echo("runtime: 0 s, because no run is known; use --runtime 40m", err=True)
        return timedelta()
    count = "the last run" if len(runs) == 1 else f"the median of the last {len(runs)} runs"
    click.echo(f"runtime: {roughly(usual)}, {count}; --runtime sets another", err=True)
    return usual


def _pause(known: KnownSchedule | None, start: datetime) -> Pause | None:
    pause = None if known is None else known.pause
    if pause is None or (pause.until is not None and pause.until <= start):
        return None
    if pause.until is None:
        click.echo("note: it is paused; this simulates a resumed schedule", err=True)
        return None
    return pause
