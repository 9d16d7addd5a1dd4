"""Today: was everything kept, what needs somebody, what runs, what is next."""

from datetime import datetime, timedelta

from duly.web.page import Page, Values
from duly.web.request import Ask
from duly.web.shared import House
from duly.web.svg.strip import strip

HOUR = timedelta(hours=1)


async def today(house: House, ask: Ask) -> Values:
    found = await ask.front.ask(house.lobby.today.look)
    zone = ask.zone_of()

    def link(hour: datetime) -> str:
        """What was, as jobs; what is coming, as a timeline."""
        if hour > found.now:
            return ask.at("/schedules/timeline")
        ended = f"since:{hour.isoformat()} before:{(hour + HOUR).isoformat()}"
        return ask.at("/jobs", filter=ended)

    return {
        "status": found,
        "headline": found.headline(zone, brief=True),
        "strip": strip(found.strip, zone, link) if found.strip else "",
    }


TODAY = Page(path="/", template="today.html", view=today)
