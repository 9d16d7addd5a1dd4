"""On the virtual loop asyncio works as elsewhere, time is free, and the seed is the story."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import Context, ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly.clock import sleep
from duly.testing.clock import VirtualClock
from tests.simulation.loop import Deadlock, TimeStandsStill, VirtualLoop

ROOT = Path(__file__).parents[2]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(params=range(10), ids="seed {}".format)
def loop(request: pytest.FixtureRequest) -> Iterator[VirtualLoop]:
    with VirtualLoop(request.param) as loop:
        yield loop


def story(seed: int) -> str:
    """What happened in a whole program, line by line."""
    with VirtualLoop(seed) as loop:
        told = Story(loop)
        loop.run_until_complete(told.everything())
    return "\n".join(told.lines)


class Story:
    """Tasks that wait, compete, fail and cancel one another, and tell."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.lines: list[str] = []
        self.queue = asyncio.Queue[str](maxsize=2)

    async def everything(self) -> None:
        await asyncio.gather(
            *(self.produce(name) for name in "abc"),
            *(self.consume(name) for name in ("first", "second", "third")),
            self.fail_together(),
            self.wait_for_the_first(),
        )

    async def produce(self, name: str) -> None:
        for item in range(10):
            await self.queue.put(f"{name}{item}")
            await sleep(0.01 * (item % 3))

    async def consume(self, name: str) -> None:
        try:
            while True:
                async with asyncio.timeout(1):  # noqa: TID251 - as users write it
                    self.tell(f"{name} takes {await self.queue.get()}")
        except TimeoutError:
            self.tell(f"{name} gives up")

    async def fail_together(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(self.be_cancelled(f"member {number}"))
                group.create_task(self.fail())
        except* ConnectionError:
            self.tell("the group failed")

    async def be_cancelled(self, name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.tell(f"{name} is cancelled")

    async def fail(self) -> None:
        await sleep(0.5)
        raise ConnectionError

    async def wait_for_the_first(self) -> None:
        futures = [self.loop.create_future() for _ in range(10)]
        for future in futures:
            self.loop.call_later(0.2, future.set_result, None)
        done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        self.tell(f"{[futures.index(future) for future in done]} first, {len(pending)} later")

    def tell(self, what: str) -> None:
        self.lines.append(f"{self.loop.time():.3f} {what}")


def errors_at_the_end(loop: VirtualLoop) -> pytest.ExceptionInfo[BaseExceptionGroup[BaseException]]:
    with pytest.raises(BaseExceptionGroup) as raised, loop:
        loop.run_until(1)
    return raised


def test_the_same_seed_tells_the_same_story() -> None:
    assert story(7) == story(7)


@pytest.mark.parametrize("hash_seed", ["1", "2", "3"])
def test_the_same_seed_tells_the_same_story_in_every_process(hash_seed: str) -> None:
    tell = "from tests.testing.test_virtual_loop import story; print(story(7))"
    told = subprocess.run(
        [sys.executable, "-c", tell],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.rstrip("\n") == story(7)


def test_other_seeds_tell_other_stories() -> None:
    stories = {story(seed) for seed in range(10)}
    assert len(stories) == 10


def test_what_could_happen_next_happens_in_any_order() -> None:
    def order(seed: int) -> tuple[str, ...]:
        happened: list[str] = []
        with VirtualLoop(seed) as loop:
            for what in "abc":
                loop.call_soon(happened.append, what)
            loop.run_until(0)
        return tuple(happened)

    assert len({order(seed) for seed in range(100)}) == 6


def test_an_hour_of_waiting_takes_no_time(loop: VirtualLoop) -> None:
    before = time.monotonic()
    loop.run_until_complete(sleep(3600))
    assert loop.time() == 3600
    assert time.monotonic() - before < 60


def test_timers_go_off_in_the_order_of_their_times(loop: VirtualLoop) -> None:
    rang: list[tuple[float, int]] = []

    def ring(when: int) -> None:
        rang.append((loop.time(), when))

    for when in (3, 1, 2):
        loop.call_at(when, ring, when)
    loop.run_until(10)
    assert rang == [(1, 1), (2, 2), (3, 3)]


def test_a_timer_for_a_time_that_has_passed_goes_off_now(loop: VirtualLoop) -> None:
    loop.run_until(100)
    rang: list[float] = []
    loop.call_at(50, lambda: rang.append(loop.time()))
    loop.run_until(101)
    assert rang == [100]


def test_running_until_a_time_goes_no_further(loop: VirtualLoop) -> None:
    task = loop.create_task(sleep(10))
    loop.run_until(9.999)
    assert (loop.time(), task.done()) == (9.999, False)
    loop.run_until(10)
    assert (loop.time(), task.done()) == (10, True)


def test_an_event_wakes_all_who_wait_for_it(loop: VirtualLoop) -> None:
    async def main() -> list[bool]:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(5, event.set)
        return list(await asyncio.gather(*(event.wait() for _ in range(3))))

    assert loop.run_until_complete(main()) == [True, True, True]
    assert loop.time() == 5


def test_a_lock_lets_one_in_at_a_time(loop: VirtualLoop) -> None:
    inside: list[int] = []

    async def enter(lock: asyncio.Lock, number: int) -> None:
        async with lock:
            inside.append(number)
            await sleep(1)
            assert inside[-1] == number

    async def main() -> None:
        lock = asyncio.Lock()
        await asyncio.gather(*(enter(lock, number) for number in range(5)))

    loop.run_until_complete(main())
    assert (sorted(inside), loop.time()) == ([0, 1, 2, 3, 4], 5)


def test_a_queue_loses_nothing_and_keeps_its_order(loop: VirtualLoop) -> None:
    async def main() -> list[int]:
        queue = asyncio.Queue[int](maxsize=1)

        async def fill() -> None:
            for number in range(20):
                await queue.put(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(fill())
            return [await queue.get() for _ in range(20)]

    assert loop.run_until_complete(main()) == list(range(20))


def test_a_time_out_ends_what_takes_too_long_and_nothing_else(loop: VirtualLoop) -> None:
    async def main() -> str:
        async with asyncio.timeout(3):  # noqa: TID251 - as users write it
            await sleep(2)
        try:
            async with asyncio.timeout(3):  # noqa: TID251 - as users write it
                await sleep(4)
        except TimeoutError:
            return "too long"
        return "in time"

    assert loop.run_until_complete(main()) == "too long"
    assert loop.time() == 5


def test_waiting_for_the_first_leaves_the_others_pending(loop: VirtualLoop) -> None:
    async def main() -> tuple[int, int]:
        tasks = [asyncio.create_task(sleep(seconds)) for seconds in (1, 2, 3)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return len(done), len(pending)

    assert loop.run_until_complete(main()) == (1, 2)
    assert loop.time() == 1


def test_a_group_cancels_its_members_when_one_fails(loop: VirtualLoop) -> None:
    async def fail() -> None:
        await sleep(1)
        raise ConnectionError

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleep(100))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup) as raised:
        loop.run_until_complete(main())
    assert raised.group_contains(ConnectionError)
    assert loop.time() == 1


def test_a_callback_runs_in_the_context_it_was_given(loop: VirtualLoop) -> None:
    variable = ContextVar("variable", default="nothing")
    variable.set("something")
    seen: list[str] = []
    loop.call_soon(lambda: seen.append(variable.get()))
    loop.run_until(0)
    loop.call_soon(lambda: seen.append(variable.get()), context=Context())
    loop.run_until(0)
    assert seen == ["something", "nothing"]


def test_a_callback_that_was_cancelled_does_not_run(loop: VirtualLoop) -> None:
    ran: list[str] = []
    loop.call_soon(ran.append, "soon").cancel()
    loop.call_later(1, ran.append, "later").cancel()
    loop.run_until(2)
    assert ran == []


def test_time_outs_that_were_not_needed_do_not_pile_up(loop: VirtualLoop) -> None:
    async def main() -> None:
        for _ in range(10_000):
            async with asyncio.timeout(3600):  # noqa: TID251 - as users write it
                await sleep(0)

    loop.run_until_complete(main())
    assert len(loop._timers) < 2_000


def test_a_deadlock_names_who_waits_and_where(loop: VirtualLoop) -> None:
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await sleep(4)
        await asyncio.create_task(wait_for_ever(), name="the patient one")

    with pytest.raises(
        Deadlock, match=r"at 4\.0 s; .*the patient one \(.*test_virtual_loop\.py:\d+\)"
    ):
        loop.run_until_complete(main())


def test_a_program_that_never_waits_is_found_out() -> None:
    async def spin() -> None:
        while True:
            await sleep(0)

    with VirtualLoop(patience=1000) as loop, pytest.raises(TimeStandsStill, match="1000 callbacks"):
        loop.run_until_complete(spin())


def test_a_program_that_never_ends_is_found_out_at_the_horizon() -> None:
    async def go_on() -> None:
        while True:
            await sleep(1)

    with VirtualLoop(horizon=100) as loop, pytest.raises(RuntimeError, match=r"not done by .* 100"):
        loop.run_until_complete(go_on())


def test_a_stop_leaves_the_rest_of_the_time_to_the_next_run(loop: VirtualLoop) -> None:
    task = loop.create_task(sleep(2))
    loop.call_at(1, loop.stop)
    loop.run_until(5)
    assert (loop.time(), task.done()) == (1, False)
    loop.run_until(5)
    assert (loop.time(), task.done()) == (5, True)


def test_a_loop_that_was_stopped_early_says_so(loop: VirtualLoop) -> None:
    loop.call_at(1, loop.stop)
    with pytest.raises(RuntimeError, match="stopped before the awaited future was done"):
        loop.run_until_complete(sleep(2))


def test_an_error_in_a_callback_is_kept_and_raised_at_the_end() -> None:
    def fail() -> None:
        raise ConnectionError

    loop = VirtualLoop()
    loop.call_soon(fail)
    assert errors_at_the_end(loop).group_contains(ConnectionError)


def test_an_error_of_a_task_that_nobody_awaited_is_raised_at_the_end() -> None:
    async def fail() -> None:
        raise ConnectionError

    loop = VirtualLoop()
    loop.create_task(fail())
    assert errors_at_the_end(loop).group_contains(ConnectionError)


def test_tasks_are_cancelled_at_the_end_and_may_clean_up() -> None:
    cleaned: list[float] = []

    async def wait_and_clean_up(loop: VirtualLoop) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await sleep(5)
            cleaned.append(loop.time())

    with VirtualLoop() as loop:
        loop.create_task(wait_and_clean_up(loop))
        loop.run_until(10)
    assert cleaned == [15]


def test_a_task_that_goes_on_after_the_end_is_an_error() -> None:
    release = asyncio.Event()

    async def stay() -> None:
        while not release.is_set():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    loop = VirtualLoop()
    task = loop.create_task(stay(), name="straggler")
    assert errors_at_the_end(loop).group_contains(RuntimeError, match="straggler goes on")
    release.set()
    task.get_coro().close()


def test_threads_are_refused(loop: VirtualLoop) -> None:
    with pytest.raises(RuntimeError, match="a thread calls into the simulation"):
        loop.call_soon_threadsafe(print)
    with pytest.raises(RuntimeError, match="there are no threads in the simulation"):
        loop.run_until_complete(asyncio.to_thread(threading.get_ident))


async def test_it_does_not_run_inside_another_loop() -> None:
    coroutine = sleep(1)
    with pytest.raises(RuntimeError, match="another event loop is running"):
        VirtualLoop().run_until(1)
    coroutine.close()


def test_a_virtual_clock_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(NOON)
    assert (clock(), clock.now()) == (NOON, NOON)
    clock.advance(timedelta(hours=1))
    assert clock() == NOON + timedelta(hours=1)
    clock.set(NOON - timedelta(days=1))
    assert clock() == NOON - timedelta(days=1)


def test_a_virtual_clock_can_go_with_a_virtual_loop(loop: VirtualLoop) -> None:
    loop.run_until(100)
    clock = VirtualClock(NOON, elapsed=loop.time)
    loop.run_until(160)
    assert clock() == NOON + timedelta(minutes=1)
    clock.set(NOON)
    loop.run_until(161)
    assert clock() == NOON + timedelta(seconds=1)


def test_a_virtual_clock_refuses_a_moment_without_a_zone() -> None:
    with pytest.raises(ValueError, match="is naive"):
        VirtualClock(NOON.replace(tzinfo=None))
