"""Jobs of shell lines: called by their schedule, and what fails is the command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.cli import main

SHEET = """
[schedules.backup]
rule = "every 1s"
shell = "echo no space left >&2; exit 3"

[schedules.gone]
rule = "every 1s"
shell = "/no/such/program"
"""


def duly(*words: str) -> str:
    return CliRunner().invoke(main, list(words)).stdout


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a real ``duly up`` says until both lines have failed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schedules.toml").write_text(SHEET)
    up = [sys.executable, "-m", "duly", "up", "schedules.toml", "--allow", "shell", "--no-web"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    heard: list[str] = []
    with subprocess.Popen(up, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        while not all(f" {name}: " in "".join(heard) for name in ("backup", "gone")):
            heard.append(process.stderr.readline())
            assert heard[-1], "".join(heard)
        process.terminate()
    return heard


def test_a_line_that_fails_is_told_under_its_schedules_name(log: list[str]) -> None:
    told = "".join(log)
    assert re.search(r"job \d+ backup: attempt 1 of \d failed: exit 3: no space left; ", told)
    assert " gone: failed for good: exit 127 (a command was not found): " in told
    assert "Traceback" not in told
    assert not re.search(r"job \d+ duly.shell", told)
    rows = duly("jobs", "-o", "json")
    assert '"title": "backup"' in rows
    assert '"title": "gone"' in rows
    [number] = duly("jobs", "state:failed", "schedule:gone", "-n", "1", "-o", "name").split()
    shown = duly("jobs", "show", number)
    assert shown.startswith(f"job {number} (gone) was due ")
    assert "Traceback" not in shown
    assert "Permanent" not in shown
    assert f"job {number} (gone) was due " in duly("why", number)
