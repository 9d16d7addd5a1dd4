"""Whether somebody can do what is asked, and whether those who are there are well."""

from datetime import timedelta

from duly.doctor.checks import tasks, workers
from duly.policy.why import SuggestedCommand, what_is_missing
from tests.app.doctor.patients import checked
from tests.conformance.world import LEASE, MINUTE, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)


async def test_where_nothing_is_wanted_nobody_is_missing(world: World) -> None:
    finding = await checked(world, tasks)
    assert (finding.level, finding.fix) == ("ok", "")


async def test_a_schedule_without_any_worker_is_worth_knowing(world: World) -> None:
    await world.add(plan())
    finding = await checked(world, tasks)
    assert (finding.level, finding.said) == (
        "warning",
        'no worker is running for "work" (1 schedule)',
    )


async def test_jobs_without_any_worker_are_a_problem(world: World) -> None:
    await world.add(plan())
    await world.enqueue(call(), call(run_after=MINUTE))
    finding = await checked(world, tasks)
    assert (finding.level, finding.said) == (
        "problem",
        'no worker is running for "work" (2 jobs and 1 schedule)',
    )


async def test_a_task_that_no_worker_knows_is_named(world: World) -> None:
    await world.enqueue(call(), call("send"))
    await world.add(plan("sent", task="send"))
    await world.new_worker(name="anna", tasks=("work",))
    finding = await checked(world, tasks)
    assert (finding.level, finding.said) == (
        "problem",
        'no running worker knows "send" (1 job and 1 schedule)',
    )
    assert "duly worker APP (running: anna)" in finding.fix
    assert finding.fix.endswith("duly jobs cancel task:send")
    await world.new_worker(tasks=("send",))
    assert (await checked(world, tasks)).level == "ok"


async def test_a_task_of_a_paused_schedule_is_not_wanted(world: World) -> None:
    await world.add(plan(task="send"))
    await world.new_worker(tasks=("work",))
    assert (await checked(world, tasks)).level == "problem"
    await world.store.schedules.pause("report", until=world.now + MINUTE)
    assert (await checked(world, tasks)).level == "ok"


async def test_a_task_of_dulys_own_only_has_to_be_allowed(world: World) -> None:
    await world.add(plan(task="duly.command"))
    await world.new_worker(tasks=("work",))
    assert (await checked(world, tasks)).fix.endswith("duly up --allow shell")


async def test_a_job_that_was_set_aside_is_still_wanted(world: World) -> None:
    await world.enqueue(call("send"))
    await world.new_worker(tasks=("work",))
    world.wait(SECOND)
    await world.store.maintenance.hold_unknown(patience=SECOND / 2, limit=10)
    assert 'knows "send" (1 job)' in (await checked(world, tasks)).said


async def test_a_queue_that_nobody_listens_to_is_named(world: World) -> None:
    await world.enqueue(call(queue="mail"))
    await world.new_worker(name="anna", tasks=("work",))
    finding = await checked(world, tasks)
    assert finding.level == "problem"
    assert 'listens to queue "mail"' in finding.said
    assert finding.fix == "duly worker --queues mail"


async def test_a_worker_that_was_just_heard_is_well(world: World) -> None:
    assert (await checked(world, workers)).said == "none is running, and none has left jobs behind"
    await world.new_worker()
    finding = await checked(world, workers)
    assert (finding.level, finding.said) == (
        "ok",
        "1 worker running with recent heartbeats; no job left behind",
    )


async def test_a_worker_whose_lease_is_about_to_lapse_is_worth_knowing(world: World) -> None:
    number = await world.new_worker(name="anna")
    world.wait(10 * SECOND)
    finding = await checked(world, workers)
    assert (finding.level, finding.said) == (
        "warning",
        "anna has sent no heartbeat for 10 s, and its lease of 15 s expires in 5 s",
    )
    await world.store.work.renew(number, LEASE)
    assert (await checked(world, workers)).level == "ok"


async def test_jobs_of_a_dead_worker_that_nobody_takes_back_are_a_problem(world: World) -> None:
    worker = await world.new_worker(name="anna")
    await world.enqueue(call(), call())
    await world.claim(2, worker=worker)
    world.wait(LEASE + SECOND)
    await world.new_worker(name="berta")
    assert (await checked(world, workers)).level == "ok", "berta has had no time yet"
    world.wait(10 * SECOND)
    finding = await checked(world, workers)
    assert (finding.level, finding.said) == (
        "problem",
        "2 jobs held by anna, whose lease has expired, and no node takes them back",
    )
    await world.take_back()
    assert "held by" not in (await checked(world, workers)).said


async def test_a_lease_that_was_ended_is_known_to_those_who_live(world: World) -> None:
    worker = await world.new_worker(name="anna")
    await world.enqueue(call())
    await world.claim(1, worker=worker)
    await world.store.work.end_lease(worker)
    assert (await checked(world, workers)).said.startswith("1 job held by anna")
    await world.new_worker(name="berta")
    assert (await checked(world, workers)).level == "ok"


async def test_a_task_of_dulys_own_without_any_worker_says_what_to_allow(world: World) -> None:
    await world.enqueue(call("duly.shell"), call("duly.http"), call())
    finding = await checked(world, tasks)
    assert finding.fix == "duly up --allow http,shell, or duly worker --allow http,shell"


def test_who_asks_why_a_shell_line_waits_without_any_worker_is_told_what_to_allow() -> None:
    missing = what_is_missing([], task="duly.shell", queue="default", needs={})
    assert missing == (
        "none is running",
        SuggestedCommand("start one", "duly worker --allow shell"),
    )
