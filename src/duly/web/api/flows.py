"""The steps of a flow over HTTP."""

from typing import Final

from duly.views.flow_page import own_flow, own_parts
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.job import number_of
from duly.web.api.schemas.common import Listed
from duly.web.api.schemas.flows import Flow, Part, PartQuery
from duly.web.request import WebRequest

MOST_DIGITS: Final = 9  # of the number of a step


async def flow(request: WebRequest, _: Nothing) -> Flow:
    return Flow.of(await request.app.ask(own_flow, number_of(request), tenant=request.user.tenant))


async def parts(request: WebRequest, query: PartQuery) -> Listed[Part]:
    found = await request.app.ask(
        own_parts,
        number_of(request),
        _step(request),
        after=query.after,
        limit=query.limit,
        tenant=request.user.tenant,
    )
    after = None if found.after is None else str(found.after)
    return Listed(items=[Part.of(one) for one in found.parts], next=after)


def _step(request: WebRequest) -> int:
    """The number of a step; 0, which none has, for what is no number."""
    text = request.name("step")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 0


FLOWS: Final = (
    Endpoint(
        method="GET",
        path="/jobs/{id}/flow",
        role="viewer",
        tenants=True,
        run=flow,
        summary="The steps of a flow, and where each stands",
        tag="jobs",
        answer=Flow,
        about="A flow is a job with steps, which are jobs too: `filter=flow:4711` lists those.",
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/flow/{step}/parts",
        role="viewer",
        tenants=True,
        run=parts,
        summary="The jobs of a step",
        tag="jobs",
        body=PartQuery,
        answer=Listed[Part],
    ),
)
