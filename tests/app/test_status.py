"""How things stand: one of four headlines, and what needs somebody, on real stores."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from duly.model.fire import Cause, Outcome
from duly.model.journal import ProgressEntry
from duly.model.limit import Queue
from duly.model.outcome import Mismatched, Raised
from duly.model.states import State
from duly.store.activity import Tally
from duly.views.attention import Need
from duly.views.fires import Counts, counted
from duly.views.today import Status, status
from tests.app.test_why import MONDAY, opened
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan

REFUSED = Raised(error="ConnectionError", message="refused")
SINCE = "since yesterday 12:00"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(":memory:") as there:
        yield there


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[World]:
    async with opened(postgres_url) as there:
        yield there


async def look(world: World) -> Status:
    return await status(world.store)


async def test_without_schedules_there_is_nothing_to_keep(world: World) -> None:
    found = await look(world)
    assert (found.headline(), found.ok, found.scheduled) == (
        "Nothing is scheduled yet.",
        True,
        False,
    )


async def test_what_was_not_due_yet_is_kept_so_far(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    found = await look(world)
    assert found.headline() == f"All OK: nothing was due {SINCE}."
    assert [(one.name, one.due_at) for one in found.coming] == [("report", MONDAY + HOUR)]


async def test_all_that_was_due_was_kept(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    for _ in range(3):
        await world.fire_after(HOUR)
        await world.end(await world.begin())
    assert (await look(world)).headline() == "All 3 runs since yesterday 15:00 were OK."
    await world.fire_after(HOUR)
    found = await look(world)
    assert found.headline() == "All 3 runs since yesterday 16:00 were OK; 1 in progress."
    assert (found.ok, found.counts) == (True, Counts(succeeded=3, in_progress=1))


async def test_a_run_in_the_way_needs_somebody(world: World) -> None:
    await _see_a_run_in_the_way(world)


async def test_a_run_in_the_way_needs_somebody_on_postgresql(postgres: World) -> None:
    await _see_a_run_in_the_way(postgres)


async def _see_a_run_in_the_way(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.fire_after(HOUR)
    job = await world.begin()
    await world.fire_after(HOUR)
    await world.fire_after(HOUR)
    found = await look(world)
    assert found.headline() == "1 item needs attention (3 due since yesterday 15:00, 0 OK)."
    [need] = found.needs
    assert (need.name, need.kind, need.moments) == ("report", "skipped", 2)
    assert need.due_at == MONDAY + 3 * HOUR
    assert need.sentence == (
        f'skipped at 15:00: overlap="skip", and the run of 13:00 (job {job.id}) is still running: '
        "2 h, no timeout set (2 runs since 14:00)"
    )
    assert need.commands[0].line == f"duly jobs logs {job.id} -f"
    assert [(one.id, one.name, one.since) for one in found.running] == [
        (job.id, "work", MONDAY + HOUR)
    ]


async def test_what_failed_needs_somebody_until_it_is_retried_with_success(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.fire_after(HOUR)
    job = await world.begin()
    await world.end(job, REFUSED)
    [need] = (await look(world)).needs
    assert (need.kind, need.sentence) == (
        "failed",
        "failed at its first attempt: ConnectionError: refused",
    )
    await world.store.jobs.retry(job.id)
    await world.end(await world.begin())
    found = await look(world)
    assert (found.ok, found.counts) == (True, Counts(succeeded=1))


async def test_what_failed_longer_ago_than_a_day_is_told_no_more(world: World) -> None:
    await world.add(plan("report", "2026-11-10 12:00 UTC"))
    await world.fire_after(100 * HOUR)  # decided late: it counts from then on
    await world.end(await world.begin(), REFUSED)
    assert not (await look(world)).ok
    world.wait(25 * HOUR)
    assert (await look(world)).ok


async def test_what_was_too_late_needs_somebody(world: World) -> None:
    await world.add(plan("report", "every 1h", start_within=10 * MINUTE))
    await world.fire_after(HOUR + 20 * MINUTE)
    [need] = (await look(world)).needs
    assert (need.kind, need.sentence) == (
        "skipped",
        "skipped at 13:20: it could not start within 10 minutes of its due time",
    )


async def test_what_expired_in_its_queue_needs_somebody(world: World) -> None:
    await world.add(plan("report", "every 1h", start_within=10 * MINUTE))
    await world.fire_after(HOUR)
    world.wait(11 * MINUTE)
    await world.dispatch()
    [need] = (await look(world)).needs
    assert (need.kind, need.sentence) == (
        "expired",
        'was not started by 13:10 (start_within="10m"), and expired 13:11',
    )


async def test_what_was_skipped_by_choice_needs_nobody(world: World) -> None:
    await world.add(plan("report", "every 1h"), plan("other", "every 1h"))
    await world.store.schedules.pause("report")
    await world.store.schedules.skip_next("other")
    await world.fire_after(HOUR)
    await world.store.schedules.resume("report")
    found = await look(world)
    assert (found.ok, found.counts) == (True, Counts(skipped=2))


async def test_without_a_scheduler_nothing_runs_schedules(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    world.wait(HOUR + 14 * MINUTE)
    found = await look(world)
    assert found.headline() == (
        "No scheduler is running: nothing was ever fired. 1 run of 1 schedule is overdue."
    )
    [need] = found.needs
    assert (need.kind, need.commands[0].line) == ("overdue", "duly up")
    await world.fire()
    world.wait(2 * HOUR)
    assert (await look(world)).headline("Europe/Berlin") == (
        "No scheduler is running: nothing was fired since 14:14 (2 h ago). "
        "2 runs of 1 schedule are overdue."
    )


async def test_jobs_that_nobody_can_take_need_somebody_after_a_minute(world: World) -> None:
    first = await world.enqueue(call("send"), call("send"))
    assert (await look(world)).ok
    world.wait(MINUTE)
    [need] = (await look(world)).needs
    assert (need.name, need.kind, need.sentence) == (
        "send",
        "no worker",
        "2 jobs wait for a worker: none is running",
    )
    assert [command.line for command in need.commands] == [f"duly why {first}", "duly worker"]
    await world.new_worker(tasks=("send",))
    assert (await look(world)).ok


async def test_jobs_of_a_queue_that_somebody_paused_need_nobody(world: World) -> None:
    await world.store.work.set_queue(Queue(name="default", paused=True))
    await world.enqueue(call())
    world.wait(MINUTE)
    assert (await look(world)).ok


async def test_jobs_that_do_not_fit_need_somebody(world: World) -> None:
    await world.enqueue(call())
    await world.end(await world.begin(), Mismatched(signature="other", reason="no parameter day"))
    world.wait(MINUTE)
    [need] = (await look(world)).needs
    assert (need.kind, need.sentence) == (
        "signature",
        "1 job blocked, signature changed: no parameter day",
    )


async def test_failed_jobs_of_no_schedule_are_gathered_by_their_task(world: World) -> None:
    await world.enqueue(call())
    await world.end(await world.begin(), REFUSED)
    number = await world.enqueue(call())
    await world.end(await world.begin(), REFUSED)
    found = await look(world)
    assert found.headline() == f"1 item needs attention (no schedule was due {SINCE})."
    assert found.needs[0].sentence == "2 jobs failed, the last: ConnectionError: refused"
    assert found.needs[0].commands[1].line == f"duly jobs retry {number}"


async def test_a_schedule_that_stands_still_needs_somebody(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    world.wait(HOUR)

    def broken(*_: object) -> None:
        raise RuntimeError("no such calendar")

    await world.fire(decide=broken)  # type: ignore[arg-type]
    [need] = (await look(world)).needs
    assert (need.kind, need.sentence) == (
        "fault",
        "cannot be fired: RuntimeError: no such calendar",
    )


async def test_what_runs_says_how_far_it_is(world: World) -> None:
    number = await world.enqueue(call(title="roll up"))
    job = await world.begin()
    entry = ProgressEntry(job_id=number, fence=job.fence, attempt=1, percent=62, message="page 62")
    await world.store.journal.write([entry])
    found = await look(world)
    [running] = found.running
    assert (running.name, running.percent, running.message) == ("roll up", 62, "page 62")
    assert found.running_count == 1


def test_every_tally_is_kept_under_way_not_kept_or_on_purpose() -> None:
    one = Tally(outcome=Outcome.QUEUED, cause=None, state=None, moments=1)
    found = [
        replace(one, state=State.SUCCEEDED, moments=2, late=1),
        replace(one, outcome=Outcome.MERGED, state=State.SUCCEEDED, moments=4),
        one,  # its job has been forgotten: it has not failed
        *(replace(one, state=state) for state in (State.READY, State.RUNNING, State.BLOCKED)),
        *(replace(one, state=state) for state in (State.FAILED, State.EXPIRED)),
        replace(one, state=State.CANCELLED),
        *(replace(one, outcome=Outcome.SKIPPED, cause=cause) for cause in Cause),
    ]
    counts = counted(found)
    assert counts == Counts(succeeded=3, late=1, in_progress=3, failed=6, merged=4, skipped=6)
    assert counts.due == 12


def test_several_promises_are_counted() -> None:
    moment = datetime(2026, 11, 13, 6, tzinfo=UTC)
    need = Need(name="report", kind="failed", sentence="failed")
    found = Status(
        now=moment,
        since=moment - timedelta(days=1),
        counts=Counts(succeeded=1_410, failed=2),
        needs=[need, need],
    )
    assert found.headline() == "2 items need attention (1,412 due since yesterday 06:00, 1,410 OK)."
