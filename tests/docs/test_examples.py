"""Examples run as they are."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_two_schedulers_lose_and_double_nothing() -> None:
    said = run("two_schedulers.py")
    assert said.splitlines()[-1].endswith("nothing lost, nothing doubled")


def test_a_node_runs_and_ends_in_order(tmp_path: Path) -> None:
    store = str(tmp_path / "jobs.db")
    migrate = [sys.executable, "-m", "duly", "db", "migrate", "--store", store]
    subprocess.run(migrate, check=True, capture_output=True)
    assert run("node.py", store, "--seconds", "1").splitlines()[-1] == "healthy"


def test_every_example_is_tested_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"node.py", "two_schedulers.py"}


def run(name: str, *words: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
