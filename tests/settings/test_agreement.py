"""Settings say the same as the parts of duly that they are for."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

import duly
from duly.engine.worker import MOST_SLOTS, WorkerOptions
from duly.errors import InvalidValue
from duly.runtime.node import worker_options
from duly.settings import Settings, load
from duly.store.connect import connect
from duly.store.maintenance import Retention

SOURCE = Path(duly.__file__).parent
VARIABLE = re.compile(r"\bDULY_[A-Z_]+\b")


def test_the_defaults_are_those_of_the_parts() -> None:
    settings, worker = Settings(), WorkerOptions()
    assert (settings.queues, settings.concurrency) == (worker.queues, worker.concurrency)
    assert settings.lease == worker.lease
    assert Retention() == Retention(
        history=settings.keep_history, failed=settings.keep_failed, fires=settings.keep_fires
    )


def test_the_bounds_are_those_of_a_worker(tmp_path: Path) -> None:
    assert load({"concurrency": MOST_SLOTS}, {}, tmp_path).concurrency == MOST_SLOTS
    with pytest.raises(InvalidValue):
        load({"concurrency": MOST_SLOTS + 1}, {}, tmp_path)


def test_there_are_so_many_processes_and_no_more(tmp_path: Path) -> None:
    """The bound stands here too: one that is changed without thinking is noticed."""
    assert load({"processes": 256}, {}, tmp_path).processes == 256
    for wrong in (0, 257):
        with pytest.raises(InvalidValue, match="processes"):
            load({"processes": wrong}, {}, tmp_path)


@pytest.mark.parametrize("length", ["1.999s", "2s", "10m", "601s"])
def test_a_lease_is_what_a_worker_takes(tmp_path: Path, length: str) -> None:
    seconds = {"1.999s": 1.999, "2s": 2, "10m": 600, "601s": 601}[length]
    asked = timedelta(seconds=seconds)
    is_taken = _is_taken(lambda: load({"lease": length}, {}, tmp_path))
    assert is_taken == _is_taken(lambda: worker_options(dedicated=False, lease=asked))
    assert is_taken == _is_taken(lambda: WorkerOptions(lease=asked))
    assert is_taken == (2 <= seconds <= 600)


@pytest.mark.parametrize(
    "url", ["duly.db", "sqlite:///duly.db", "sqlite://x", "file:x", "mysql://x", "postgres:x"]
)
def test_a_store_is_what_can_be_connected(tmp_path: Path, url: str) -> None:
    assert _is_taken(lambda: load({"url": url}, {}, tmp_path)) == _is_taken(
        lambda: connect(url, create=False)
    )


def test_every_variable_that_duly_speaks_of_is_known(tmp_path: Path) -> None:
    """One that is no setting belongs into OTHERS of duly.settings.loading."""
    found = {
        name
        for path in SOURCE.rglob("*.py")
        for name in VARIABLE.findall(path.read_text())
        if not name.endswith("_")
    }
    assert found >= {"DULY_URL", "DULY_SUPERVISOR", "DULY_STORE_OF_COMMAND"}
    unknown = [name for name in sorted(found) if not _is_known(name, tmp_path)]
    assert unknown == []


def _is_known(name: str, here: Path) -> bool:
    try:
        load({}, {name: "x"}, here)
    except InvalidValue as error:
        return "no setting is called" not in str(error)
    return True


def _is_taken(work: object) -> bool:
    assert callable(work)
    try:
        work()
    except InvalidValue:
        return False
    return True
