"""A worker in any language that speaks HTTP: register, claim, renew, finish.

Arguments are given as they are, secrets and all: whoever runs a job needs them. So it takes the
operator role, for all tenants. A worker is its token's own: no other token speaks for it, and none
for a worker that is native.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from duly.app.acting import UserApp
from duly.runtime import Guests, Holding, Line, finish, note, say
from duly.web.api.endpoint import Endpoint
from duly.web.api.schemas.working import (
    Claim,
    Finish,
    Finished,
    Given,
    Held,
    Log,
    Progress,
    Register,
    Registered,
    Renewed,
    Who,
    Work,
)
from duly.web.request import WebRequest

TAG: Final = "work"

B = TypeVar("B")
A = TypeVar("A")


async def register(guests: Guests, app: UserApp, body: Register) -> Registered:
    return Registered.of(await guests.register(body.wanted(), holder=app.holder))


async def renew(guests: Guests, app: UserApp, body: Who) -> Renewed:
    return Renewed.of(await guests.renew(body.worker, holder=app.holder))


async def claim(guests: Guests, app: UserApp, body: Claim) -> Given:
    brought = await guests.claim(body.worker, holder=app.holder, limit=body.limit, wait=body.wait)
    return Given(order=brought.order, jobs=[Work.of(job) for job in brought.jobs])


async def held(guests: Guests, app: UserApp, body: Who) -> Held:
    jobs = await guests.held(body.worker, holder=app.holder)
    return Held(jobs=[Work.of(job) for job in jobs])


async def finished(guests: Guests, app: UserApp, body: Finish) -> Finished:
    """What became of jobs is in the audit log, in the name of who says so."""
    has_row = await guests.has_row(body.worker, holder=app.holder)
    return Finished.of(await app.ask(finish, body.worker, body.endings(), has_row=has_row))


async def log(guests: Guests, app: UserApp, body: Log) -> None:
    await guests.check_row(body.worker, holder=app.holder)
    lines = [Line(line.text, line.level, line.at) for line in body.lines]
    await say(guests.store, Holding(body.worker, body.id, body.fence), lines)


async def progress(guests: Guests, app: UserApp, body: Progress) -> None:
    await guests.check_row(body.worker, holder=app.holder)
    holding = Holding(body.worker, body.id, body.fence)
    await note(guests.store, holding, body.percent, message=body.message)


async def end(guests: Guests, app: UserApp, body: Who) -> None:
    await guests.end(body.worker, holder=app.holder)


def _endpoint(
    name: str,
    run: Callable[[Guests, UserApp, B], Awaitable[A]],
    *,
    body: type[B],
    answer: type[A] | None = None,
    summary: str,
) -> Endpoint[B, A]:
    async def ran(request: WebRequest, said: B) -> A:
        return await run(await request.app.backend.guests(), request.app, said)

    return Endpoint(
        method="POST",
        path=f"/{TAG}/{name}",
        role="operator",
        run=ran,
        summary=summary,
        tag=TAG,
        body=body,
        answer=answer,
    )


WORKING: Final = (
    _endpoint(
        "register",
        register,
        body=Register,
        answer=Registered,
        summary="Begin a worker, and its lease",
    ),
    _endpoint(
        "renew",
        renew,
        body=Who,
        answer=Renewed,
        summary="Prolong the lease, and hear what is to be done",
    ),
    _endpoint(
        "claim", claim, body=Claim, answer=Given, summary="Take jobs to run, or wait for some"
    ),
    _endpoint(
        "held", held, body=Who, answer=Held, summary="What it runs: after an answer that was lost"
    ),
    _endpoint("finish", finished, body=Finish, answer=Finished, summary="Say what became of jobs"),
    _endpoint("log", log, body=Log, summary="Write lines into the log of a job"),
    _endpoint("progress", progress, body=Progress, summary="Say how far a job is"),
    _endpoint("end", end, body=Who, summary="End a worker: others get what it still held"),
)
