"""The page of today (results, problems, running and next runs), and the timeline."""

from datetime import datetime, timedelta
from typing import Final

from duly.clock import now
from duly.durations import parse_duration
from duly.errors import RuleError
from duly.views.timeline import By, timeline
from duly.web.request import WebRequest, segment
from duly.web.routes import PageRouter, Values
from duly.web.svg.gantt import gantt
from duly.web.svg.strip import strip

HOUR = timedelta(hours=1)

TODAY: Final = PageRouter()


@TODAY.page("/", "today.html")
async def today(request: WebRequest) -> Values:
    zone = request.zone_of()
    found = await request.app.ask(request.app.backend.today.look, zone)

    def link(hour: datetime) -> str:
        """Return the URL of an hour: the list of jobs for the past, else the timeline."""
        if hour > found.now:
            return request.at("/schedules/timeline")
        ended = f"since:{hour.isoformat()} before:{(hour + HOUR).isoformat()}"
        return request.at("/jobs", filter=ended)

    return {
        "status": found,
        "zone": zone,
        "headline": found.headline(zone, brief=True),
        "strip": strip(found.strip, zone, link) if found.strip else "",
    }


SPANS: Final = ("10m", "1h", "6h", "24h", "7d")
USUAL: Final = "6h"
LONGEST: Final = timedelta(days=31)


@TODAY.page("/schedules/timeline", "schedules_timeline.html")
async def show_timeline(request: WebRequest) -> Values:
    schedule = request.query.get("schedule") or None
    said = request.query.get("span", USUAL)
    span, by = _span(said), _by(request.query.get("by", ""))
    found = await request.app.ask(timeline, span=span, now=now(), schedule=schedule, by=by)
    zone = request.zone_of(found.zone)
    return {
        "timeline": found,
        "drawn": gantt(
            found,
            zone=zone,
            job=lambda number: request.at(f"/jobs/{number}"),
            lane=lambda name: request.at(f"/schedules/{segment(name)}"),
        ),
        "schedule": schedule,
        "span": said,
        "by": by,
        "spans": SPANS,
        "zone": zone,
    }


def _span(text: str) -> timedelta:
    """Parse the span; the default if it is invalid or too long."""
    try:
        found = parse_duration(text)
    except RuleError:
        found = timedelta()
    return found if timedelta() < found <= LONGEST else parse_duration(USUAL)


def _by(text: str) -> By:
    return "worker" if text == "worker" else "queue" if text == "queue" else "schedule"
