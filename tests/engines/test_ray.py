"""Jobs on a real Ray cluster of one node, where Ray is installed."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from duly.engine.executors.on_engine import run_remote
from duly.engines import Ray
from duly.errors import EngineUnavailable, InvalidValue
from duly.registry.definition import Definition
from duly.store.store import Store
from tests.app.shop import is_up
from tests.engine.workshop import at_work, memory_store, until
from tests.engines import heavy
from tests.engines.test_kubernetes import job_for_engine, log

ROOT = Path(__file__).parents[2]
PATIENCE = 90.0
slow = pytest.mark.thorough("a Ray cluster takes seconds to start")


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    ray = shutil.which("ray")
    if ray is None:
        pytest.skip('ray is not on the PATH (pip install "ray[default]", in any environment)')
    dashboard, client, agent = free_ports(3)
    # Not below pytest's folder: the path of a socket may have only 107 characters.
    with tempfile.TemporaryDirectory(prefix="duly-ray-") as folder:
        command = [
            *(ray, "start", "--head", "--block", "--port=0", "--node-ip-address=127.0.0.1"),
            *("--num-cpus=2", "--object-store-memory=100000000", f"--temp-dir={folder}"),
            *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"),
            *(f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}"),
            *("--min-worker-port=0", "--max-worker-port=0", "--disable-usage-stats"),
        ]
        with Path(folder, "log").open("wb") as said:
            cluster = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        try:
            yield f"http://127.0.0.1:{dashboard}"
        finally:
            cluster.terminate()
            cluster.wait(30)


@pytest.fixture
def engine(address: str) -> Ray:
    found = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    return Ray(address, python=sys.executable, runtime_env={"env_vars": found})


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


def on(engine: Ray, *names: str) -> list[Definition]:
    return [replace(getattr(heavy, name).definition, engine=engine) for name in names]


@slow
async def test_a_job_runs_on_ray_with_its_log_result_retries_and_timeout(
    engine: Ray, store: Store, tmp_path: Path
) -> None:
    again, late = str(tmp_path / "again"), str(tmp_path / "late")
    [*tasks, long] = on(engine, "add_days", "fail_first", "give_up", "run_long")
    async with at_work(store, *tasks, long) as worker:
        [number] = await worker.enqueue("add_days", day="2026-02-27", days=2)
        job = await worker.ended(number, within=PATIENCE)
        assert '"day":"2026-03-01"' in str(job.result)
        said = await log(store, number)
        assert [said.count(word) for word in ("started", "counting", "careful")] == [1, 1, 1]
        assert "DoneFrame" not in said
        [failing], [hopeless] = (
            await worker.enqueue("fail_first", sign=again),
            await worker.enqueue("give_up"),
        )
        assert (await worker.ended(failing, within=PATIENCE)).result == "2"
        assert "there is no point" in (await worker.ended(hopeless, within=PATIENCE)).reason
        [number] = await worker.enqueue("run_long", sign=late, timeout="15s")
        assert "ran longer than" in (await worker.ended(number, within=PATIENCE)).reason
    assert is_up(f"{late}.asked")  # it was asked, refused, and was killed
    assert await engine._ask("GET", "") == []


@slow
async def test_the_next_worker_finds_the_ray_job_and_a_cancel_ends_it(
    engine: Ray, store: Store, tmp_path: Path
) -> None:
    sign, other = str(tmp_path / "sign"), str(tmp_path / "other")
    async with at_work(store, *on(engine, "hold")) as worker:
        [number], [cancelled] = (
            await worker.enqueue("hold", sign=sign),
            await worker.enqueue("hold", sign=other),
        )
        await until(lambda: bool(heavy.runs(sign) and heavy.runs(other)), within=PATIENCE)
        await store.jobs.cancel(cancelled, reason="not needed")
        await worker.ended(cancelled, within=PATIENCE)
        assert not is_up(f"/proc/{heavy.runs(other)[0]}/exe")
        await worker.leave(cold=True)
    assert is_up(f"/proc/{heavy.runs(sign)[0]}/exe")
    async with at_work(store, *on(engine, "hold")) as worker:
        heavy.let_go(sign)
        assert (await worker.ended(number, within=PATIENCE)).result == '"held"'
    assert len(heavy.runs(sign)) == 1
    assert "found again" in await log(store, number)


async def test_a_cluster_that_is_not_there_is_unavailable_and_an_address_is_checked() -> None:
    [port] = free_ports(1)
    with pytest.raises(EngineUnavailable, match="the Ray cluster is unavailable"):
        await run_remote(Ray(f"http://127.0.0.1:{port}"), job_for_engine())
    with pytest.raises(InvalidValue, match="expected an address"):
        Ray("ray://head:10001")
