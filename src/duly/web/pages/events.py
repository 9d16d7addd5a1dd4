"""Event pages: the newest events with the schedules that react, one event, the emit form."""

import json
from datetime import timedelta
from typing import Final

from duly.clock import now
from duly.errors import InvalidValue
from duly.model.event import EventFilter
from duly.policy.redaction import shortened
from duly.rules.event_rule import BELOW, EVERYTHING
from duly.views import Listed
from duly.views.event import NO_REACTION, EventView, event_detail, event_list, events_of
from duly.views.schedules import RECENT, ScheduleRow, outcome_word, schedule_rows
from duly.web.pages.schedules import sparkline
from duly.web.request import WebRequest
from duly.web.routes import PageRouter, Values
from duly.web.task_text import as_json, shown

REACTING: Final = "start:event"
SHOWN: Final = 30
LONGEST: Final = 120  # characters of a payload in the list
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
        found = await request.app.ask_own(event_list, wanted, after=after, limit=SHOWN)
    except InvalidValue as error:
        found, refused = Listed(items=[]), str(error)
    return {
        "starting": starting.rows,
        "more_starting": starting.after is not None,
        "events": await request.app.ask(
            events_of, [row.recent[-1].fire for row in starting.rows if row.recent]
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
    plans = [row.schedule.plan.reaction for row in found.rows]
    meant = {plan.pattern for plan in plans if plan is not None}
    return {"names": sorted(name for name in meant if not name.endswith(("*", BELOW)))}


def _brief(event: EventView) -> str:
    return shortened(shown(json.dumps(event.payload, ensure_ascii=False)), LONGEST)


def _lately(row: ScheduleRow) -> str:
    """Return how many of the recent runs were due in the last day."""
    since = now() - A_DAY
    count = sum(one.fire.due_at >= since for one in row.recent)
    more = " or more" if count == RECENT else ""
    return f"{count}{more} in a day" if count else "none in a day"
