"""What tests of examples ask for."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.registry.app_loading import find
from tests.app.fixtures import furnished, postgres_url, programs
from tests.docs.situations import EXAMPLES, Open, Situation

__all__ = ["furnished", "postgres_url", "programs", "situation"]


@pytest.fixture
def situation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Imports an example as the command does, with its store in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    opened: list[Situation] = []

    def open_situation(name: str) -> Situation:
        find(str(EXAMPLES / f"{name}.py"))
        opened.append(sys.modules.pop(name))
        return opened[-1]

    yield open_situation
    for module in opened:
        module.duly.close()
