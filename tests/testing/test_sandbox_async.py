"""A test that lives on an event loop has the same sandbox, and its tasks run on that loop."""

import asyncio
import threading
import warnings
from datetime import UTC, datetime

import pytest

from duly import Duly, current
from duly.errors import InvalidValue
from duly.testing import Sandbox

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


async def test_a_night_down_makes_up_one_report() -> None:
    app = Duly()

    @app.task
    async def remind(class_id: int) -> None: ...

    @app.schedule("02:00 Europe/Berlin")
    @app.task
    async def nightly_report() -> str:
        await remind.aenqueue(42)
        return f"{current().due_at:%H:%M}"

    async with Sandbox(app, now="2027-01-03T23:00+01:00") as box:
        assert await box.atravel("6h", down=True) == []
        [fire] = await box.atravel("1s")
        assert (fire.due_at.hour, fire.outcome) == (1, "queued")
        report, _ = await box.arun()
        assert await report.aresult() == "01:00"
        box.assert_enqueued(remind.bind(42))


async def test_coroutines_run_on_the_loop_of_the_test_and_plain_functions_beside_it() -> None:
    app = Duly()
    loops: list[asyncio.AbstractEventLoop] = []
    threads: list[threading.Thread] = []

    @app.task
    async def on_the_loop() -> None:
        loops.append(asyncio.get_running_loop())

    @app.task
    def in_a_thread() -> None:
        threads.append(threading.current_thread())
        on_the_loop.enqueue()

    async with Sandbox(app, now=NEW_YEAR) as box:
        await in_a_thread.aenqueue()
        assert [job.task for job in await box.arun()] == ["in_a_thread", "on_the_loop"]
    assert loops == [asyncio.get_running_loop()]
    assert threads != [threading.current_thread()]


async def test_a_call_that_holds_the_loop_up_is_told_of_and_still_answered() -> None:
    app = Duly()

    @app.task
    async def careless() -> None:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            quiet.enqueue()
        assert [str(one.message) for one in told] == [
            "called on a running event loop, which it blocks: use await quiet.aenqueue()"
        ]

    @app.task
    async def quiet() -> None: ...

    async with Sandbox(app, now=NEW_YEAR) as box:
        await careless.aenqueue()
        assert [job.state for job in await box.arun(raising=True)] == ["succeeded", "succeeded"]


async def test_the_error_of_a_coroutine_is_raised_as_it_is() -> None:
    app = Duly()
    error = ValueError("as it goes")

    @app.task(retry=None)
    async def broken() -> None:
        raise error

    async with Sandbox(app, now=NEW_YEAR) as box:
        job = await broken.aenqueue()
        with pytest.raises(ValueError, match="as it goes") as raised:
            await box.arun(raising=True)
        assert raised.value is error
        assert (await job.arefresh()).state == "failed"


async def test_a_run_that_is_cancelled_gives_back_what_it_had_begun() -> None:
    app = Duly()
    begun = asyncio.Event()

    @app.task
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Sandbox(app, now=NEW_YEAR) as box:
        job = await endless.aenqueue()
        run = asyncio.create_task(box.arun())
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert (await job.arefresh()).state == "ready"


async def test_run_is_not_for_a_loop() -> None:
    app = Duly()
    async with Sandbox(app, now=NEW_YEAR) as box:
        with pytest.raises(InvalidValue, match=r"await box\.arun\(\)"):
            box.run()


async def test_two_loops_reach_the_same_sandbox() -> None:
    app = Duly()

    @app.task
    async def work(place: str) -> None: ...

    async with Sandbox(app, now=NEW_YEAR) as box:
        await work.aenqueue("here")
        await asyncio.to_thread(lambda: asyncio.run(work.aenqueue("there")))
        await asyncio.to_thread(work.enqueue, "nowhere")
        for place in ("here", "there", "nowhere"):
            box.assert_enqueued(work.bind(place))
