"""What the loop promises to every service. It takes no time, for time is virtual here."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta

import pytest

from duly.clock import sleep
from duly.engine.loop import Loop, LoopLimits, ServiceProgress, Waiter
from duly.errors import InvalidValue, StoreUnavailable
from duly.events import (
    EngineEvent,
    ServiceRestarted,
    StoreLost,
    StoreRecovered,
    TickFailed,
    TickStalled,
)
from tests.simulation.loop import VirtualLoop

NOTHING = timedelta()
SHORT = timedelta(seconds=0.25)
LONG = timedelta(hours=1)

Tick = Callable[[], Awaitable[timedelta]]


class Chores:
    """A service that is told what to do in each tick; the last thing again and again."""

    def __init__(self, *ticks: Tick, name: str = "chores", topics: str = "chores") -> None:
        self.name = name
        self.topics = frozenset(topics.split())
        self.ticked_at: list[float] = []
        self.finished = 0
        self._ticks = ticks

    async def tick(self) -> timedelta:
        tick = self._ticks[min(len(self.ticked_at), len(self._ticks) - 1)]
        self.ticked_at.append(asyncio.get_running_loop().time())
        rest = await tick()
        self.finished += 1
        return rest


class Doom(BaseException):
    """Neither a result nor an error to go on after."""


async def work() -> timedelta:
    return LONG


async def rest_shortly() -> timedelta:
    return SHORT


async def work_for_a_second() -> timedelta:
    await sleep(1)
    return LONG


async def fail() -> timedelta:
    raise ConnectionError("the database is gone")


async def wait_for_something_that_is_cancelled() -> timedelta:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future
    return LONG


async def answer_nonsense() -> timedelta:
    return "soon"  # type: ignore[return-value]


async def hang() -> timedelta:
    await asyncio.Event().wait()
    return LONG


async def hang_and_refuse_to_die() -> timedelta:
    for _ in range(2):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
    return LONG


async def doom() -> timedelta:
    raise Doom


@pytest.fixture(params=range(5), ids="seed {}".format)
def virtual(request: pytest.FixtureRequest) -> Iterator[VirtualLoop]:
    with VirtualLoop(request.param, horizon=7200) as loop:
        yield loop


class Told:
    """A loop that runs, and what it says."""

    def __init__(
        self, virtual: VirtualLoop, *services: Chores, dice: float = 0.5, listening: bool = False
    ) -> None:
        self.events: list[EngineEvent] = []
        self.stop = asyncio.Event()
        self.loop = Loop(
            services, dice=lambda: dice, emit=self.events.append, listening=lambda: listening
        )
        self.running = virtual.create_task(self.loop.run(self.stop), name="loop")


@pytest.mark.parametrize(
    "broken",
    [fail, wait_for_something_that_is_cancelled, answer_nonsense],
)
def test_a_failing_tick_is_told_and_tried_again_after_a_pause_that_grows(
    virtual: VirtualLoop, broken: Tick
) -> None:
    chores = Chores(broken)
    told = Told(virtual, chores)
    virtual.run_until(6)
    assert chores.ticked_at == pytest.approx([0, 0.1, 0.3, 0.7, 1.5, 3.1, 5.1])
    assert [type(event) for event in told.events] == [TickFailed] * 7


def test_a_good_tick_makes_the_next_pause_short_again(virtual: VirtualLoop) -> None:
    chores = Chores(fail, fail, fail, rest_shortly, fail, rest_shortly)
    Told(virtual, chores)
    virtual.run_until(1.2)
    assert chores.ticked_at == pytest.approx([0, 0.1, 0.3, 0.7, 0.95, 1.05])


def test_the_error_is_told_as_it_was_raised(virtual: VirtualLoop) -> None:
    told = Told(virtual, Chores(fail, work))
    virtual.run_until(1)
    (event,) = told.events
    assert isinstance(event, TickFailed)
    assert event.service == "chores"
    assert isinstance(event.error, ConnectionError)


def test_a_store_that_is_away_is_told_once_and_once_when_it_answers_again(
    virtual: VirtualLoop,
) -> None:
    async def away() -> timedelta:
        raise StoreUnavailable("away")

    first = Chores(away, away, rest_shortly, name="first")
    second = Chores(rest_shortly, away, away, away, rest_shortly, name="second")
    third = Chores(rest_shortly, name="third")  # which asks nothing of the store
    told = Told(virtual, first, second, third)
    virtual.run_until(10)
    lost, found = told.events
    assert isinstance(lost, StoreLost)
    assert (lost.service, str(lost.error)) == ("first", "away")
    assert isinstance(found, StoreRecovered)
    assert found.after.total_seconds() == pytest.approx(second.ticked_at[4])


def test_nudges_do_not_shorten_the_pause_after_a_failure(virtual: VirtualLoop) -> None:
    chores = Chores(fail, work, topics="jobs")
    told = Told(virtual, chores)
    virtual.call_at(0.05, told.loop.nudge, "jobs")
    virtual.run_until(0.11)
    assert chores.ticked_at[:2] == pytest.approx([0, 0.1])


def test_a_tick_that_hangs_is_cancelled_and_the_next_one_happens(virtual: VirtualLoop) -> None:
    chores = Chores(hang, work)
    told = Told(virtual, chores)
    virtual.run_until(30.4)
    assert told.events == [TickStalled("chores", timedelta(seconds=30))]
    assert chores.ticked_at == pytest.approx([0, 30.1])


def test_a_tick_that_refuses_to_be_cancelled_is_left_behind(virtual: VirtualLoop) -> None:
    chores = Chores(hang_and_refuse_to_die, work)
    told = Told(virtual, chores)
    virtual.run_until(31.4)
    assert told.events == [
        TickStalled("chores", timedelta(seconds=30)),
        ServiceRestarted("chores"),
    ]
    assert chores.ticked_at == pytest.approx([0, 31.1])


def test_a_service_whose_every_tick_hangs_is_tried_for_ever(virtual: VirtualLoop) -> None:
    chores = Chores(hang)
    Told(virtual, chores)
    virtual.run_until(3600)
    assert len(chores.ticked_at) == 113  # 30 s each, and pauses of 2 s


def test_what_was_left_behind_may_fail_later_without_a_sound(virtual: VirtualLoop) -> None:
    release = asyncio.Event()

    async def hang_and_fail_later() -> timedelta:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()
        raise ConnectionError

    told = Told(virtual, Chores(hang_and_fail_later, work))
    virtual.call_at(40, release.set)
    virtual.run_until(50)
    assert [type(event) for event in told.events] == [TickStalled, ServiceRestarted]
    assert virtual.errors == []


def test_a_service_that_hangs_does_not_hold_up_the_others(virtual: VirtualLoop) -> None:
    others = Chores(work, name="others")
    Told(virtual, Chores(hang_and_refuse_to_die), others)
    virtual.run_until(30.9)
    assert others.ticked_at == pytest.approx([0.5 * tick for tick in range(62)])


@pytest.mark.parametrize(("dice", "cap"), [(0.0, 0.4), (0.5, 0.5), (0.999_999_999, 0.6)])
def test_a_rest_is_never_longer_than_the_poll_give_or_take_a_fifth(
    virtual: VirtualLoop, dice: float, cap: float
) -> None:
    chores = Chores(work)
    Told(virtual, chores, dice=dice)
    virtual.run_until(1)
    assert chores.ticked_at[:2] == pytest.approx([0, cap])


def test_after_a_quiet_while_polls_are_two_seconds_long_until_a_nudge(virtual: VirtualLoop) -> None:
    chores = Chores(work)
    told = Told(virtual, chores, listening=True)
    virtual.run_until(12.5)
    assert chores.ticked_at == pytest.approx([*(0.5 * tick for tick in range(21)), 12])
    told.loop.nudge("*")  # may mean any service
    virtual.run_until(15)
    assert chores.ticked_at[22:] == pytest.approx([12.5, 14.5])
    told.loop.nudge("chores")
    virtual.run_until(16.8)
    assert chores.ticked_at[24:] == pytest.approx([15, 15.5, 16, 16.5])


@pytest.mark.parametrize("is_deaf", [True, False], ids=["no nudge arrives", "there was work"])
def test_polls_stay_short_where_something_may_come(virtual: VirtualLoop, is_deaf: bool) -> None:
    chores = Chores(work) if is_deaf else Chores(*(rest_shortly, work) * 50)
    Told(virtual, chores, listening=not is_deaf)
    virtual.run_until(30)
    assert chores.ticked_at[-1] - chores.ticked_at[-2] <= 0.5


def test_who_waits_for_no_nudge_rests_as_it_likes(virtual: VirtualLoop) -> None:
    chores = Chores(work, topics="")
    told = Told(virtual, chores)
    virtual.run_until(1)
    told.loop.nudge("*")
    virtual.run_until(LONG.total_seconds() - 1)
    assert chores.ticked_at == [0]
    virtual.run_until(LONG.total_seconds() + 1)
    assert len(chores.ticked_at) == 2


def test_a_shorter_rest_is_as_long_as_was_asked(virtual: VirtualLoop) -> None:
    chores = Chores(rest_shortly)
    Told(virtual, chores)
    virtual.run_until(1.1)
    assert chores.ticked_at == pytest.approx([0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize(
    ("nudged_at", "nudged", "until"), [(0.5, True, 0.5), (None, False, 2.0), (3.0, False, 2.0)]
)
def test_who_rests_knows_whether_it_was_woken(
    virtual: VirtualLoop, nudged_at: float | None, nudged: bool, until: float
) -> None:
    wake = Waiter()
    if nudged_at is not None:
        virtual.call_at(nudged_at, wake.set)
    assert virtual.run_until_complete(wake.rest(2)) is nudged
    assert virtual.time() == until


@pytest.mark.parametrize("seconds", [0, 2])
def test_a_nudge_that_came_while_nobody_rested_ends_one_rest(
    virtual: VirtualLoop, seconds: float
) -> None:
    wake = Waiter()
    wake.set()
    wake.set()
    assert virtual.run_until_complete(wake.rest(seconds)) is True
    assert virtual.time() == 0
    assert virtual.run_until_complete(wake.rest(seconds)) is False
    assert virtual.time() == seconds


def test_a_nudge_shortens_a_rest_once(virtual: VirtualLoop) -> None:
    chores = Chores(work, topics="jobs")
    told = Told(virtual, chores)
    virtual.call_at(0.2, told.loop.nudge, "jobs")
    virtual.run_until(0.8)
    assert chores.ticked_at == pytest.approx([0, 0.2, 0.7])


def test_a_nudge_during_a_tick_is_not_lost(virtual: VirtualLoop) -> None:
    chores = Chores(work_for_a_second, work, topics="jobs")
    told = Told(virtual, chores)
    virtual.call_at(0.5, told.loop.nudge, "jobs")
    virtual.run_until(1.2)
    assert chores.ticked_at == pytest.approx([0, 1])


@pytest.mark.parametrize(
    ("nudge", "woken"),
    [
        ("jobs", ["worker", "curious"]),
        ("schedules", ["scheduler", "curious"]),
        ("weather", ["curious"]),
        ("*", ["worker", "scheduler", "curious"]),
    ],
)
def test_a_nudge_wakes_those_who_asked_for_its_topic(
    virtual: VirtualLoop, nudge: str, woken: list[str]
) -> None:
    services = [
        Chores(work, name="worker", topics="jobs"),
        Chores(work, name="scheduler", topics="schedules moments"),
        Chores(work, name="curious", topics="*"),
    ]
    told = Told(virtual, *services)
    virtual.call_at(0.2, told.loop.nudge, nudge)
    virtual.run_until(0.3)
    assert [service.name for service in services if len(service.ticked_at) == 2] == woken


def test_a_service_that_always_has_more_to_do_leaves_room_for_others(virtual: VirtualLoop) -> None:
    order: list[str] = []

    def take_part(name: str) -> Tick:
        async def tick() -> timedelta:
            order.append(name)
            return NOTHING if len(order) < 200 else LONG

        return tick

    greedy, meek = (Chores(take_part(name), name=name) for name in ("greedy", "meek"))
    Told(virtual, greedy, meek)
    virtual.run_until(0)
    assert min(len(greedy.ticked_at), len(meek.ticked_at)) > 50


def test_a_stop_lets_the_tick_under_way_finish(virtual: VirtualLoop) -> None:
    chores = Chores(work_for_a_second)
    told = Told(virtual, chores)
    virtual.call_at(0.3, told.stop.set)
    virtual.run_until_complete(told.running)
    assert (virtual.time(), chores.finished) == (1, 1)


@pytest.mark.parametrize("tick", [work, fail])
def test_a_stop_ends_a_rest_and_a_pause_at_once(virtual: VirtualLoop, tick: Tick) -> None:
    told = Told(virtual, Chores(tick))
    virtual.call_at(0.75, told.stop.set)
    virtual.run_until_complete(told.running)
    assert virtual.time() == 0.75


def test_a_stop_does_not_wait_for_ever_for_a_tick_that_hangs(virtual: VirtualLoop) -> None:
    told = Told(virtual, Chores(hang_and_refuse_to_die))
    virtual.call_at(10, told.stop.set)
    virtual.run_until_complete(told.running)
    assert virtual.time() == 31


def test_a_loop_that_is_cancelled_cancels_its_ticks(virtual: VirtualLoop) -> None:
    chores = Chores(work_for_a_second)
    told = Told(virtual, chores)
    virtual.call_at(0.3, told.running.cancel)
    with pytest.raises(asyncio.CancelledError):
        virtual.run_until_complete(told.running)
    virtual.run_until(5)
    assert (chores.ticked_at, chores.finished, told.events) == ([0], 0, [])


def test_what_is_neither_a_result_nor_an_error_ends_the_loop(virtual: VirtualLoop) -> None:
    others = Chores(work, name="others")
    told = Told(virtual, Chores(doom), others)
    with pytest.raises(BaseExceptionGroup) as raised:
        virtual.run_until_complete(told.running)
    assert raised.group_contains(Doom)
    assert virtual.time() == 0


def test_a_listener_that_fails_does_not_stop_the_service(virtual: VirtualLoop) -> None:
    def complain(event: EngineEvent) -> None:
        raise OSError("no space left on device")

    chores = Chores(fail)
    virtual.create_task(Loop([chores], dice=lambda: 0.5, emit=complain).run())
    virtual.run_until(1)
    assert len(chores.ticked_at) == 4


def test_progress_is_the_age_of_the_last_good_tick(virtual: VirtualLoop) -> None:
    told = Told(virtual, Chores(work, fail))
    virtual.run_until(5)
    assert told.loop.progress() == {
        "chores": ServiceProgress(
            timedelta(seconds=5),
            ticks=1,
            failures=6,
            last_error="ConnectionError: the database is gone",
        )
    }


def test_a_service_that_hangs_makes_no_progress_though_it_is_alive(virtual: VirtualLoop) -> None:
    told = Told(virtual, Chores(work, hang))
    virtual.run_until(40)
    assert told.loop.progress() == {
        "chores": ServiceProgress(
            timedelta(seconds=40),
            ticks=1,
            failures=1,
            last_error="no answer within 0:00:30",
        )
    }


def test_before_its_first_tick_a_service_is_as_old_as_its_loop(virtual: VirtualLoop) -> None:
    virtual.run_until(100)
    told = Told(virtual, Chores(hang))
    assert told.loop.progress() == {
        "chores": ServiceProgress(NOTHING, 0, failures=0, last_error=None)
    }
    virtual.run_until(107)
    assert told.loop.progress()["chores"].age == timedelta(seconds=7)


def test_two_services_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValue, match="two services share a name: chores, chores"):
        Loop([Chores(work), Chores(work)], dice=lambda: 0.5)


async def test_on_a_real_event_loop_a_nudge_that_is_heard_starts_a_tick() -> None:
    stop = asyncio.Event()

    async def stop_after_this() -> timedelta:
        stop.set()
        return LONG

    chores = Chores(work, stop_after_this, topics="jobs")
    loop = Loop([chores], dice=lambda: 0.5, limits=LoopLimits(poll=LONG))
    asyncio.get_running_loop().call_later(0.01, loop.nudge, "jobs")
    await loop.run(stop)
    assert chores.finished == 2
