"""An app at work beside other code, or as a program of its own."""

import asyncio
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from duly import Duly
from duly.clock import sleep
from duly.errors import InvalidValue
from duly.model.states import State
from tests.app import shop
from tests.app.programs import Programs
from tests.app.shop import is_up, put_up
from tests.app.waiting import eventually, happened

pytestmark = pytest.mark.usefixtures("shop_is_open")

SCRIPT = """
import os
from duly import Duly

duly = Duly()

@duly.task
def double(number: int) -> int:
    return number * 2

@duly.task(executor="process")
def whose() -> tuple[int, str]:
    return os.getppid(), __name__

if __name__ == "__main__":
    duly.run(concurrency=2)
"""


async def test_leaving_lets_what_runs_come_to_its_end(tmp_path: Path) -> None:
    sign = str(tmp_path / "sign")
    async with shop.duly.running():
        job = await shop.hold.aenqueue(sign)
        await happened(lambda: is_up(f"{sign}.began"), "the job to begin")
        asyncio.get_running_loop().call_later(0.3, put_up, f"{sign}.go")
    assert (await job.arefresh()).state is State.SUCCEEDED
    await shop.duly.aclose()


async def test_what_has_not_ended_after_the_grace_is_stopped_and_waits_for_another(
    tmp_path: Path,
) -> None:
    sign = str(tmp_path / "sign")
    async with shop.duly.running(grace="100ms"):
        job = await shop.hold.aenqueue(sign)
        await happened(lambda: is_up(f"{sign}.began"), "the job to begin")
    assert (await job.arefresh()).state is State.READY
    put_up(f"{sign}.go")
    async with shop.duly.running():
        assert await job.aresult("9s") == sign
    await shop.duly.aclose()


async def test_who_is_in_a_hurry_does_not_wait_for_what_runs(tmp_path: Path) -> None:
    """Ctrl-C cancels the program once, and it leaves; a second time, it leaves at once."""
    sign = str(tmp_path / "sign")

    async def work() -> None:
        async with shop.duly.running():
            await shop.hold.aenqueue(sign)
            await asyncio.Event().wait()

    program = asyncio.create_task(work())
    await happened(lambda: is_up(f"{sign}.began"), "the job to begin")
    for _ in range(2):
        program.cancel()
        await sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await program
    store = await shop.duly._lazy.store()
    assert [job.state for job in await store.jobs.page()] == [State.READY]
    await shop.duly.aclose()


def test_a_loop_that_ends_in_the_middle_of_it_lets_go_of_the_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is cancelled; still the next worker need not wait until the lease is over."""
    monkeypatch.setattr("duly.engine.worker.COLD_SECONDS", 0.5)
    sign = str(tmp_path / "sign")

    async def work() -> None:
        async with shop.duly.running(lease="10m"):
            await shop.hold.aenqueue(sign)
            await asyncio.Event().wait()

    async def main() -> None:
        program = asyncio.create_task(work())
        await happened(lambda: is_up(f"{sign}.began"), "the job to begin")
        assert not program.done()

    asyncio.run(main())
    put_up(f"{sign}.go")
    with shop.duly.running():
        eventually(lambda: not _unfinished(), "the job that was interrupted")


def test_several_threads_may_share_the_app_while_it_works() -> None:
    def ask(number: int) -> int:
        return shop.add.enqueue(number).result("9s")

    with shop.duly.running(), ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(8))) == list(range(2, 10))


async def test_a_framework_gives_it_a_lifespan() -> None:
    async with shop.duly.lifespan(object()):
        assert await (await shop.add.aenqueue(1)).aresult("9s") == 3


def test_jobs_in_processes_find_the_app_by_its_module() -> None:
    with shop.duly.running():
        assert shop.pid.enqueue().result("12s") > 0


def test_an_app_that_no_child_can_import_refuses_jobs_in_processes(url: str) -> None:
    duly = Duly(url)
    duly.task(executor="process", name="pid")(shop.pid.definition.function)
    with pytest.raises(InvalidValue, match="at the top of a module"), duly.running():
        pass


def test_a_script_is_a_worker_that_finds_itself(tmp_path: Path, programs: Programs) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    program = programs.start(str(script))
    program.hear("registered as number")
    duly = Duly()
    whose = duly.task(name="whose")(_whose)
    assert whose.enqueue().result("12s") == (program.pid, "script")
    program.signal(signal.SIGINT)
    assert program.end() == 0
    duly.close()


def test_run_while_a_module_is_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hasty.py").write_text("from duly import Duly\nDuly().run()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidValue, match='if __name__ == "__main__"'):
        __import__("hasty")


def test_modules_that_declare_tasks_are_imported_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "center.py").write_text("from duly import Duly\nduly = Duly(imports=['annex'])\n")
    (tmp_path / "annex.py").write_text(
        "from center import duly\n@duly.task\ndef far() -> str:\n    return 'here'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    center = __import__("center")
    assert "far" not in center.duly.registry
    with center.duly.running():
        far = __import__("annex").far
        assert far.enqueue().result("9s") == "here"
    center.duly.close()


def _whose() -> tuple[int, str]:
    raise NotImplementedError


def _unfinished() -> list[int]:
    found = shop.duly._lazy.call(lambda store: store.jobs.page(), async_name="")
    return [job.id for job in found]


def test_a_program_that_ends_leaves_one_file(tmp_path: Path) -> None:
    """Without having closed anything: no log beside it that has yet to be written back."""
    asked = (
        "from duly import Duly\n"
        "duly = Duly('duly.db')\n"
        "hello = duly.task(name='hello')(lambda: None)\n"
        "hello.enqueue()\n"
    )
    subprocess.run([sys.executable, "-c", asked], cwd=tmp_path, check=True)
    assert sorted(path.name for path in tmp_path.glob("duly.db*") if path.is_file()) == [
        "duly.db",
        "duly.db.lock",
    ]


def test_an_app_does_not_start_beside_another_that_has_a_task_of_the_same_name(url: str) -> None:
    """On this database each would run jobs of the other with its own code."""
    apps = [Duly(url, name=name) for name in ("shop", "billing", "shop")]
    for app in apps:
        app.task(name="send")(_send)
    shop_of_one, billing, shop_of_two = apps
    with shop_of_one.running(name="shop-1"):
        eventually(shop_of_one.workers.list, "the first app's worker")
        with pytest.raises(InvalidValue) as refused, billing.running():
            pass
        assert str(refused.value).startswith(
            'the app billing has a task named "send", and so has the app shop, whose worker '
            'shop-1 takes jobs from the same queue, "default": each would run the other\'s jobs.'
        )
        with shop_of_two.running(), billing.running(queues=("billing",)):
            pass
    with billing.running():
        pass
    for app in apps:
        app.close()


def _send() -> None:
    """Nothing."""
