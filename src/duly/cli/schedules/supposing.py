"""From what somebody types to what is supposed: a plan, a stretch of time, outages, a runtime."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from duly.cli.formats import read_length, read_moment
from duly.cli.output import roughly
from duly.cli.schedules.planning import changed, new
from duly.cli.schedules.starting import Start
from duly.clock import now
from duly.durations import parse_duration
from duly.errors import RuleError
from duly.rules import parse
from duly.settings.machine import machine_zone

if TYPE_CHECKING:
    from duly.model.schedule import Pause, Plan
    from duly.rehearse import Known, Outage, WhatIf

UNNAMED = "simulated"
_ON_A_CLOCK = re.compile(r"(?:[A-Z][a-z]{2} )?\d{1,2}:\d{2}(?::\d{2})?")
_JUST_BEFORE = timedelta.resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """As it was typed."""

    start: str | None
    end: str | None
    outages: Sequence[str]
    runtime: str | None


def planned(known: "Known | None", rule: str | None, words: Mapping[str, Any]) -> "Plan":
    """The schedule's plan with what is said; or one of a rule, and nothing that could be run."""
    if known is not None:
        return changed(known.plan, rule, words)
    return new(rule or "", name=UNNAMED, what=Start(UNNAMED, UNNAMED, {}), said=words)


def supposed(plan: "Plan", known: "Known | None", said: Said) -> "WhatIf":
    """What is said, and for the rest what is known."""
    from duly.rehearse import WhatIf, continued, window_end

    zone, moment = shown_zone(plan), now() if known is None else known.now
    start = moment if said.start is None else _moment(said.start, moment, zone, "--from")
    outages = _outages(said.outages, start, zone)
    runtime = _runtime(said.runtime, known)
    what = WhatIf(
        plan=plan,
        start=start,
        end=window_end(plan, start, outages=outages, runtime=runtime)
        if said.end is None
        else _moment(said.end, start, zone, "--to"),
        outages=outages,
        runtime=runtime,
        pause=_pause(known, start),
        asked=() if known is None else known.asked,
    )
    if known is None or said.start is not None:
        return what
    return continued(what, known)


def shown_zone(plan: "Plan") -> str:
    """On whose clock its moments are read, and shown."""
    from duly.views.schedules import own_zone

    return own_zone(plan) or machine_zone() or "UTC"


def _outages(texts: Sequence[str], start: datetime, zone: str) -> "list[Outage]":
    from duly.rehearse import Outage

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
    """An ISO time; or the next time that a clock shows; or so long after."""
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
    return read_moment(text, zone=zone, option=option, or_length=True)


def _runtime(text: str | None, known: "Known | None") -> timedelta:
    from duly.durations import usual_runtime

    if text is not None:
        try:
            return parse_duration(text)
        except RuleError as error:
            raise click.BadParameter(str(error), param_hint="--runtime") from None
    runs = () if known is None else known.runs
    usual = usual_runtime(runs)
    if usual is None:
        click.echo("runtime: 0 s, as no run is known; say --runtime 40m", err=True)
        return timedelta()
    count = "the last run" if len(runs) == 1 else f"the median of the last {len(runs)} runs"
    click.echo(f"runtime: {roughly(usual)}, {count}; say --runtime for another", err=True)
    return usual


def _pause(known: "Known | None", start: datetime) -> "Pause | None":
    pause = None if known is None else known.pause
    if pause is None or (pause.until is not None and pause.until <= start):
        return None
    if pause.until is None:
        click.echo("note: it is paused; this is as if somebody resumed it", err=True)
        return None
    return pause
