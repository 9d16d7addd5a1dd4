"""systemd is told when a service is ready, that it is alive and that it stops."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.clock import boottime
from duly.runtime.running import notified
from tests.cli.test_up import TASKS, started, stopped

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))


class Manager:
    """The socket on which systemd hears a service."""

    def __init__(self, path: Path) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.bind(str(path))
        self._line.settimeout(20)

    def hear(self, fact: str) -> list[str]:
        """Return the facts up to the one that is waited for."""
        heard: list[str] = []
        end = boottime() + 20
        while fact not in heard:
            assert boottime() < end, heard
            heard += self._line.recv(4096).decode().splitlines()
        return heard

    def close(self) -> None:
        self._line.close()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    path = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    made = Manager(path)
    yield made
    made.close()


@pytest.mark.parametrize("words", ["up", "worker --processes 2"])
def test_a_service_is_ready_alive_and_stopping(
    words: str, manager: Manager, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    with started(tmp_path, *words.split()) as process:
        manager.hear("READY=1")
        manager.hear("WATCHDOG=1")
        manager.hear("WATCHDOG=1")
        assert stopped(process) == 0
    manager.hear("STOPPING=1")


async def test_a_service_that_waits_for_its_database_is_alive_but_not_ready(
    manager: Manager,
) -> None:
    is_open = asyncio.Event()
    async with notified(is_open):
        heard = await asyncio.to_thread(manager.hear, "WATCHDOG=1")
        assert heard == ["WATCHDOG=1"]
        is_open.set()
        await asyncio.to_thread(manager.hear, "READY=1")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_units_are_accepted_by_systemd(unit: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    program, user = shutil.which("true"), "root"  # those of the unit are not on this machine
    text = unit.read_text().replace("/srv/app/venv/bin/duly", str(program))
    copy = tmp_path / unit.name
    copy.write_text(text.replace("User=duly", f"User={user}"))
    done = subprocess.run(
        [verify, "verify", "--man=no", copy], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert complaints == []
    copy.write_text(text.replace("Type=notify", "Type=notified"))
    done = subprocess.run(
        [verify, "verify", "--man=no", copy], capture_output=True, text=True, check=False
    )
    assert any(unit.name in line for line in done.stderr.splitlines())  # it does complain
