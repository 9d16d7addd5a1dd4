"""Processes that a command starts: what others on the machine can read of them."""

from pathlib import Path

import pytest

from tests.cli.test_up import TASKS, said, started, stopped


@pytest.mark.parametrize("command", ["worker --processes 2", "dev"])
def test_the_store_that_was_typed_is_not_typed_for_them(tmp_path: Path, command: str) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "duly.toml").write_text('url = "other.db"')
    typed = str(tmp_path / "hunter2.db")
    with started(tmp_path, *command.split(), "--store", typed, "--queues", "default,x") as process:
        said(tmp_path, "is number")  # it has opened its store
        lines = [line for line in commands() if str(process.pid) in line[:2] and "duly" in line]
        children = [line for pid, parent, *line in lines if parent == str(process.pid)]
        assert children
        for line in children:
            assert "default,x" in line
            assert not any("hunter2" in word for word in line)
        assert stopped(process) == 0
    assert f"store: {typed}" in (tmp_path / "log").read_text()
    assert not (tmp_path / "other.db").exists()


def commands() -> list[list[str]]:
    """Number, parent's number, and the words of every process that is there."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = (place / "stat").read_text().rpartition(")")[2].split()[1]
            words = (place / "cmdline").read_text().split("\0")
        except OSError:  # it has ended
            continue
        found.append([place.name, parent, *words])
    return found
