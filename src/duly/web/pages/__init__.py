"""All pages of the dashboard, and their routes that are not pages."""

from typing import Final

from duly.web.pages.capacity import CAPACITY
from duly.web.pages.events import EVENTS
from duly.web.pages.jobs import BULK, JOB, JOBS, LOG_FILE, SEARCH
from duly.web.pages.schedule_forms import EDITING, SHEETS
from duly.web.pages.schedules import POLICIES, SCHEDULE, SCHEDULES
from duly.web.pages.system import MAKE_TOKEN, SYSTEM
from duly.web.pages.today import TIMELINE, TODAY
from duly.web.routes import PageRoute, WebRoute

PAGES: Final[tuple[PageRoute, ...]] = (
    TODAY,
    JOBS,
    BULK,
    *JOB,
    SCHEDULES,
    TIMELINE,
    *EVENTS,
    *EDITING,
    POLICIES,
    *SHEETS,
    SCHEDULE,
    *CAPACITY,
    *SYSTEM,
)
OTHER_ROUTES: Final[tuple[WebRoute, ...]] = (LOG_FILE, MAKE_TOKEN, SEARCH)
