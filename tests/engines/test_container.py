"""Jobs in real containers, where Podman and runc are installed and may run one."""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from duly.engine.executors.on_engine import run_remote
from duly.engines import Container
from duly.engines.container import ContainerRefused
from duly.errors import EngineUnavailable
from duly.registry.definition import Definition
from duly.store.store import Store
from tests.app.shop import is_up
from tests.engine.workshop import at_work, memory_store, until
from tests.engines import heavy
from tests.engines.test_kubernetes import job_for_engine, log

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/duly-test"
PATIENCE = 90.0  # seconds: a container starts in one, and in twenty on a busy machine
pytestmark = pytest.mark.timeout(400)
# As root without all of its rights, as in a container: the limits may not be raised. No network: an
# interface that appears makes every Chromium of the machine abort its requests. All state is in a
# folder of its own, so that other tests, and other users of Podman, are not disturbed.
SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
"""
STORAGE = """
[storage]
driver = "vfs"
graphroot = "{folder}/images"
runroot = "{folder}/run"
"""


def podman(*words: str) -> str:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"podman {words[0]} does not work here: {done.stderr.strip()[-300:]}")
    return done.stdout


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder not below pytest's: the path of a socket of Podman has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="duly-podman-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def options(folder: Path) -> Iterator[list[str]]:
    """Return the options of an empty image that runs this Python, and nothing else of it."""
    for needed in ("podman", "runc"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not on the PATH (apt: podman runc)")
    (folder / "containers.conf").write_text(SETTINGS.format(folder=folder))
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    with tarfile.open(folder / "image.tar", "w") as image:
        place = tarfile.TarInfo("tmp")
        place.type, place.mode = tarfile.DIRTYPE, 0o1777
        image.addfile(place, io.BytesIO())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(folder / "containers.conf"))
        patch.setenv("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))
        podman("import", str(folder / "image.tar"), IMAGE)
        places = {"/usr", "/lib", "/lib64", "/etc", str(ROOT), sys.prefix, sys.base_prefix}
        shared = [f"--volume={one}:{one}:ro" for one in sorted(places) if Path(one).exists()]
        found = [*shared, f"--env=PYTHONPATH={ROOT}:{ROOT}/src", f"--workdir={ROOT}"]
        podman("run", "--rm", *found, IMAGE, sys.executable, "-c", "import duly")
        yield found
        podman("rm", "--all", "--force")
        podman("rmi", "--all", "--force")


@pytest.fixture
def engine(options: list[str], tmp_path: Path) -> Container:
    more = f"--volume={tmp_path}:{tmp_path}"
    return Container(IMAGE, program="podman", python=sys.executable, options=[*options, more])


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


def on(engine: Container, *names: str) -> list[Definition]:
    return [replace(getattr(heavy, name).definition, engine=engine) for name in names]


def containers() -> list[str]:
    return podman("ps", "--all", "--format={{.Names}}").split()


@pytest.mark.thorough("containers take seconds to start")
async def test_a_job_runs_in_a_container_with_its_log_result_retries_and_timeout(
    engine: Container, store: Store, tmp_path: Path
) -> None:
    again, late = str(tmp_path / "again"), str(tmp_path / "late")
    tasks = on(engine, "add_days", "fail_first", "give_up", "run_long")
    async with at_work(store, *tasks) as worker:
        [number] = await worker.enqueue("add_days", day="2026-02-27", days=2)
        assert '"day":"2026-03-01"' in str((await worker.ended(number, within=PATIENCE)).result)
        said = await log(store, number)
        assert [said.count(word) for word in ("started", "counting", "careful")] == [1, 1, 1]
        [failing], [hopeless] = (
            await worker.enqueue("fail_first", sign=again),
            await worker.enqueue("give_up"),
        )
        assert (await worker.ended(failing, within=PATIENCE)).result == "2"
        assert "there is no point" in (await worker.ended(hopeless, within=PATIENCE)).reason
        [long] = await worker.enqueue("run_long", sign=late)
        assert "ran longer than 5s" in (await worker.ended(long, within=PATIENCE)).reason
    assert is_up(f"{late}.asked")  # it was asked, refused, and was killed
    assert containers() == []


@pytest.mark.thorough("containers take seconds to start")
async def test_the_next_worker_finds_the_container_and_a_cancel_ends_it(
    engine: Container, store: Store, tmp_path: Path
) -> None:
    sign, other = str(tmp_path / "sign"), str(tmp_path / "other")
    async with at_work(store, *on(engine, "hold")) as worker:
        [number], [cancelled] = (
            await worker.enqueue("hold", sign=sign),
            await worker.enqueue("hold", sign=other),
        )
        await until(lambda: bool(heavy.runs(sign) and heavy.runs(other)), within=PATIENCE)
        assert len(containers()) == 2
        await store.jobs.cancel(cancelled, reason="not needed")
        await worker.ended(cancelled, within=PATIENCE)
        [running] = containers()
        await worker.leave(cold=True)
    assert containers() == [running]
    async with at_work(store, *on(engine, "hold")) as worker:
        heavy.let_go(sign)
        assert (await worker.ended(number, within=PATIENCE)).result == '"held"'
    assert len(heavy.runs(sign)) == 1
    assert "found again" in await log(store, number)


@pytest.mark.thorough("containers take seconds to start")
async def test_a_container_that_is_killed_or_removed_fails_the_try(
    engine: Container, store: Store, tmp_path: Path
) -> None:
    signs = [str(tmp_path / name) for name in ("killed", "removed")]
    [hold] = on(engine, "hold")
    async with at_work(store, replace(hold, retry=heavy.run_long.definition.retry)) as worker:
        for sign, verb, told in (
            (signs[0], "kill", "ended with 137 and left no report"),
            (signs[1], "rm", "was removed, and not by duly"),
        ):
            [number] = await worker.enqueue("hold", sign=sign)
            await until(lambda: bool(heavy.runs(sign)), within=PATIENCE)  # noqa: B023
            [name] = containers()
            podman(verb, *(["--force", "--time=0"] if verb == "rm" else []), name)
            assert told in (await worker.ended(number, within=PATIENCE)).reason


async def test_a_container_engine_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(EngineUnavailable, match="no-such-program cannot be started"):
        await run_remote(Container(IMAGE, program="no-such-program"), job_for_engine())


@pytest.mark.parametrize(
    "said",
    [
        "error during connect: dial tcp: lookup build: no such host",
        "unable to connect to Podman socket: connect: no such file or directory",
    ],
)
async def test_a_container_engine_that_cannot_be_reached_is_unavailable(
    said: str, tmp_path: Path
) -> None:
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    engine = Container(IMAGE, program=str(program))
    with pytest.raises(EngineUnavailable, match="ps failed"):
        await run_remote(engine, job_for_engine())
    with pytest.raises(EngineUnavailable, match="stop failed"):
        await engine.end("duly-7", timedelta(seconds=10))


@pytest.mark.thorough("a container engine takes seconds")
async def test_an_image_that_is_not_there_fails_the_try(engine: Container) -> None:
    missing = Container("localhost/none", program="podman", options=["--pull=never"])
    with pytest.raises(ContainerRefused, match="localhost/none"):
        await run_remote(missing, job_for_engine())
