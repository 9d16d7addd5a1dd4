"""A file that is deleted or replaced under a running process: nothing more is promised into it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from duly.app import connect, migrate_store
from duly.errors import StoreUnavailable
from tests.factories import call


def deleted(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replaced(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    copy.replace(path)


def without_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (deleted, "duly.db was deleted or moved"),
        (moved, "duly.db was deleted or moved"),
        (replaced, "duly.db was replaced by another file"),
        (without_log, "duly.db-wal was deleted or moved"),
    ],
)
async def test_nothing_is_promised_into_a_file_without_a_name(
    tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "duly.db"
    await migrate_store(str(path))
    store = connect(str(path), create=False)
    await store.open()
    try:
        [before] = await store.jobs.enqueue([call("first")])
        change(path)
        with pytest.raises(StoreUnavailable, match=said):
            await store.jobs.enqueue([call("second")])
        if change is not without_log:
            with pytest.raises(StoreUnavailable, match=said):
                await store.jobs.get(before)
    finally:
        await store.close()


async def test_a_file_that_is_put_back_is_written_again(tmp_path: Path) -> None:
    path, away = tmp_path / "duly.db", tmp_path / "away.db"
    await migrate_store(str(path))
    store = connect(str(path), create=False)
    await store.open()
    try:
        await store.jobs.enqueue([call("first")])
        path.rename(away)
        with pytest.raises(StoreUnavailable):
            await store.jobs.enqueue([call("second")])
        away.rename(path)
        await store.jobs.enqueue([call("third")])
        assert [job.task for job in await store.jobs.page()] == ["first", "third"]
    finally:
        await store.close()
