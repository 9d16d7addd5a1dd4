"""The list of schedules and the page of one; the newest events with the schedules that react."""

import json
from collections.abc import Sequence
from datetime import timedelta
from shlex import quote
from typing import Final

from duly.clock import now
from duly.durations import about
from duly.errors import DulyError, InvalidValue
from duly.model.event import EventFilter
from duly.model.payload import decode
from duly.policy.reaction import FIELD, is_field
from duly.policy.redaction import hidden, hidden_json, shortened
from duly.policy.why import LocalClock
from duly.rehearse.examples import examples
from duly.rules.event_rule import BELOW, EVERYTHING
from duly.views import Listed
from duly.views.event import NO_REACTION, EventView, event_detail, event_list, events_of
from duly.views.fires import Fire
from duly.views.schedule_detail import (
    MOST_WEIGHED,
    ScheduleDetail,
    removed_schedules,
    schedule_detail,
)
from duly.views.schedules import (
    RECENT,
    ScheduleRow,
    outcome_word,
    own_zone,
    schedule_rows,
)
from duly.web.rendering import as_json, shown
from duly.web.request import WebRequest, moment_of
from duly.web.routes import LIVE, PageRouter, Values
from duly.web.svg.schedule_charts import Mark, durations, heat_map, outcomes, policy_timeline

SCHEDULES: Final = PageRouter(tenants=True)


@SCHEDULES.page("/schedules", "schedules.html")
async def schedules(request: WebRequest) -> Values:
    """Return the values of the list; an invalid filter is reported beside its box."""
    words, after = request.query.get("filter", ""), request.query.get("after", "")
    refused = ""
    try:
        found = await request.app.ask_own(schedule_rows, words, after=after)
    except InvalidValue as error:
        found, refused = Listed(items=[]), str(error)
    return {
        "rows": sorted(found.items, key=_by_next),
        "after": found.next,
        "is_first": not after,
        "filter": words,
        "refused": refused,
        "zone": request.zone_of(),
        "removed": [] if request.user.tenant else await request.app.ask(removed_schedules),
        "sparkline": lambda row: sparkline(row, request),
        "outcome": outcome_word,
    }


def sparkline(row: ScheduleRow, request: WebRequest) -> str:
    """Draw the results of a schedule's last runs."""
    clock = LocalClock(request.zone_of(), now())
    return outcomes(
        [
            Mark(
                one.kept,
                f"{clock.near(one.fire.due_at.replace(microsecond=0))}: {outcome_word(one.fire)}",
            )
            for one in row.recent
        ]
    )


def _by_next(row: ScheduleRow) -> tuple[bool, float, str]:
    """Return the sort key: by the next run; schedules without one are last."""
    moment = row.schedule.next_at
    return moment is None, moment.timestamp() if moment else 0.0, row.schedule.name


# What happens to an edit, by the owner of the schedule.
OWNERS: Final = {
    "code": "It is declared in code. What you edit stays when the code is deployed again, and is "
    "shown as drift until you take it back.",
    "file": "It comes from a file. What you edit stays when the file is applied again, which says "
    "so, unless it takes everything back.",
    "api": "A program added it through the API, and may change it again.",
    "person": "A person added it. Nobody else changes it.",
}


@SCHEDULES.page("/schedules/{name:path}/policies", "schedule_policies.html")
async def policies(request: WebRequest, name: str) -> Values:
    """Return the policy examples as timelines.

    Simulating the examples is slow, so the page loads them once, in a request of their own.
    """
    found = await request.app.schedules.aget(name)
    zone = request.zone_of(own_zone(found.plan))
    try:
        made = await request.app.ask(examples, name, now=now())
    except DulyError:
        made = []
    return {
        "examples": [(one, policy_timeline(one.story, zone=zone, title=one.title)) for one in made],
        "command": f"duly schedules simulate {quote(name)} --outage 01:00..05:30",
    }


@SCHEDULES.page("/schedules/{name:path}", "schedule.html")
async def schedule(request: WebRequest, name: str) -> Values:
    before = moment_of(request.query.get("before", ""))
    is_whole = LIVE not in request.query
    found = await request.app.ask(
        schedule_detail,
        name,
        before=before,
        measured=MOST_WEIGHED if is_whole and before is None else 0,
    )
    values = {
        "it": found,
        "schedule": found.schedule,
        "sentence": _sentence(found.sentence, found.policies),
        "args": hidden_json(found.schedule.task, found.schedule.args),
        "needs_nothing": _needs_nothing(request, found.schedule.task),
        "owners": OWNERS,
        "outcome": outcome_word,
        "took": _took(found.fires),
        "is_first": before is None,
        **await _started_by_events(request, found),
    }
    if not is_whole:
        return values
    zone = request.zone_of(found.zone)
    return values | {"heat_map": heat_map(found.hours(zone)), "zone": zone}


