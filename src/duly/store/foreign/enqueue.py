"""Enqueue jobs inside the caller's own transaction, on any supported connection.

The operation is the one that runs on our own connections. Jobs appear, or vanish, with the caller's
transaction. No process is notified, because nothing has happened before the commit.
"""

from collections.abc import Sequence

from duly.errors import InvalidValue
from duly.model.job import JobRequest
from duly.model.payload import LONGEST_ARGS, check_text
from duly.store import jobs
from duly.store.database import Operation
from duly.store.foreign.talk import Talk, at_once, bracketed, carry_out, driver_of, named, reserved
from duly.store.jobs import NumberedCall


def enqueue_on(connection: object, calls: Sequence[JobRequest]) -> list[int]:
    """Store jobs in the transaction of the connection; return their ids."""
    driver = driver_of(connection)
    if driver.waits:
        raise InvalidValue(f"this is {named(connection)}: await {_awaited(calls)}")
    _check(calls)
    if not calls:
        return []
    talk = Talk.on(driver, connection)
    return at_once(carry_out(talk, _enqueue(talk, calls)))


async def aenqueue_on(connection: object, calls: Sequence[JobRequest]) -> list[int]:
    """Store jobs like ``enqueue_on``, on an asynchronous connection."""
    driver = driver_of(connection)
    if not driver.waits:
        raise InvalidValue(
            f"this is {named(connection)} of {driver.package}, which cannot be awaited: "
            "enqueue(…) without await"
        )
    _check(calls)
    if not calls:
        return []
    if driver.relay:
        lender = await driver.relay(connection)
        return list(await lender.run_sync(enqueue_on, calls))
    talk = Talk.on(driver, connection)
    return await carry_out(talk, _enqueue(talk, calls))


def _enqueue(talk: Talk, calls: Sequence[JobRequest]) -> Operation[list[int]]:
    """Enqueue the jobs, in a savepoint only where one is needed.

    Without keys, one statement writes. A key that is taken is noticed before anything is changed.
    So a caller that enqueues one job after the other needs no savepoint.
    """
    ids = yield from reserved(len(calls))
    numbers = ids.take(len(calls))
    wanted = [NumberedCall(call, number) for call, number in zip(calls, numbers, strict=True)]
    if all(call.key is None for call in calls):
        return (yield from jobs.enqueue(wanted))
    brackets = talk.brackets(whole=len(calls) > 1)
    return (yield from bracketed(brackets, jobs.enqueue(wanted)))


def _check(calls: Sequence[JobRequest]) -> None:
    """Refuse invalid values here: an error of PostgreSQL would abort the caller's transaction."""
    for call in calls:
        check_text(call.args, "arguments", longest=LONGEST_ARGS)
        check_text(call.retry or "", "retry", longest=LONGEST_ARGS)


def _awaited(calls: Sequence[JobRequest]) -> str:
    """Return the asynchronous call that the caller should have used, for the error message."""
    if len(calls) == 1:
        return f"{calls[0].task}.using(connection=…).aenqueue(…)"
    return "duly.aenqueue_many(…, connection=…)"
