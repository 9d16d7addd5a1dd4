"""What jobs log, where they run: told to who asks for it, and never as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_up import said, started, stopped

SHEET = r"""
[schedules.loud]
rule = "every 1s"
shell = "printf '\\033]0;pwned\\007 password=hunter2\\ntwo\\n\\033]0;again\\007\\n' >&2; exit 3"
"""

TASKS = r"""
import logging, signal, sys, threading
from duly import Duly

duly = Duly()

@duly.schedule("every 1s")
@duly.task(retry=None)
def loud() -> None:
    duly.current().log.warning("\x1b]0;pwned\x07 password=hunter2\ntwo")
    print("printed", flush=True)

if __name__ == "__main__":
    RUN
"""

BESIDE = """
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with duly.running():
        while not ended.wait(0.05):
            pass
"""


again = pytest.mark.thorough("repeats with another command")


@pytest.mark.parametrize("more", [("-v",), pytest.param(("--log-level", "debug"), marks=again)])
def test_who_wants_a_line_for_every_job_reads_it_as_text(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "loud.toml").write_text(SHEET)
    with started(tmp_path, "up", "loud.toml", "--allow", "shell", *more) as process:
        said(tmp_path, "exit 3")  # which says the last line, too
        assert stopped(process) == 0
    log = (tmp_path / "log").read_text()
    told = [line.split(" ", 2)[2] for line in log.splitlines() if line.startswith("job ")]
    assert "loud:  ]0;pwned  password=***" in told
    assert "loud: two" in told
    assert "hunter2" not in log
    assert not {"\x1b", "\x07"} & {*log}


@pytest.mark.parametrize(
    "command",
    [
        "up",
        "dev",
        *(pytest.param(one, marks=again) for one in ("worker --scheduler", "dev --no-reload")),
    ],
)
def test_nobody_else_is_told_but_what_is_printed_is_printed(tmp_path: Path, command: str) -> None:
    (tmp_path / "tasks.py").write_text(TASKS.replace("RUN", "pass"))
    with started(tmp_path, *command.split()) as process:
        said(tmp_path, "printed\n")
        assert stopped(process) == 0
    log = (tmp_path / "log").read_text()
    assert "pwned" not in log
    assert "two" not in log


def test_an_app_that_sets_up_logging_sees_it_there_and_once(tmp_path: Path) -> None:
    tasks = TASKS.replace(
        "duly = Duly()", 'duly = Duly()\nlogging.basicConfig(format="OWN %(msg)s")'
    )
    (tmp_path / "tasks.py").write_text(tasks.replace("RUN", "pass"))
    with started(tmp_path, "up", "-v") as process:
        said(tmp_path, "printed\n")
        assert stopped(process) == 0
    log = (tmp_path / "log").read_text()
    assert "OWN \x1b]0;pwned" in log
    assert "password=***" not in log


@pytest.mark.parametrize("verbose", [True, False])
def test_a_program_that_is_nothing_but_a_worker_is_as_quiet(tmp_path: Path, verbose: bool) -> None:
    log = told_by_program(tmp_path, "duly.run()", {"DULY_VERBOSE": "true"} if verbose else {})
    assert ("loud:  ]0;pwned  password=***" in log) is verbose
    assert ("loud: started, attempt 1" in log) is verbose
    assert "hunter2" not in log
    assert "\x1b" not in log


def test_beside_another_program_its_logging_is_as_it_was(tmp_path: Path) -> None:
    assert "\x1b]0;pwned\x07 password=hunter2" in told_by_program(tmp_path, BESIDE, {})


def told_by_program(folder: Path, run: str, more: dict[str, str]) -> str:
    (folder / "tasks.py").write_text(TASKS.replace("RUN", run))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "tasks.py"],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **more},
        )
        try:
            said(folder, "printed\n")
            assert stopped(process) == 0
        finally:
            process.kill()
            process.wait()
    return (folder / "log").read_text()
