"""What happens when code changes: each line of the table in ``docs/schedules.md``, and of tasks.

Every version of the code is an app of its own, as it is in the process that was deployed. They
meet in one store. Schedules are announced by the reconciler of a scheduler, on a virtual clock;
jobs are run by real workers. Nothing is asked here about a process that imports half of the tasks:
see ``who_knows_only_a_part_pauses_nothing`` of the conformance suite.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly import Duly
from duly.app import connect, migrate_tables
from duly.engine.reconciler import Reconciler
from duly.events import EngineEvent
from duly.model.fire import StoredFire
from duly.runtime.console import sentence
from duly.testing.clock import VirtualClock
from duly.views.why import why_schedule
from tests.app.waiting import eventually
from tests.conformance.world import HOUR, World

APP = "shop.tasks:duly"
TEN = datetime(2027, 1, 4, 10, 2, tzinfo=UTC)  # a Monday
DAY = timedelta(days=1)
Version = Callable[[Duly], object]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(TEN) as there:
        yield there


@asynccontextmanager
async def opened(start: datetime) -> AsyncIterator[World]:
    clock = VirtualClock(start)
    store = connect(":memory:", clock=clock)
    await store.open()
    try:
        await migrate_tables(store)
        yield World(store, clock)
    finally:
        await store.close()


async def deploy(world: World, version: Version) -> list[str]:
    """Start a node with this version of the code: what it says."""
    app, said = Duly(), list[EngineEvent]()
    version(app)
    announced = app.declarations.announcement(APP)
    await Reconciler(world.store, announced, emit=said.append).tick()
    return [str(sentence(event)) for event in said]


def reconciler_of(world: World, version: Version) -> Reconciler:
    app = Duly()
    version(app)
    return Reconciler(world.store, app.declarations.announcement(APP))


def report(rule: str, **words: Any) -> Version:
    """A version in which the report is due by that rule."""

    def version(app: Duly) -> None:
        @app.schedule(rule, **words)
        @app.task(name="report")
        def report() -> None: ...

    return version


async def let_pass(world: World, length: timedelta) -> list[StoredFire]:
    """Let time pass, from one due moment to the next, as a scheduler does."""
    end = world.now + length
    while (next_at := (await world.schedule()).next_at) is not None and next_at <= end:
        world.clock.set(next_at)
        await world.fire()
    world.clock.set(end)
    return await world.fires()


def moments(fires: Sequence[StoredFire]) -> list[str]:
    return [f"{fire.due_at:%a %H:%M} {fire.outcome}" for fire in fires]


# Schedules.


async def test_first_deploy_of_a_schedule(world: World) -> None:
    said = await deploy(world, report("09:00 UTC", missed="all"))
    assert said == ["schedules of shop.tasks:duly: added report"]
    assert (await world.schedule()).next_at == datetime(2027, 1, 5, 9, tzinfo=UTC)
    await world.fire()
    assert await world.fires() == []


async def test_rule_changed(world: World) -> None:
    await deploy(world, report("02:00 UTC", missed="all"))
    before = await let_pass(world, DAY)
    known = await world.schedule()
    said = await deploy(world, report("09:00 UTC", missed="all"))
    assert said == ["schedules of shop.tasks:duly: changed report"]
    await world.fire()
    assert moments(await world.fires()) == moments(before) == ["Tue 02:00 queued"]
    changed = await world.schedule()
    assert (changed.id, changed.next_at) == (known.id, datetime(2027, 1, 6, 9, tzinfo=UTC))


async def test_half_a_minute_without_the_database_does_not_undo_a_deploy(world: World) -> None:
    old, new = reconciler_of(world, report("02:00 UTC")), reconciler_of(world, report("09:00 UTC"))
    for reconciler in (old, new):
        await reconciler.tick()
        world.wait(timedelta(seconds=10))
    world.wait(timedelta(seconds=30))
    for _ in range(10):
        await old.tick()
        await new.tick()
        assert (await world.schedule()).plan.rule == "09:00 UTC"
        world.wait(timedelta(seconds=10))


async def test_new_code_that_is_cut_off_for_a_while_is_not_superseded_for_ever(
    world: World,
) -> None:
    old, new = reconciler_of(world, report("02:00 UTC")), reconciler_of(world, report("09:00 UTC"))
    await old.tick()
    world.wait(timedelta(seconds=10))
    await new.tick()
    for _ in range(10):
        await old.tick()
        world.wait(timedelta(seconds=10))
    assert (await world.schedule()).plan.rule == "02:00 UTC"
    for _ in range(10):
        await new.tick()
        await old.tick()
        assert (await world.schedule()).plan.rule == "09:00 UTC"
        world.wait(timedelta(seconds=10))


async def test_zone_changed(world: World) -> None:
    """10:02 in London is 11:02 in Berlin, and 05:02 in New York: 11:00 is to come there."""
    await deploy(world, report("11:00", zone="Europe/London", missed="all"))
    await deploy(world, report("11:00", zone="Europe/Berlin", missed="all"))
    await world.fire()
    assert await world.fires() == []
    assert (await world.schedule()).next_at == datetime(2027, 1, 5, 10, tzinfo=UTC)
    await deploy(world, report("11:00", zone="America/New_York", missed="all"))
    assert (await world.schedule()).next_at == datetime(2027, 1, 4, 16, tzinfo=UTC)


async def test_dst_changed() -> None:
    """The clocks of Berlin go forward on Sunday 28 March: there is no 02:30."""
    async with opened(datetime(2027, 3, 27, 12, tzinfo=UTC)) as world:
        await deploy(world, report("02:30 Europe/Berlin"))
        known = await world.schedule()
        assert known.next_at == datetime(2027, 3, 28, 1, tzinfo=UTC)
        await deploy(world, report("02:30 Europe/Berlin", dst="systemd"))
        changed = await world.schedule()
        assert changed.next_at == datetime(2027, 3, 29, 0, 30, tzinfo=UTC)
        assert (changed.id, await world.fires()) == (known.id, [])


async def test_policy_changed(world: World) -> None:
    """The next decision uses it; those that were made stay as they are."""
    await deploy(world, report("every 1h"))
    decided = [fire.outcome for fire in await let_pass(world, 2 * HOUR)]
    assert decided == ["queued", "skipped"]
    next_at = (await world.schedule()).next_at
    await deploy(world, report("every 1h", overlap="allow"))
    assert (await world.schedule()).next_at == next_at
    decided = [fire.outcome for fire in await let_pass(world, HOUR)]
    assert decided == ["queued", "skipped", "queued"]


async def test_schedule_renamed_with_aliases(world: World) -> None:
    await deploy(world, report("every 1h"))
    fires = await let_pass(world, HOUR)
    known = await world.schedule()
    said = await deploy(world, report("every 1h", name="summary", aliases=("report",)))
    assert said == ["schedules of shop.tasks:duly: renamed report to summary"]
    renamed = await world.store.schedules.get("summary")
    assert (renamed.id, renamed.next_at, renamed.pause) == (known.id, known.next_at, None)
    assert await world.store.ledger.fires("summary") == fires


async def test_schedule_renamed_without(world: World) -> None:
    await deploy(world, report("every 1h"))
    await let_pass(world, HOUR)
    said = await deploy(world, report("every 1h", name="summary"))
    assert said == [
        "schedules of shop.tasks:duly: added summary; paused, no longer declared: report"
    ]
    old, new = await world.schedule(), await world.store.schedules.get("summary")
    assert (old.pause is not None, old.next_at, len(await world.fires())) == (True, None, 1)
    assert (new.pause, new.next_at) == (None, datetime(2027, 1, 4, 12, tzinfo=UTC))
    assert await world.store.ledger.fires("summary") == []


async def test_schedule_gone_from_code(world: World) -> None:
    await deploy(world, report("every 1h"))
    await let_pass(world, HOUR)
    said = await deploy(world, lambda _: None)
    assert said == ["schedules of shop.tasks:duly: paused, no longer declared: report"]
    gone = await world.schedule()
    assert gone.pause is not None
    assert gone.pause.note == "no longer in shop.tasks:duly since 2027-01-04 11:02 UTC"
    world.wait(DAY)
    await world.fire()
    assert len(await world.fires()) == 1, "it was not deleted, and fires nothing"
    told = await why_schedule(world.store, "report", "20:00")
    assert "no longer in shop.tasks:duly since 2027-01-04 11:02 UTC" in told, told


async def test_edited_by_a_person_then_changed_in_code(world: World) -> None:
    await deploy(world, report("every 1h", late="skip"))
    await world.by("ada").schedules.edit(
        "report",
        lambda plan: replace(plan, policies=replace(plan.policies, late="run")),
    )
    said = await deploy(world, report("every 2h", late="hurry"))
    assert said == [
        "schedules of shop.tasks:duly: changed report; report: late edited by hand and kept"
    ]
    plan = (await world.schedule()).plan
    assert (plan.rule, plan.policies.late) == ("every 2h", "run")


async def test_an_old_node_restarts_during_a_rolling_deploy(world: World) -> None:
    old, new = report("every 1h"), report("every 2h")
    await deploy(world, old)
    world.wait(timedelta(seconds=10))
    await deploy(world, new)
    world.wait(timedelta(seconds=10))
    before = await world.schedule()
    said = await deploy(world, old)
    assert said == [
        "this node has older schedules of shop.tasks:duly than another node; they were not applied"
    ]
    assert await world.schedule() == before


# Tasks. What the first version promised, the second one is to keep.


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "duly.db")


def promised(url: str) -> int:
    """A job of a task of the first version: ``send(order)``."""
    first = Duly(url)

    @first.task
    def send(order: int) -> str:
        raise NotImplementedError

    number = send.enqueue(7).id
    first.close()
    return number


def test_task_moved_to_another_file(url: str, tmp_path: Path) -> None:
    number, second = promised(url), Duly(url)
    moved: dict[str, Any] = {"duly": second, "__name__": "shop.sending"}
    exec("@duly.task\ndef send(order: int) -> str:\n    return f'sent {order}'", moved)  # noqa: S102
    with second.running(scheduler=False):
        assert second.jobs.get(number).result("10s") == "sent 7"
    second.close()


def test_task_renamed_with_aliases(url: str) -> None:
    number, second = promised(url), Duly(url)

    @second.task(aliases=("send",))
    def send_mail(order: int) -> str:
        return f"sent {order}"

    with second.running(scheduler=False):
        assert second.jobs.get(number).result("10s") == "sent 7"
    second.close()


def test_task_renamed_without(url: str) -> None:
    number, second = promised(url), Duly(url)

    @second.task
    def sent(order: int) -> None: ...

    said = 'knows the task "send"; did you rename it to "sent"? add aliases=("send",)'
    with second.running(scheduler=False):
        eventually(lambda: said in second.jobs.why(number), said)
        assert second.jobs.get(number).state in ("ready", "blocked")
    second.close()


def test_parameter_added_with_default(url: str) -> None:
    number, second = promised(url), Duly(url)

    @second.task
    def send(order: int, copies: int = 2) -> str:
        return f"sent {order} {copies} times"

    with second.running(scheduler=False):
        assert second.jobs.get(number).result("10s") == "sent 7 2 times"
    second.close()


def test_parameter_added_incompatible(url: str) -> None:
    number, second = promised(url), Duly(url)

    @second.task
    def send(order: int, *, to: str) -> None: ...

    said = "is blocked, signature changed: "
    with second.running(scheduler=False):
        eventually(lambda: said in second.jobs.why(number), said)
        assert second.jobs.get(number).state == "blocked"
        assert "to" in second.jobs.why(number)
    second.close()
    third = Duly(url)

    @third.task(name="send")
    def mended(order: int, *, to: str = "ada") -> str:
        return f"sent {order} to {to}"

    with third.running(scheduler=False):
        assert third.jobs.get(number).result("30s") == "sent 7 to ada", "no attempt was spent"
    third.close()
