"""All pages of the dashboard, and its routes that are not pages."""

from typing import Final

from duly.web.pages.jobs import JOBS
from duly.web.pages.overview import CAPACITY, TODAY
from duly.web.pages.schedule_forms import FORMS
from duly.web.pages.schedules import EVENTS, SCHEDULES
from duly.web.pages.system import SYSTEM
from duly.web.routes import WebRoute

# A name of a schedule may hold any character, so the routes of one schedule are the last of those.
PAGES: Final[tuple[WebRoute, ...]] = tuple(
    route
    for router in (TODAY, JOBS, EVENTS, FORMS, SCHEDULES, CAPACITY, SYSTEM)
    for route in router.routes
)
