"""The harness itself: it runs every order, waits for locks, and sees what is wrong."""

from itertools import pairwise

import psycopg
import pytest

from duly.store.database import Ask, Operation, Value
from duly.store.enqueueing import NumberedCall
from duly.store.enqueueing import enqueue as enqueued
from tests.factories import call
from tests.interleaving.interleave import Explored, Order, Program, explore, once
from tests.interleaving.stage import Stage
from tests.store.postgres.interleavings.actors import DIALECTS, Scene


def asking(*statements: str) -> Operation[list[object]]:
    """An operation of harmless statements."""
    found: list[object] = []
    for statement in statements:
        found += yield Ask(statement, _VALUES.get(statement, {}))
    return found


A_QUEUE: dict[str, Value] = {
    "name": "q", "paused": 0, "note": "", "concurrency": None, "rate_count": None,
    "rate_period": None, "fair": 0,
}  # fmt: skip
_VALUES: dict[str, dict[str, Value]] = {
    "set_queue": A_QUEUE,
    "hold_keys": {"rows": '[{"task": "t", "key": "k"}]'},
}


async def stories(scene: Scene, **sessions: object) -> tuple[Explored, list[list[str]]]:
    told: list[list[str]] = []

    async def listen(order: Order) -> list[str]:
        told.append(order.story)
        return []

    await scene.stage.keep()
    return await explore(scene.stage, sessions, listen), told  # type: ignore[arg-type]


async def test_every_order_of_the_steps_is_run_once(locking: Scene) -> None:
    one = once(lambda: asking("reserve_ids", "reserve_ids"))
    two = once(lambda: asking("reserve_ids", "reserve_ids"))
    found, told = await stories(locking, one=one, two=two)
    assert found.orders == 20  # 3 steps of 6
    assert len({tuple(story) for story in told}) == 20
    assert found.preemptions is None


async def test_a_last_look_and_the_commit_are_one_step(locking: Scene) -> None:
    one = once(lambda: asking("now"))
    found, told = await stories(locking, one=one)
    assert told == [["one: now, commit"]]
    assert found.orders == 1


async def test_a_step_that_waits_goes_on_when_the_other_commits(locking: Scene) -> None:
    one = once(lambda: asking("set_queue"))
    two = once(lambda: asking("set_queue"))
    found, told = await stories(locking, one=one, two=two)
    waited = ["one: set_queue", "two: set_queue … waits", "one: commit", "two: … goes on"]
    assert [*waited, "two: commit"] in told
    assert found.orders == 4  # two of the six would have to step while they wait
    assert found.waits == 2


async def test_the_victim_of_a_deadlock_begins_again(locking: Scene) -> None:
    first, second = call(key="first"), call(key="second")

    def batches(*order: tuple[int, object]) -> object:
        def program() -> Program:
            return (yield lambda: both(*order))

        return program

    def both(*order: tuple[int, object]) -> Operation[list[int]]:
        """Two batches in one transaction, so that their keys are not taken in order."""
        answers: list[int] = []
        for number, wanted in order:
            answers += yield from enqueued([NumberedCall(wanted, number)])  # type: ignore[arg-type]
        return answers

    found = await locking.play(
        one=batches((1, first), (2, second)), two=batches((3, second), (4, first)), most=50
    )
    assert not found.broken, found
    assert found.deadlocks > 0


async def test_an_update_that_is_lost_is_seen(locking: Scene) -> None:
    """The oldest race of all: two read, both add one, and one of them is lost."""
    await locking.stage.run(lambda: asking("set_queue"))

    def rises() -> Operation[None]:
        [(_, _, note, *_)] = yield Ask("list_queues")
        yield Ask("set_queue", {**A_QUEUE, "note": note + "+"})

    async def both_count(_: Order) -> list[str]:
        [note] = await locking.column("select note from duly.queue")
        return [] if note == "++" else [f"{note} is left of two"]

    found = await locking.play(both_count, one=once(rises), two=once(rises))
    assert found.broken == ["+ is left of two"]
    assert "in order" in str(found)
    assert "one: list_queues" in str(found)


async def test_where_there_are_too_many_orders_the_fewest_switches_come_first(
    locking: Scene,
) -> None:
    many = once(lambda: asking(*["reserve_ids"] * 8))
    await locking.stage.keep()
    seen: list[list[str]] = []

    async def listen(order: Order) -> list[str]:
        seen.append(order.story)
        return []

    found = await explore(locking.stage, {"one": many, "two": many}, listen, most=150)
    assert found.preemptions == 2
    switches = [sum(a[:3] != b[:3] for a, b in pairwise(story)) for story in seen]
    assert max(switches) == 3  # two preemptions, and one because a session was done
    assert found.orders == len({tuple(story) for story in seen}) == 2 + 2 * 8 + 2 * 8 * 8


async def test_an_error_of_the_database_is_a_fault(locking: Scene) -> None:
    with locking.stage.changed("reserve_ids", ("select", "select 1 / 0,")):
        found = await locking.play(one=once(lambda: asking("reserve_ids")))
    assert found.broken
    assert "division by zero" in str(found)


async def test_what_an_operation_refuses_comes_to_its_session(locking: Scene) -> None:
    def refuses() -> Operation[None]:
        yield Ask("set_queue", _VALUES["set_queue"])
        raise LookupError("no")

    results: list[object] = []

    async def listen(order: Order) -> list[str]:
        results.append(order.results["one"])
        return []

    await locking.play(listen, one=once(refuses))
    assert [str(result) for result in results] == ["no"]
    assert await locking.column("select name from duly.queue") == []


async def test_a_guard_that_is_not_there_cannot_be_taken_out(locking: Scene) -> None:
    with pytest.raises(ValueError, match="not in now"), locking.stage.changed("now", ("x y z", "")):
        pass


async def test_rows_are_put_back_before_each_order(stages: dict[str, str]) -> None:
    async with Stage.opened(stages["locking"], dialect=DIALECTS["locking"]) as stage:
        await stage.keep()
        await stage.run(lambda: asking("set_queue"))
        await stage.reset()
        assert await stage.look("select * from duly.queue") == []
    with psycopg.connect(stages["locking"]) as connection:
        assert connection.execute("select count(*) from duly.queue").fetchone() == (0,)
