"""The overviews: today (results, problems, running and next runs), the timeline, and capacity.

The page of capacity has the load of workers, queues and limits, and charts of the last hour or day.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from duly.clock import now
from duly.durations import about, parse_duration
from duly.errors import InvalidValue, NotFound, RuleError
from duly.policy.why import LocalClock
from duly.views.capacity import CapacityView, capacity, limit_named, many, queue_named
from duly.views.charts import Percentiles, Series
from duly.views.timeline import By, timeline
from duly.web.request import WebRequest, segment
from duly.web.routes import PageRouter, Values
from duly.web.svg.charts import Chart, ChartLine, strip
from duly.web.svg.gantt import gantt

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


TIMELINE_SPANS: Final = ("10m", "1h", "6h", "24h", "7d")
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
        "spans": TIMELINE_SPANS,
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


SPANS: Final[Mapping[str, tuple[timedelta, str]]] = {
    "1h": (timedelta(hours=1), "Last hour"),
    "24h": (timedelta(hours=24), "Last day"),
}
MINUTE: Final = timedelta(minutes=1)

CAPACITY: Final = PageRouter()


@CAPACITY.page("/capacity", "capacity.html")
async def show_capacity(request: WebRequest) -> Values:
    span = request.query.get("span", "1h")
    if span not in SPANS:
        raise InvalidValue(f"span={span}: choose one of {', '.join(SPANS)}")
    backend = request.app.backend
    found = await request.app.ask(capacity, backend.charts, backend.flows, span=SPANS[span][0])
    clock = LocalClock(request.zone_of(), found.now)
    return {
        "view": found,
        "span": span,
        "spans": SPANS,
        "as_table": request.query.get("as") == "table",
        "charts": charts_of(found.series, clock),
        "rows": _rows(found.series, clock),
        "many": many,
        "per_minute": per_minute,
        "totals": _totals(found),
    }


def charts_of(series: Series, clock: LocalClock) -> list[Chart]:
    labels = [clock.near(start) for start in series.starts]
    lengths = (
        ("Queue latency", "from ready to started", series.waiting),
        ("Run time", "from started to ended", series.running),
        ("Lateness", "from due to started, of scheduled runs", series.lateness),
    )
    return [
        Chart(
            title="Throughput",
            about="ended jobs a minute",
            lines=_ended(series),
            labels=labels,
            shown=per_minute,
            stacked=True,
        ),
        *(
            Chart(title=title, about=said, lines=_percentiles(found), labels=labels, shown=_length)
            for title, said, found in lengths
        ),
    ]


def _percentiles(found: Percentiles) -> list[ChartLine]:
    return [
        ChartLine(name="p50", kind="half", values=found.p50),
        ChartLine(name="p95", kind="most", values=found.p95),
    ]


def per_minute(value: float) -> str:
    """Format a rate: ``0``, ``0.4``, ``12``, ``1,200``."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _ended(series: Series) -> list[ChartLine]:
    minutes = series.step / MINUTE

    def rate(counts: Sequence[int | None]) -> list[float | None]:
        return [None if count is None else count / minutes for count in counts]

    def line(name: str, kind: str, counts: Sequence[int | None]) -> ChartLine:
        total = f"{sum(count or 0 for count in counts):,}"
        return ChartLine(name=name, kind=kind, values=rate(counts), summary=total)

    found = [
        line("succeeded", "succeeded", series.succeeded),
        line("failed", "failed", series.failed),
    ]
    others = line("cancelled or expired", "others", series.others)
    return [*found, others] if any(series.others) else found


def _length(seconds: float) -> str:
    return about(timedelta(seconds=seconds))


def _rows(series: Series, clock: LocalClock) -> list[tuple[str, ...]]:
    """Return the values of the charts as table rows, newest first."""
    lengths = (*series.waiting, *series.running, *series.lateness)
    return [
        (
            clock.near(start),
            *(_cell(one[place]) for one in (series.succeeded, series.failed, series.others)),
            *("–" if (one := values[place]) is None else _length(one) for values in lengths),
        )
        for place, start in reversed(list(enumerate(series.starts)))
    ]


def _cell(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def _totals(found: CapacityView) -> list[tuple[str, str]]:
    depths = [one.depth for one in found.queues]
    return [
        ("running", many(sum(depth.running for depth in depths))),
        ("ready", many(sum(depth.ready for depth in depths))),
        ("scheduled", many(sum(depth.scheduled for depth in depths))),
        ("blocked", many(sum(depth.blocked for depth in depths))),
    ]


@CAPACITY.page("/capacity/pause", "capacity_pause.html", "operator")
@CAPACITY.page("/capacity/queue", "capacity_queue.html", "operator")
async def show_queue(request: WebRequest) -> Values:
    return {"queue": await request.app.ask(queue_named, _named(request))}


@CAPACITY.page("/capacity/limit", "capacity_limit.html", "operator")
async def show_limit(request: WebRequest) -> Values:
    return {"limit": await request.app.ask(limit_named, _named(request))}


@CAPACITY.page("/capacity/scale", "capacity_scale.html", "operator")
@CAPACITY.page("/capacity/stop", "capacity_stop.html", "operator")
async def show_worker(request: WebRequest) -> Values:
    who = _named(request)
    living = [one for one in await request.app.workers.alist() if str(one.id) == who]
    if not living:
        raise NotFound(f"no worker has the number {who} and lives")
    return {"worker": living[0]}


def _named(request: WebRequest) -> str:
    """Return the query parameter ``name``; names may hold any character, so it is not a path."""
    name = request.query.get("name", "")
    if not name:
        raise InvalidValue("say which: ?name=…")
    return name
