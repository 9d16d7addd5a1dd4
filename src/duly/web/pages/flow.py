"""The steps of a flow on the page of its job; and a form for a step that asks somebody."""

from collections.abc import Callable
from typing import Any, Final

from duly.model.filter_language import quoted
from duly.views.flow_page import Awaits, FlowSeen, StepSeen
from duly.views.tenancy import own_job
from duly.web.pages.job_log import number_of
from duly.web.request import WebRequest
from duly.web.routes import PageRoute, Values, WebServices
from duly.web.svg.graph import draw_flow

MOST_ROWS: Final = 500


def flow_values(flow: FlowSeen | None, request: WebRequest) -> dict[str, Any]:
    """What the template needs beside the flow itself."""
    if flow is None:
        return {}
    link = _links(flow, request)
    return {
        "graph": draw_flow(flow, link),
        "steps": flow.steps[:MOST_ROWS],
        "step_link": link,
    }


async def answer(_: WebServices, request: WebRequest) -> Values:
    """A form for what somebody has to say."""
    found = await request.app.ask(own_job, number_of(request), request.user.tenant)
    awaits = Awaits.of(found)
    return {"job": found, "awaits": awaits, "name": awaits.event if awaits else found.task}


def _links(flow: FlowSeen, request: WebRequest) -> Callable[[StepSeen], str | None]:
    """A step is its job; one over a list, the list of its jobs."""

    def link(step: StepSeen) -> str | None:
        info = step.info
        if info.job_id is None:
            return None
        if not step.is_map:
            return request.at(f"/jobs/{info.job_id}")
        return request.at("/jobs", filter=f"flow:{flow.info.id} task:{quoted(info.task)}")

    return link


ANSWER = PageRoute(
    path="/jobs/{id:number}/answer",
    template="job_answer.html",
    view=answer,
    role="operator",
    tenants=True,
)
