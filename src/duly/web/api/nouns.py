"""All endpoints of the API, by noun."""

from typing import Any, Final

from duly.web.api.access import ACCESS
from duly.web.api.capacity import CAPACITY
from duly.web.api.endpoint import Endpoint
from duly.web.api.events import EVENTS
from duly.web.api.files import DECLARING
from duly.web.api.job import JOB
from duly.web.api.jobs import JOBS
from duly.web.api.schedules import SCHEDULES
from duly.web.api.status import ASKING
from duly.web.api.working import WORKING

VERSION: Final = "/api/v1"
_ROUTERS: Final = (
    JOBS, JOB, SCHEDULES, EVENTS, CAPACITY, ASKING, DECLARING, ACCESS, WORKING,
)  # fmt: skip
ENDPOINTS: Final[tuple[Endpoint[Any, Any], ...]] = tuple(
    endpoint for router in _ROUTERS for endpoint in router.endpoints
)
