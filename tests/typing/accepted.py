"""What users write, as type checkers must understand it: no word of complaint.

Nothing here runs. ``test_types`` reads it with mypy and basedpyright, each as strict as it gets.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, assert_type

from duly import (
    Call,
    Context,
    Duly,
    Flow,
    Job,
    Limit,
    Missed,
    Permanent,
    Retry,
    RetryAfter,
    Step,
    current,
)
from duly.rules import every, parse
from duly.testing import Sandbox, context

duly = Duly(zone="Europe/Berlin", imports=["shop.tasks"])
starts_at = datetime(2027, 1, 4, 9, tzinfo=UTC)


@dataclass
class Report:
    day: date


class GoneError(Exception):
    pass


# A schedule.
@duly.schedule("every 10s")
@duly.task
def hello() -> None: ...


# A nightly report: the context is no argument, and the task is still a function.
@duly.schedule("Mon..Fri 02:00", overlap="skip", missed="latest", start_within="4h")
@duly.task(takes_context=True, executor="process", timeout="1h", memory="2GB")
def nightly_report(context: Context) -> Report:
    context.log.info("report for %s", context.due_at.date())
    return Report(context.due_at.date())


assert_type(nightly_report.enqueue(), Job[Report])
assert_type(nightly_report(), Report)


# Two schedules of one task, and schedules of a task with arguments.
@duly.schedule("09:00", name="digest-morning", aliases=["digest"])
@duly.schedule("18:00", name="digest-evening", missed=Missed("all", at_most=20, spacing="1m"))
@duly.task
async def digest(kind: str = "short") -> int:
    return len(kind)


@duly.task
def rollup(region: str, *, deep: bool = False) -> int:
    return len(region) + deep


for region in ("eu", "us"):
    duly.schedule("03:00", rollup.bind(region), name=f"rollup-{region}", dst="systemd")
duly.schedule(parse("04:00 UTC"), digest, name="digest-night", start=starts_at)
duly.schedule(every("5m"), rollup.bind("eu", deep=True), jitter=timedelta(seconds=5))


# A reminder that moves and goes.
@duly.task(takes_context=True, title="Remind class {class_id}")
async def remind(context: Context, class_id: int, *, tone: str = "kind") -> str:
    return f"{tone} {class_id} {context.attempt}"


moved = remind.using(run_after=starts_at - timedelta(hours=24), key="class:42", if_exists="replace")
assert_type(moved.enqueue(42), Job[str])
assert_type(remind.cancel(key="class:42"), bool)
remind.using(run_after="5m", priority="high", tenant="acme", tags=["mail"]).enqueue(42, tone="dry")
remind.using(retry=None, timeout=None, start_within="12h", late="hurry", queue="mail").bind(42)


# Retries.
@duly.task(
    retry=Retry(attempts=6, backoff=["10s", "1m", "10m"], on=(ConnectionError, TimeoutError))
)
def charge(order_id: int) -> None:
    try:
        hello()
    except GoneError as gone:
        raise Permanent("the card is gone") from gone
    raise RetryAfter("10m")


@duly.task(retry=Retry(backoff="linear", on=lambda error: "again" in str(error)))
def charge_by_text(order_id: int) -> None: ...


# Limits.
@duly.task(
    limits=[Limit("crm", rate="50/s"), Limit("crm:{customer_id}", concurrency=1, rate="5/s")],
    needs={"gpu": 1},
)
async def sync_customer(customer_id: int) -> None: ...


# The caller's transaction, whatever its driver.
async def book(session: object) -> None:
    assert_type(await remind.using(connection=session).aenqueue(42), Job[str])
    await duly.aenqueue_many([remind.bind(42)], connection=session)
    assert_type(await remind.acancel(key="order 42", connection=session), bool)
    await duly.schedules.aadd("every 1h", remind.bind(42), name="remind 42", connection=session)
    await duly.schedules.aremove("remind 42", connection=session)


# Beside other programs.
@asynccontextmanager
async def lifespan(app: object) -> AsyncGenerator[None]:
    async with duly.running():
        yield
    async with duly.lifespan(app):
        pass


def beside_flask() -> None:
    with duly.running(scheduler=False, concurrency=4):
        pass


# Tests on a virtual clock.
def test_a_night() -> None:
    with Sandbox(duly, now="2027-03-27T23:00+01:00") as box:
        box.travel("6h", down=True)
        [fire] = box.travel("1m")
        assert fire.outcome == "queued"
        assert_type(box.assert_enqueued(remind.bind(42), at=starts_at), Job[str])
        assert_type(box.run(), list[Job[Any]])
    with context(due_at=starts_at):
        assert_type(nightly_report(), Report)


# A flow: results are passed on with their types, and order is an arrow.
@duly.task
async def extract(day: date) -> list[int]:
    return [day.day]


@duly.task
def transform(row: int, *, factor: int = 1) -> float:
    return row * factor / 2


@duly.task
def load(rows: list[float]) -> Report:
    return Report(date.fromordinal(len(rows)))


@duly.task
def clean(report: Report | None = None) -> None: ...


@duly.flow
def etl(day: date) -> Step[Report]:
    rows = extract.step(day)
    assert_type(rows.result, list[int])
    parts = transform.map(rows.result, factor=2)
    assert_type(parts, Step[list[float]])
    done = load.using(queue="warehouse").step(parts.result).if_failed("go_on").named("the load")
    _ = done >> clean.step()
    clean.step(done.result).when("all_done")
    return done


any_flow: Flow[..., Report] = etl
assert_type(etl.enqueue(date(2027, 1, 1)), Job[Report])
assert_type(etl.bind(date(2027, 1, 1)), Call[Report])
duly.schedule("02:00", etl.bind(date(2027, 1, 1)), name="etl")


@duly.flow(timeout="2h", on_failure="tell_ops")
def weekly(days: list[date]) -> Step[list[Report]]:
    assert_type(etl.step(days[0]), Step[Report])
    return etl.map(days)


@duly.schedule("02:00", name="tidy")
@duly.flow
def tidy() -> Step[None]:
    a, b, c = clean.step(), clean.step(), clean.bind().step()
    last = clean.step()
    assert_type(a >> [b, c] >> last, Step[None])
    return last


@duly.flow
def approved(order_id: int) -> None:
    said = duly.wait_for("order.approved", key="order:{order_id}", timeout="2d")
    assert_type(said.result, dict[str, Any])
    _ = said >> clean.step()


assert_type(approved.enqueue(7), Job[None])
duly.schedule("02:00", tidy, overlap="queue_one", name="tidy again")


# Results are what the function returns.
def wait() -> None:
    assert_type(digest.enqueue().result("30s"), int)
    assert_type(rollup("eu"), int)
    assert_type(rollup.bind("eu"), Call[int])
    jobs = duly.enqueue_many([rollup.bind("eu"), rollup.bind("us", deep=True)])
    assert_type(jobs[0].result(), int)


async def wait_on_a_loop() -> None:
    assert_type(await digest(), int)
    assert_type(await (await digest.aenqueue()).aresult(), int)
    assert_type(await remind(42), str)
    assert_type(await rollup.bind("eu").aenqueue(), Job[int])


# Callbacks are tasks, called with the number of the job, or with the job.
@duly.task
def tell_ops(job_id: int) -> None: ...


@duly.task(timeout="30s")
async def tell_all(job: Job[Any]) -> None:
    assert_type(job.args, dict[str, Any])
    assert_type(job.submitter, str)
    assert_type(job.ended_at, datetime | None)


@duly.task(on_failure=tell_ops, on_success="tell_ops", on_cancelled=tell_all)
def fragile() -> None: ...


# Inside a job.
def inside() -> None:
    duly.current().progress(30, "page 3 of 10")
    assert_type(current().due_at, datetime)


# Schedules by name.
def steer() -> None:
    added = duly.schedules.add("every 5m", rollup.bind("eu"), name="rollup", if_exists="keep")
    duly.schedules.add("09:00", digest, name="another")
    assert_type(added.next_at, datetime | None)
    assert_type(duly.schedules.edit("rollup", rule="every 10m", overlap="queue_one").paused, bool)
    assert_type(duly.schedules.why("rollup", at="02:00"), str)
    assert_type(duly.jobs.get(7), Job[Any])
