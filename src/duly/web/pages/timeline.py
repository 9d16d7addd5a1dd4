"""What ran when, what runs, and what is to come: all schedules on one axis, or one of them."""

from datetime import timedelta
from typing import Final

from duly.clock import now
from duly.durations import parse_duration
from duly.errors import RuleError
from duly.views.timeline import By, timeline
from duly.web.page import Page, Values
from duly.web.request import Ask, segment
from duly.web.shared import House
from duly.web.svg.gantt import gantt

SPANS: Final = ("10m", "1h", "6h", "24h", "7d")
USUAL: Final = "6h"
LONGEST: Final = timedelta(days=31)


async def show_timeline(_: House, ask: Ask) -> Values:
    schedule = ask.query.get("schedule") or None
    said = ask.query.get("span", USUAL)
    span, by = _span(said), _by(ask.query.get("by", ""))
    found = await ask.front.ask(timeline, span=span, now=now(), schedule=schedule, by=by)
    zone = ask.zone_of(found.zone)
    return {
        "timeline": found,
        "drawn": gantt(
            found,
            zone=zone,
            job=lambda number: ask.at(f"/jobs/{number}"),
            lane=lambda name: ask.at(f"/schedules/{segment(name)}"),
        ),
        "schedule": schedule,
        "span": said,
        "by": by,
        "spans": SPANS,
        "zone": zone,
    }


def _span(text: str) -> timedelta:
    """What cannot be read is the usual."""
    try:
        found = parse_duration(text)
    except RuleError:
        found = timedelta()
    return found if timedelta() < found <= LONGEST else parse_duration(USUAL)


def _by(text: str) -> By:
    return "worker" if text == "worker" else "queue" if text == "queue" else "schedule"


TIMELINE = Page(path="/schedules/timeline", template="schedules_timeline.html", view=show_timeline)
