"""Whoever has duly installed has its fixture, and pays nothing for it until it is used."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PLUGIN = "duly.testing.pytest_plugin"
TESTS = """
import pytest
from duly import Duly

duly = Duly("real.db")

@duly.schedule("every 1h")
@duly.task
def hourly() -> str:
    return "done"

@pytest.mark.parametrize("again", range(2))
def test_an_hour(duly_sandbox, again):
    box = duly_sandbox(duly, now="2027-01-03T23:00+01:00")
    assert len(box.travel("1h")) == 1
    [job] = box.run()
    assert job.result() == "done"

def test_the_app_is_left_alone():
    assert duly.url.endswith("real.db")

def test_what_fails_leaves_no_sandbox_open(duly_sandbox):
    duly_sandbox(duly, now="2027-01-03T23:00+01:00").assert_enqueued(hourly)
"""


def test_a_test_asks_for_a_sandbox_and_it_is_over_with_the_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-p", PLUGIN, "-W", "error", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(["*hourly was not enqueued; nothing was*"])
    assert list(pytester.path.glob("real.db*")) == []


def test_the_plugin_is_announced_and_imports_nothing_heavy() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"duly": PLUGIN}
    asked = f"import pytest, sys; import {PLUGIN}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    ).stdout.split()
    of_ours = [name for name in loaded if name.startswith("duly.")]
    assert sorted(of_ours) == ["duly.errors", "duly.testing", PLUGIN, "duly.version"]
    assert not {"asyncio", "msgspec", "sqlite3"} & set(loaded)
