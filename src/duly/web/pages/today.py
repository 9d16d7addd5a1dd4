"""Today: was everything kept, what needs somebody, what runs, what is next."""

from datetime import datetime, timedelta

from duly.web.request import WebRequest
from duly.web.routes import PageRoute, Values, WebServices
from duly.web.svg.strip import strip

HOUR = timedelta(hours=1)


async def today(services: WebServices, request: WebRequest) -> Values:
    found = await request.app.ask(services.backend.today.look)
    zone = request.zone_of()

    def link(hour: datetime) -> str:
        """What was, as jobs; what is coming, as a timeline."""
        if hour > found.now:
            return request.at("/schedules/timeline")
        ended = f"since:{hour.isoformat()} before:{(hour + HOUR).isoformat()}"
        return request.at("/jobs", filter=ended)

    return {
        "status": found,
        "headline": found.headline(zone, brief=True),
        "strip": strip(found.strip, zone, link) if found.strip else "",
    }


TODAY = PageRoute(path="/", template="today.html", view=today)
