"""``why`` on real stores: every way in which a moment or a job comes to something is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from duly.app import connect, migrate_tables
from duly.errors import InvalidValue, NotFound
from duly.model.job import StoredJob
from duly.model.journal import ProgressEntry
from duly.model.limit import NamedLimit, Queue
from duly.model.outcome import Mismatched, Raised
from duly.model.policies import Missed
from duly.model.terms import Terms
from duly.policy.retry import Retry
from duly.store.store import SqlStore
from duly.testing.clock import VirtualClock
from duly.views.why import why_job, why_schedule
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan

MONDAY = datetime(2026, 11, 9, 12, tzinfo=UTC)  # 13:00 in Berlin
DAY = timedelta(days=1)
REFUSED = Raised(error="ConnectionError", message="refused", traceback="Traceback …")
RUN_NOW = "  run it now   duly schedules run nightly"


@asynccontextmanager
async def opened(url: str, start: datetime = MONDAY) -> AsyncIterator[World]:
    clock = VirtualClock(start)
    store: SqlStore = connect(url, clock=clock)
    await store.open()
    try:
        await migrate_tables(store)
        yield World(store, clock)
    finally:
        await store.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(":memory:") as there:
        yield there


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[World]:
    async with opened(postgres_url) as there:
        yield there


async def why(world: World, name: str = "nightly", at: datetime | str | None = None) -> list[str]:
    return (await why_schedule(world.store, name, at)).splitlines()


async def nightly(world: World, **changes: object) -> None:
    await world.add(plan("nightly", "02:00 Europe/Berlin", **changes))


async def night(world: World, days: int = 1, late: timedelta = timedelta(milliseconds=12)) -> None:
    """Go to the night so many days after Monday noon, and let a scheduler work then."""
    world.clock.set(MONDAY.replace(hour=1) + days * DAY + late)
    await world.fire()


async def keep(world: World, length: timedelta = 40 * MINUTE) -> StoredJob:
    job = await world.begin()
    world.wait(length)
    await world.end(job)
    return job


# A moment that the ledger knows.


async def test_what_was_kept_on_time_is_told_with_the_next_moment(world: World) -> None:
    await nightly(world)
    await night(world)
    job = await keep(world)
    assert await why(world) == [
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and ran on time "
        "(12 ms late, took 40 min). Next: Wed 02:00.",
        f"  job {job.id} on worker",
        f"  see it   duly jobs show {job.id}",
    ]


async def test_the_same_is_told_on_postgresql(postgres: World) -> None:
    await nightly(postgres)
    await night(postgres)
    job = await keep(postgres)
    assert (await why(postgres))[0] == (
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and ran on time "
        "(12 ms late, took 40 min). Next: Wed 02:00."
    )
    await night(postgres, 2)
    await postgres.begin()
    await night(postgres, 3)
    [sentence, *_] = await why(postgres, at="Thu 02:00")
    assert sentence.startswith(
        "nightly was due Thu 2026-11-12 02:00 Europe/Berlin and was skipped at 02:00:00: "
        'overlap="skip", and the run of Wed 02:00 (job '
    )
    assert sentence.endswith(") is still running: 24 h, no timeout set.")
    assert (await why_job(postgres.store, job.id)).startswith(f"job {job.id} (work) was due")


async def test_what_ran_late_because_nobody_decided_tells_from_when_to_when(world: World) -> None:
    await nightly(world)
    await night(world)
    await keep(world)
    await night(world, 2, late=41 * MINUTE)
    job = await keep(world, timedelta(seconds=3))
    assert await why(world) == [
        "nightly was due Wed 2026-11-11 02:00 Europe/Berlin and ran 41 min late "
        "(started 02:41, took 3 s). Next: Thu 02:00.",
        f"  job {job.id} on worker",
        "  no scheduler was running: nothing was decided from Tue 02:00:00 to 02:41",
        f"  see it   duly jobs show {job.id}",
    ]


async def test_what_was_kept_at_a_later_attempt_names_the_error_of_the_first(world: World) -> None:
    await nightly(world, retry=Retry(attempts=3, backoff=["10s"], jitter=False).as_json())
    await night(world, late=timedelta())
    await world.end(await world.begin(), REFUSED)
    world.wait(timedelta(seconds=10))
    await world.dispatch()
    await keep(world, timedelta(seconds=2))
    sentence, _, attempt, *_ = await why(world)
    assert sentence.startswith(
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and ran 10 s late "
        "(started 02:00:10, took 2 s), at attempt 2 of 3."
    )
    assert attempt == "  attempt 1, 02:00 to 02:00: ConnectionError: refused"


async def test_a_run_in_the_way_is_named_with_its_age_and_what_is_usual(world: World) -> None:
    await nightly(world)
    for day in (1, 2, 3):
        await night(world, day)
        await keep(world)
    await night(world, 4)
    job = await world.begin()
    await night(world, 5)
    world.wait(4 * HOUR)
    assert await why(world, at="02:00") == [
        "nightly was due Sat 2026-11-14 02:00 Europe/Berlin and was skipped at 02:00:00: "
        f'overlap="skip", and the run of Fri 02:00 (job {job.id}) is still running: 28 h, '
        "usually 40 min, no timeout set.",
        f"  see it          duly jobs logs {job.id} -f",
        f"  stop it         duly jobs cancel {job.id}",
        "  run it anyway   duly schedules run nightly",
        '  prevent it      timeout="2h" on the task (async, or with executor="process")',
    ]
    await world.end(job)
    assert (await why(world))[0] == (
        "nightly was due Sat 2026-11-14 02:00 Europe/Berlin and was skipped at 02:00:00: "
        f'overlap="skip", and the run of Fri 02:00 (job {job.id}) had not ended: it ran 28 h, '
        "until 06:00:00, usually 40 min."
    )


async def test_a_run_in_the_way_that_has_not_begun_tells_what_it_waits_for(world: World) -> None:
    await nightly(world, terms=Terms(timeout=HOUR))
    await night(world)
    await night(world, 2)
    sentence, *_, prevention = await why(world)
    assert ") had not ended: it waits for a worker: none is running." in sentence
    assert prevention == ('  prevent it      overlap="queue_one" on the schedule: the newest waits')


async def test_what_was_too_late_says_how_late_it_might_have_been(world: World) -> None:
    await nightly(world, start_within=4 * HOUR)
    await night(world, late=5 * HOUR)
    assert await why(world) == [
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and was skipped at 07:00: "
        "it could not start within 4 hours of its due time.",
        "  no scheduler was running: nothing was decided before 07:00",
        RUN_NOW,
    ]


async def test_what_fell_into_a_pause_says_by_whom_and_why(world: World) -> None:
    await nightly(world)
    await world.by("ada").schedules.pause("nightly", note="the database moves")
    world.wait(DAY)
    assert await why(world) == [
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin: it is paused by ada since Mon 13:00: "
        "the database moves; it counts as skipped when it is resumed.",
        "  resume it    duly schedules resume nightly",
        RUN_NOW,
    ]
    await world.store.schedules.resume("nightly")
    assert await why(world) == [
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and was skipped: the schedule was "
        "paused by ada since Mon 2026-11-09 13:00 Europe/Berlin: the database moves.",
        RUN_NOW,
    ]


async def test_what_is_left_out_names_the_exclusion(world: World) -> None:
    await nightly(world, exclude="dates(2026-11-10)")
    await night(world, 2)
    assert await why(world, at="2026-11-10 02:00") == [
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and was skipped: "
        'left out by exclude="dates(2026-11-10)".',
        "  run it anyway   duly schedules run nightly",
    ]


async def test_what_found_too_many_waiting_says_how_many(world: World) -> None:
    often = Missed("all", at_most=2_000)
    await world.add(plan("nightly", "every 1s", overlap="queue_all", missed=often))
    await world.fire_after(timedelta(seconds=1_001))
    assert await why(world) == [
        "nightly was due 12:16:41 UTC and was skipped at 12:16:41: "
        "1,000 jobs of this schedule wait already.",
        RUN_NOW,
    ]


async def test_what_nobody_saw_says_who_was_not_there(world: World) -> None:
    await nightly(world, missed=Missed("skip"))
    await night(world, 3, late=HOUR)
    assert await why(world, at="2026-11-11 02:00") == [
        "nightly was due Wed 2026-11-11 02:00 Europe/Berlin and was skipped at Thu 03:00: "
        'no scheduler was running; missed="skip" after 1 minute.',
        "  the same is true of 3 runs, from Tue 02:00 to 02:00",
        "  no scheduler was running: nothing was decided before 03:00",
        RUN_NOW,
    ]


async def test_what_somebody_skipped_in_advance_is_told_before_and_after(world: World) -> None:
    await nightly(world)
    await world.by("ada").schedules.skip_next("nightly")
    assert await why(world, at="2026-11-10 02:00") == [
        "nightly is due Tue 2026-11-10 02:00 Europe/Berlin and will be skipped "
        "because ada asked for it in advance."
    ]
    await night(world)
    assert await why(world) == [
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and was skipped "
        "because ada asked for it in advance.",
        RUN_NOW,
    ]


async def test_what_was_merged_tells_what_became_of_the_other(world: World) -> None:
    await nightly(world)
    await night(world, 3, late=HOUR)
    await keep(world, timedelta(seconds=3))
    assert (await why(world, at="2026-11-10 02:00"))[0] == (
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and was merged into the run of "
        "Thu 02:00, which ran 1 h late (started 03:00, took 3 s)."
    )


async def test_what_somebody_ran_is_told_as_such(world: World) -> None:
    await nightly(world)
    await world.by("ada").schedules.run("nightly")
    await keep(world, timedelta(seconds=3))
    assert (await why(world))[0] == (
        "nightly was run by hand Mon 2026-11-09 13:00 Europe/Berlin and ran on time "
        "(0 ms late, took 3 s). Next: Tue 02:00."
    )


async def test_of_a_job_that_is_forgotten_only_the_row_is_left(world: World) -> None:
    await nightly(world)
    await night(world)
    job = await keep(world)
    await world.database.write(lambda: _forget(job.id))
    assert await why(world) == [
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and was queued: "
        f"its job ({job.id}) has ended and been deleted."
    ]


def _forget(number: int):  # type: ignore[no-untyped-def]  # noqa: ANN202 - an operation
    from duly.store.database import Ask  # noqa: PLC0415

    del number
    yield Ask("prune_history", {"before": 2**60, "limit": 10})


# No row.


async def test_a_schedule_that_has_not_been_due_says_when_it_will_be(world: World) -> None:
    await nightly(world)
    assert await why(world) == [
        "nightly has not been due yet. It will be for the first time "
        "Tue 2026-11-10 02:00 Europe/Berlin, in 13 h.",
        RUN_NOW,
    ]
    assert await why(world, at="2026-11-10 02:00") == [
        "nightly is due Tue 2026-11-10 02:00 Europe/Berlin, in 13 h."
    ]


async def test_a_schedule_that_did_not_exist_yet_says_when_it_was_created(world: World) -> None:
    await nightly(world)
    assert (await why(world, at="02:00"))[0] == (
        "nightly did not exist yet Mon 2026-11-09 02:00 Europe/Berlin: "
        "it was created 13:00, by api."
    )


async def test_without_a_scheduler_it_is_told_since_when_nothing_is_fired(world: World) -> None:
    await nightly(world)
    await night(world)
    await keep(world)
    world.clock.set(MONDAY + 3 * DAY)
    assert await why(world) == [
        "nightly was due Wed 2026-11-11 02:00 Europe/Berlin and has not been fired: "
        "no scheduler is running. Nothing was fired since Tue 02:00:00 (2 d 11 h ago).",
        "  1 more run is overdue, the last was due 02:00",
        "  the previous run: nightly was due Tue 2026-11-10 02:00 Europe/Berlin and ran on time "
        "(12 ms late, took 40 min).",
        "  start one    duly up",
        RUN_NOW,
    ]
    assert (await why(world, at="2026-11-11 02:00"))[0].startswith(
        "nightly was due Wed 2026-11-11 02:00 Europe/Berlin and has not been fired"
    )


async def test_what_is_no_moment_of_the_rule_is_answered_with_the_nearest(world: World) -> None:
    await nightly(world)
    await night(world)
    assert await why(world, at="2026-11-10 01:00") == [
        "nightly was not due Tue 2026-11-10 01:00 Europe/Berlin: "
        'that is not a time of its rule, "02:00 Europe/Berlin".',
        "  nearest: Mon 2026-11-09 02:00 Europe/Berlin and Tue 2026-11-10 02:00 Europe/Berlin",
    ]


async def test_a_rule_that_was_changed_says_by_whom(world: World) -> None:
    await nightly(world)
    await night(world)
    await world.by("ada").schedules.edit(
        "nightly", lambda old: replace(old, rule="09:00 Europe/Berlin")
    )
    await night(world, 3)
    changed = "it was changed Tue 02:00:00 by ada (rule: 02:00 Europe/Berlin → 09:00 Europe/Berlin)"
    assert await why(world, at="2026-11-11 02:00") == [
        f"nightly was not due Wed 2026-11-11 02:00 Europe/Berlin: {changed}.",
        "  nearest: Tue 2026-11-10 09:00 Europe/Berlin and Wed 2026-11-11 09:00 Europe/Berlin",
    ]


async def test_an_edit_never_makes_moments_missed_and_why_says_so(world: World) -> None:
    await nightly(world)
    await night(world, late=8 * HOUR)
    await world.by("ada").schedules.edit(
        "nightly", lambda old: replace(old, rule="09:00 Europe/Berlin")
    )
    assert (await why(world, at="2026-11-10 09:00"))[0] == (
        "nightly was not due Tue 2026-11-10 09:00 Europe/Berlin: it was changed 10:00 by ada "
        "(rule: 02:00 Europe/Berlin → 09:00 Europe/Berlin), and an edit never creates missed runs."
    )


async def test_a_time_that_never_was_is_answered_with_what_the_clock_did() -> None:
    async with opened(":memory:", datetime(2027, 3, 27, 12, tzinfo=UTC)) as world:
        await world.add(plan("moved", "02:30 Europe/Berlin"))
        await world.add(plan("dropped", "02:30 Europe/Berlin", dst="systemd"))
        world.clock.set(datetime(2027, 3, 28, 1, 0, 0, 12_000, tzinfo=UTC))
        await world.fire()
        moved = await why(world, "moved", "2027-03-28 02:30")
        assert moved[0].startswith("moved was due Sun 2027-03-28 03:00 Europe/Berlin and ")
        note = "  2027-03-28 02:30 does not exist in Europe/Berlin"
        assert f"{note}: due at 03:00." in moved
        assert await why(world, "dropped", "02:30") == [
            "dropped was not due Sun 2027-03-28 02:30: that time did not exist in Europe/Berlin, "
            "where the clock was set forward over it.",
            f"{note}: not due.",
            "  nearest: Sat 2027-03-27 02:30 Europe/Berlin and Mon 2027-03-29 02:30 Europe/Berlin",
        ]


async def test_an_hour_that_came_twice_is_found_where_it_was_due() -> None:
    async with opened(":memory:", datetime(2026, 10, 24, 12, tzinfo=UTC)) as world:
        await world.add(plan("nightly", "02:30 Europe/Berlin", dst="quartz"))
        world.clock.set(datetime(2026, 10, 25, 1, 30, 0, 12_000, tzinfo=UTC))
        await world.fire()
        await keep(world)
        [sentence, *evidence] = await why(world, at="2026-10-25 02:30")
        assert sentence.startswith("nightly was due Sun 2026-10-25 02:30 Europe/Berlin and ran on")
        assert (
            "  2026-10-25 02:30 happens twice in Europe/Berlin: due once, the second time."
            in evidence
        )
        first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
        [sentence, *evidence] = await why(world, at=first)
        assert "that is not a time of its rule" in sentence


async def test_a_fixed_delay_has_no_moments_but_neighbours(world: World) -> None:
    await world.add(plan("nightly", "spaced 1h"))
    await world.fire()
    await keep(world, MINUTE)
    world.wait(10 * MINUTE)
    assert await why(world, at="12:05") == [
        "nightly was not due Mon 2026-11-09 12:05 UTC: "
        '"spaced 1h" counts from the end of the last run and has no fixed times.',
        "  nearest: Mon 2026-11-09 12:00 UTC and Mon 2026-11-09 13:01 UTC",
    ]
    assert (await why(world))[0] == (
        "nightly was due 12:00 UTC and ran on time (0 ms late, took 1 min). Next: 13:01."
    )


async def test_a_schedule_that_stands_still_says_why(world: World) -> None:
    await nightly(world)

    def broken(*_: object) -> None:
        raise RuntimeError("no such calendar")

    world.clock.set(MONDAY + DAY)
    await world.fire(decide=broken)  # type: ignore[arg-type]
    assert await why(world) == [
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and cannot be fired: "
        "RuntimeError: no such calendar.",
        "  see it    duly schedules show nightly",
        "  mend it   duly schedules edit nightly",
    ]


async def test_an_unknown_name_is_answered_with_the_nearest(world: World) -> None:
    await nightly(world)
    with pytest.raises(NotFound) as unknown:
        await why(world, "nigtly")
    assert str(unknown.value) == 'there is no schedule "nigtly"; did you mean "nightly"?'
    await world.by("bob").schedules.remove("nightly")
    removed = "any more: it was removed Mon 2026-11-09 12:00 UTC by bob"
    with pytest.raises(NotFound, match=removed):
        await why(world)


async def test_a_time_that_cannot_be_read_says_how_to_write_one(world: World) -> None:
    await nightly(world)
    with pytest.raises(InvalidValue, match="at='at two': a time that has been, as \"02:00\""):
        await why(world, at="at two")


# Jobs.


async def job(world: World, number: int) -> list[str]:
    return (await why_job(world.store, number)).splitlines()


async def test_a_job_that_no_worker_knows_asks_whether_it_was_renamed(world: World) -> None:
    number = await world.enqueue(call("send_mail"))
    assert (await job(world, number))[0] == (
        f"job {number} (send_mail) was due 12:00 UTC and waits for a worker: none is running."
    )
    await world.new_worker(tasks=("send_mails",))
    renamed = (
        f"job {number} (send_mail) was due 12:00 UTC and waits for a worker: no running worker "
        'knows the task "send_mail"; did you rename it to "send_mails"? add aliases=("send_mail",).'
    )
    assert (await job(world, number))[0] == renamed
    world.wait(timedelta(seconds=10))
    assert await world.store.maintenance.hold_unknown(patience=timedelta(), limit=10) == 1
    assert (await job(world, number))[0] == renamed


async def test_a_job_whose_queue_nobody_listens_to_says_who_listens_where(world: World) -> None:
    await world.new_worker(name="web-1", queues=("default",))
    number = await world.enqueue(call(queue="mail"))
    assert await job(world, number) == [
        f"job {number} (work) was due 12:00 UTC and waits for a worker: "
        'no worker that knows the task listens to queue "mail" (web-1: default).',
        "  ready since 12:00 (0 ms)",
        "  start one     duly worker --queues mail",
        f"  call it off   duly jobs cancel {number}",
    ]


async def test_a_job_that_needs_more_than_anybody_has_says_what(world: World) -> None:
    await world.new_worker(name="web-1", resources={"gpu": 1})
    number = await world.enqueue(call(needs={"gpu": 2}))
    assert (await job(world, number))[0].endswith(
        "waits for a worker: no worker that listens to the queue has gpu=2 (web-1 has gpu=1)."
    )


async def test_a_job_whose_workers_are_drained_says_so(world: World) -> None:
    await world.new_worker(name="web-1")
    await world.store.work.tell("web-1", "drain")
    number = await world.enqueue(call())
    assert (await job(world, number))[0].endswith("waits for a worker: web-1 was told to drain.")


async def test_a_job_of_a_paused_queue_has_its_note(world: World) -> None:
    await world.store.work.set_queue(Queue(name="mail", paused=True, note="the relay is down"))
    number = await world.enqueue(call(queue="mail"))
    sentence, _, resume, _ = await job(world, number)
    assert sentence.endswith('and waits: queue "mail" is paused: the relay is down.')
    assert resume == "  resume it     duly queues resume mail"


async def test_a_job_at_a_full_limit_names_it(world: World) -> None:
    limits = (NamedLimit(name="crm:7", template="crm:{customer}", concurrency=1),)
    [_, second] = await world.store.jobs.enqueue([call(limits=limits), call(limits=limits)])
    await world.claim(2)
    assert (await job(world, second))[0].endswith(
        'waits: limit "crm:7" is full: 1 of 1 runs, 1 job waits there.'
    )


async def test_a_job_in_a_full_queue_says_how_many_may_run(world: World) -> None:
    await world.store.work.set_queue(Queue(name="default", concurrency=1))
    [_, second] = await world.store.jobs.enqueue([call(), call()])
    await world.claim(1)
    assert (await job(world, second))[0].endswith('waits: queue "default" is full: 1 of 1 runs.')


async def test_a_job_behind_others_says_how_many(world: World) -> None:
    await world.the_worker()
    [*_, last] = await world.store.jobs.enqueue([call(), call(), call(priority=10), call()])
    assert (await job(world, last))[0].endswith(
        'waits: 3 jobs are before it in queue "default" (its priority is 0).'
    )
    await world.store.work.renew(world.worker, timedelta(days=1), running=1)
    assert (await job(world, last))[0].endswith(
        "waits for a free slot: all 1 of worker are taken, and 3 jobs are before it in queue "
        '"default" (its priority is 0).'
    )


async def test_a_job_behind_one_of_its_schedule_names_that(world: World) -> None:
    await nightly(world, overlap="queue_one")
    await night(world)
    first = await world.begin()
    await night(world, 2)
    [_, waiting] = sorted(one.id for one in await world.live())
    assert (await job(world, waiting))[0].endswith(
        f"waits for the run of Tue 02:00 (job {first.id}), which is running."
    )


async def test_a_job_that_runs_says_since_when_where_and_how_far(world: World) -> None:
    number = await world.enqueue(call(title="roll up"))
    claimed = await world.begin()
    entry = ProgressEntry(
        job_id=number, fence=claimed.fence, attempt=1, percent=62, message="page 62 of 100"
    )
    await world.store.journal.write([entry])
    world.wait(4 * MINUTE)
    running = (
        f"job {number} (roll up) was due 12:00 UTC and is running since 12:00 (4 min), "
        "attempt 1 of 3, on worker, 62 % done: page 62 of 100"
    )
    assert await job(world, number) == [
        f"{running}.",
        f"  see it    duly jobs logs {number} -f",
        f"  stop it   duly jobs cancel {number}",
    ]
    await world.store.jobs.cancel(number, reason="wrong day")
    assert (await job(world, number))[0] == (
        f"{running}; it was asked to stop (cancelled: wrong day)."
    )


async def test_a_job_whose_worker_is_gone_says_that_it_will_be_run_again(world: World) -> None:
    number = await world.enqueue(call())
    worker = await world.new_worker(name="web-1")
    await world.claim(1, worker=worker)
    world.wait(HOUR)
    assert (await job(world, number))[1] == (
        "  web-1 was last heard of 12:00 (1 h ago): the job will be reclaimed and run again "
        "by the next worker: none is running"
    )


async def test_a_job_that_is_tried_again_says_when_and_why(world: World) -> None:
    retry = Retry(attempts=5, backoff=["3m"], jitter=False).as_json()
    number = await world.enqueue(call(retry=retry))
    await world.end(await world.begin(), REFUSED)
    assert await job(world, number) == [
        f"job {number} (work) was due 12:00 UTC and is tried again 12:03 (in 3 min): "
        "attempt 1 of 5 ended with ConnectionError: refused.",
        "  attempt 1, 12:00 to 12:00: ConnectionError: refused",
        f"  see it        duly jobs show {number}",
        f"  call it off   duly jobs cancel {number}",
    ]


async def test_a_job_that_failed_says_the_first_line_of_its_error(world: World) -> None:
    retry = Retry(attempts=2, backoff=["3m"], jitter=False).as_json()
    number = await world.enqueue(call(retry=retry))
    await world.end(await world.begin(), REFUSED)
    world.wait(3 * MINUTE)
    await world.dispatch()
    await world.end(await world.begin(), REFUSED)
    assert await job(world, number) == [
        f"job {number} (work) was due 12:00 UTC and failed after 2 attempts: "
        "ConnectionError: refused.",
        "  ended 12:03: attempt 2 of 2 raised ConnectionError: refused; no attempt is left",
        "  attempt 1, 12:00 to 12:00: ConnectionError: refused",
        "  attempt 2, 12:03 to 12:03: ConnectionError: refused",
        f"  see it      duly jobs show {number}",
        f"  try again   duly jobs retry {number}",
    ]


async def test_a_job_that_was_called_off_says_why(world: World) -> None:
    number = await world.enqueue(call())
    await world.store.jobs.cancel(number, reason="wrong day")
    assert (await job(world, number))[0] == (
        f"job {number} (work) was due 12:00 UTC and was cancelled: wrong day (12:00)."
    )


async def test_a_job_that_was_not_started_in_time_says_by_when(world: World) -> None:
    number = await world.enqueue(call(start_within=4 * HOUR))
    world.wait(4 * HOUR + MINUTE)
    await world.dispatch()
    assert (await job(world, number))[0] == (
        f'job {number} (work) was due 12:00 UTC and was not started by 16:00 (start_within="4h"), '
        "and expired 16:01."
    )


async def test_a_job_whose_arguments_do_not_fit_is_blocked_by_the_signature(world: World) -> None:
    number = await world.enqueue(call())
    unfit = Mismatched(signature="other", reason="work() has no parameter day")
    await world.end(await world.begin(), unfit)
    assert (await job(world, number))[0].endswith(
        "and is blocked, signature changed: work() has no parameter day."
    )


async def test_a_job_to_come_says_when(world: World) -> None:
    number = await world.enqueue(call(run_after=3 * HOUR))
    assert await job(world, number) == [
        f"job {number} (work) is due 15:00 UTC, in 3 h.",
        f"  call it off   duly jobs cancel {number}",
    ]
    world.wait(3 * HOUR + MINUTE)
    assert (await job(world, number))[0].endswith(
        "and waits to be made ready: no scheduler is running."
    )


async def test_a_job_of_a_schedule_names_it_and_its_clock(world: World) -> None:
    await nightly(world, jitter=HOUR)
    await night(world)
    [made] = await world.live()
    sentence, schedule, *_ = await job(world, made.id)
    assert sentence.startswith(
        f"job {made.id} (work) was due Tue 2026-11-10 02:00 Europe/Berlin and is to start 02:"
    )
    assert schedule == "  made by the schedule nightly"


async def test_a_task_without_a_schedule_is_said_to_be_one(world: World) -> None:
    await world.enqueue(call("charge"))
    await world.new_worker(tasks=("send mail",))
    for name, words in (("charge", "task:charge"), ("send mail", "'task:send mail'")):
        with pytest.raises(NotFound) as unknown:
            await why(world, name)
        said = f'there is no schedule "{name}"; it is a task: duly jobs {words}'
        assert str(unknown.value) == said


async def test_an_unknown_job_is_not_found(world: World) -> None:
    with pytest.raises(NotFound, match="there is no job 12345"):
        await job(world, 12345)
