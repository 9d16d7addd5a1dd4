"""The schedules: what is to come, and whether the last times were kept."""

from duly.clock import now
from duly.errors import InvalidValue
from duly.policy.why import Clock
from duly.views.drift import removed_schedules
from duly.views.schedule_rows import Row, Rows, outcome_word, schedule_rows
from duly.web.request import WebRequest
from duly.web.routes import PageRoute, Values, WebServices
from duly.web.svg.sparkline import Mark, outcomes


async def schedules(_: WebServices, request: WebRequest) -> Values:
    """A filter that cannot be read is said beside the box that it was typed into."""
    words, after = request.query.get("filter", ""), request.query.get("after", "")
    refused = ""
    try:
        found = await request.app.ask(schedule_rows, words, after=after)
    except InvalidValue as error:
        found, refused = Rows(rows=(), after=None), str(error)
    return {
        "rows": sorted(found.rows, key=_by_next),
        "after": found.after,
        "is_first": not after,
        "filter": words,
        "refused": refused,
        "removed": await request.app.ask(removed_schedules),
        "sparkline": lambda row: sparkline(row, request),
        "outcome": outcome_word,
    }


def sparkline(row: Row, request: WebRequest) -> str:
    """The last times, as they were kept."""
    clock = Clock(request.zone_of(row.zone), now())
    return outcomes(
        [
            Mark(
                one.kept,
                f"{clock.near(one.fire.due_at.replace(microsecond=0))}: {outcome_word(one.fire)}",
            )
            for one in row.recent
        ]
    )


def _by_next(row: Row) -> tuple[bool, float, str]:
    """Who is due first; behind them, those that are not."""
    moment = row.schedule.next_at
    return moment is None, moment.timestamp() if moment else 0.0, row.schedule.name


SCHEDULES = PageRoute(path="/schedules", template="schedules.html", view=schedules)