async def _started_by_events(request: WebRequest, found: ScheduleDetail) -> Values:
    """Return the values that a schedule started by events shows instead of its next runs."""
    plan = found.schedule.plan
    reaction = plan.reaction
    if reaction is None:
        return {"reaction": None, "events": {}, "takes": ()}
    name = _example_of(reaction.pattern)
    fields = [value[FIELD] for value in decode(plan.args).values() if is_field(value)]
    payload = ", ".join(f'"{field}": …' for field in fields)
    return {
        "reaction": reaction,
        "events": await request.app.ask(events_of, found.fires),
        "takes": [_taken(name, value) for name, value in decode(plan.args).items()],
        "emits": f'duly.emit("{name}", {{{payload}}})',
        "emits_in_shell": " ".join(["duly events emit", name, *(f"{one}=…" for one in fields)]),
    }


def _example_of(pattern: str) -> str:
    """Return an example of an event name that matches the pattern."""
    return f"{pattern[:-1]}changed" if pattern.endswith("*") and pattern != "*" else pattern


def _taken(name: str, value: object) -> tuple[str, str, str]:
    """Return the name of an argument, and its value or the event field it is taken from."""
    if not isinstance(value, dict) or FIELD not in value:
        return name, "is", json.dumps(hidden({name: value})[name], ensure_ascii=False)
    said = f"is its {value[FIELD]}"
    return name, f"{said}, or else the default" if value.get("optional") else said, ""


def _sentence(rule: str, policies: Sequence[str]) -> str:
    """Return ``Weekdays at 02:00 Europe/Berlin; missed runs are caught up once.``."""
    return "; ".join([rule.rstrip("."), *policies]) + "."


def _needs_nothing(request: WebRequest, task: str) -> bool:
    """Return whether the task is known to have no parameters."""
    if task not in request.app.registry:
        return False
    return not request.app.registry.get(task).signature.parameters.names


def _took(fires: Sequence[Fire]) -> Values | None:
    """Return a sparkline of run durations, oldest first, and its summary; None for too few."""
    lengths = [fire.took for fire in reversed(fires) if fire.took is not None]
    if len(lengths) < _ENOUGH:
        return None
    usual = sorted(lengths)[len(lengths) // 2]
    said = (
        f"The last {len(lengths)} runs took {about(usual)} usually, {about(max(lengths))} at most"
    )
    return {"drawn": durations(lengths, label=said), "said": said}


_ENOUGH: Final = 3


REACTING: Final = "start:event"
EVENTS_SHOWN: Final = 30
LONGEST_PAYLOAD: Final = 120  # characters of a payload in the list
A_DAY: Final = timedelta(days=1)

EVENTS: Final = PageRouter()


@EVENTS.page("/schedules/events", "events.html")
async def events(request: WebRequest) -> Values:
    """Return the values of the events page; an invalid filter is reported beside its box."""
    name, key = (
        request.query.get("name", "").strip() or EVERYTHING,
        request.query.get("key", "").strip(),
    )
    after, refused = request.query.get("after") or None, ""
    starting = await request.app.ask(schedule_rows, REACTING)
    try:
        wanted = EventFilter(pattern=name, key=key or None)
        found = await request.app.ask_own(event_list, wanted, after=after, limit=EVENTS_SHOWN)
    except InvalidValue as error:
        found, refused = Listed(items=[]), str(error)
    return {
        "starting": starting.items,
        "more_starting": starting.next is not None,
        "events": await request.app.ask(
            events_of, [row.recent[-1].fire for row in starting.items if row.recent]
        ),
        "happened": found.items,
        "after": found.next,
        "is_first": after is None,
        "name": name,
        "key": key,
        "refused": refused,
        "brief": _brief,
        "lately": _lately,
        "sparkline": lambda row: sparkline(row, request),
        "outcome": outcome_word,
    }


@EVENTS.page("/schedules/events/{id:number}", "event.html")
async def event(request: WebRequest, number: int) -> Values:
    found = await request.app.ask_own(event_detail, number)
    return {"event": found, "payload": as_json(found.payload), "no_reaction": NO_REACTION}


@EVENTS.page("/schedules/events/new", "event_new.html", "operator")
async def emit(request: WebRequest) -> Values:
    """Return the values of the emit form: the event names that schedules react to."""
    found = await request.app.ask(schedule_rows, REACTING)
    plans = [row.schedule.plan.reaction for row in found.items]
    meant = {plan.pattern for plan in plans if plan is not None}
    return {"names": sorted(name for name in meant if not name.endswith(("*", BELOW)))}


def _brief(event: EventView) -> str:
    return shortened(shown(json.dumps(event.payload, ensure_ascii=False)), LONGEST_PAYLOAD)


def _lately(row: ScheduleRow) -> str:
    """Return how many of the recent runs were due in the last day."""
    since = now() - A_DAY
    count = sum(one.fire.due_at >= since for one in row.recent)
    more = " or more" if count == RECENT else ""
    return f"{count}{more} in a day" if count else "none in a day"
