"""Wherever the command writes: a terminal with few letters, a full disk, a reader that is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_why import prepared
from tests.conformance.world import World
from tests.factories import plan

DULY = [sys.executable, "-m", "duly"]
again = pytest.mark.thorough("repeats with another command")
ASKING = [
    ["status"],
    ["--help"],
    pytest.param(["schedules"], marks=again),
    pytest.param(["jobs", "-o", "json"], marks=again),
    pytest.param(["next", "every 10s"], marks=again),
]
LATIN = {"PYTHONIOENCODING": "latin-1"}
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepared(tmp_path / "duly.db", _scheduled)


async def _scheduled(world: World) -> None:
    await world.add(plan("report", "every 1000h"))


@pytest.mark.parametrize("variables", [LATIN, ASCII], ids=["latin-1", "ascii"])
@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_letters_that_a_terminal_does_not_know_are_replaced(
    words: list[str], variables: dict[str, str]
) -> None:
    done = subprocess.run(
        [*DULY, *words], env={**os.environ, **variables}, capture_output=True, check=False
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr.decode()
    if words == ["status"] and variables == LATIN:
        assert done.stdout.startswith(b"? All OK: ")


@pytest.mark.parametrize(
    "words", [*ASKING, ["db", "migrate"], ["doctor"], ["config"]], ids=" ".join
)
def test_no_file_is_read_in_the_encoding_of_the_machine(words: list[str]) -> None:
    strict = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    done = subprocess.run(
        [*strict, "-m", "duly", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "EncodingWarning" in done.stderr) == (0, False), done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_full_disk_is_said_in_a_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*DULY, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said == "Error: the output cannot be written: No space left on device"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    "words", [*ASKING, ["status", "--watch"], ["schedules", "--watch", "-o", "json"]], ids=" ".join
)
def test_who_has_seen_enough_is_not_told_of_it(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*DULY, *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(writing)
    talk = [line for line in done.stderr.splitlines() if not line.startswith("database: ")]
    assert talk == []


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_without_any_output_a_command_does_what_it_does(words: list[str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *DULY, *words],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
