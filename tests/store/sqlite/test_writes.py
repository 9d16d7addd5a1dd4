"""Operations on one SQLite file: together in a commit, apart in failure, whole in every view."""

import asyncio
import sqlite3
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.instants import to_us
from duly.store.database import Ask, Operation
from duly.store.sqlite.database import SqliteDatabase
from tests.store.sqlite.ledger import STATEMENTS, Gate, ask, insert, opened, words

SHORT = timedelta(milliseconds=300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.sqlite3"


async def test_what_was_written_is_there_when_the_file_is_opened_again(path: Path) -> None:
    async with opened(path) as database:
        assert await database.write(insert("one", "two")) == 2
    async with opened(path) as database:
        assert await database.read(words) == ["one", "two"]


async def test_a_database_can_be_opened_again_after_it_was_closed(path: Path) -> None:
    async with opened(path) as database:
        await database.write(insert("one"))
        await database.close()
        await database.close()
        with pytest.raises(StoreUnavailable, match="is not open"):
            await database.write(insert("two"))
        await database.open()
        assert await database.read(words) == ["one"]


async def test_of_two_operations_in_one_commit_only_the_one_that_fails_is_undone(
    path: Path,
) -> None:
    async with opened(path) as database:
        before, gate = commits(path), Gate()
        first = asyncio.create_task(database.write(insert("first", gate=gate)))
        await gate.reached()
        behind = asyncio.gather(
            database.write(insert("good")),
            database.write(insert("undone", "first")),
            database.write(insert("also good")),
            return_exceptions=True,
        )
        gate.open()
        _, (good, failed, also_good) = await asyncio.gather(first, behind)
        assert (good, also_good) == (1, 1)
        assert isinstance(failed, sqlite3.IntegrityError)
        assert await database.read(words) == ["first", "good", "also good"]
        assert commits(path) == before + 2


async def test_what_was_asked_during_a_commit_is_in_the_next_one(path: Path) -> None:
    async with opened(path) as database:
        before, gate = commits(path), Gate()
        first = asyncio.create_task(database.write(insert("first", gate=gate)))
        await gate.reached()
        others = [asyncio.create_task(database.write(insert(f"{n}"))) for n in range(300)]
        gate.open()
        await asyncio.gather(first, *others)
        assert await database.read(words) == ["first", *(f"{n}" for n in range(300))]
        assert commits(path) == before + 3  # for no commit has more than 256


def commits(path: Path) -> int:
    """How many commits there are in the log: frames that say how large the file is after them."""
    log = Path(f"{path}-wal").read_bytes()
    (page,) = struct.unpack(">I", log[8:12])
    frames = [log[at : at + 24] for at in range(32, len(log), 24 + page)]
    salt = log[16:24]
    return sum(frame[8:16] == salt and frame[4:8] != bytes(4) for frame in frames)


async def test_an_error_of_the_operation_comes_out_as_it_is(path: Path) -> None:
    def mistaken() -> Operation[None]:
        yield Ask("insert", {"word": "never", "number": 0})
        raise LookupError("its own")

    async with opened(path) as database:
        with pytest.raises(LookupError, match="its own"):
            await database.write(mistaken)
        with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
            await database.write(ask("broken"))
        assert await database.read(words) == []


@pytest.mark.parametrize("place", ["file", ":memory:"])
async def test_an_operation_that_reads_cannot_write(path: Path, place: str) -> None:
    async with opened(path if place == "file" else place) as database:
        with pytest.raises(StoreUnavailable, match="readonly"):
            await database.read(insert("never"))
        assert await database.write(insert("one")) == 1
        assert await database.read(words) == ["one"]


async def test_a_read_never_sees_half_a_write(path: Path) -> None:
    async with opened(path) as database:
        gate = Gate()
        writing = asyncio.create_task(database.write(insert("one", "two", gate=gate)))
        await gate.reached()
        assert await database.read(words) == []
        gate.open()
        await writing
        assert await database.read(words) == ["one", "two"]


async def test_a_read_of_two_statements_sees_one_moment(path: Path) -> None:
    async with opened(path) as database:
        gate = Gate()

        def twice() -> Operation[bool]:
            before = yield Ask("rows")
            gate.pass_through()
            return before == (yield Ask("rows"))

        reading = asyncio.create_task(database.read(twice))
        await gate.reached()
        await database.write(insert("meanwhile"))
        gate.open()
        assert await reading
        assert await database.read(words) == ["meanwhile"]


async def test_every_statement_of_an_operation_has_the_same_moment(path: Path) -> None:
    moments = iter(datetime(2030, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(10))
    async with opened(path, clock=lambda: next(moments)) as database:
        await database.write(insert("one", "two", "three"))
        at = await database.read(ask("moments"))
        assert at == [(to_us(datetime(2030, 1, 2, tzinfo=UTC)),)]  # the first was the migration's


async def test_a_list_arrives_as_json(path: Path) -> None:
    async with opened(path) as database:
        await database.write(ask("insert_all", words=["a", "ü", '"']))
        assert await database.read(words) == ["a", "ü", '"']


async def test_a_full_disk_costs_only_who_needs_more_of_it(path: Path) -> None:
    async with opened(path) as database:
        await database.write(ask("at_most_pages"))
        gate = Gate()
        first = asyncio.create_task(database.write(insert("first", gate=gate)))
        await gate.reached()
        behind = asyncio.gather(
            database.write(insert("small")),
            database.write(ask("insert_large", size=1_000_000)),
            database.write(insert("small too")),
            return_exceptions=True,
        )
        gate.open()
        _, (small, large, small_too) = await asyncio.gather(first, behind)
        assert (small, small_too) == (1, 1)
        assert type(large) is StoreUnavailable
        assert "full" in str(large)
        await database.write(insert("and after"))
        assert await database.read(words) == ["first", "small", "small too", "and after"]


async def test_past_the_deadline_the_outcome_is_unknown_only_of_what_was_begun(path: Path) -> None:
    async with opened(path, deadline=SHORT) as database:
        gate = Gate()
        begun = asyncio.create_task(database.write(insert("begun", gate=gate)))
        await gate.reached()
        with pytest.raises(StoreUnavailable, match="nothing was done") as refusal:
            await database.write(insert("never"))
        assert not isinstance(refusal.value, OutcomeUnknown)
        with pytest.raises(OutcomeUnknown, match=r"no answer from the SQLite writer in 0\.3 s"):
            await begun
        gate.open()
        await database.write(insert("later"))
        assert await database.read(words) == ["begun", "later"]


async def test_what_a_caller_gave_up_before_it_was_begun_is_not_done(path: Path) -> None:
    async with opened(path) as database:
        gate = Gate()
        begun = asyncio.create_task(database.write(insert("begun", gate=gate)))
        await gate.reached()
        given_up = asyncio.create_task(database.write(insert("given up")))
        waits = asyncio.create_task(database.write(insert("waits")))
        asyncio.get_running_loop().call_soon(given_up.cancel)
        with pytest.raises(asyncio.CancelledError):
            await given_up
        gate.open()
        await asyncio.gather(begun, waits)
        assert await database.read(words) == ["begun", "waits"]


async def test_closing_finishes_what_was_asked(path: Path) -> None:
    async with opened(path) as database:
        gate = Gate()
        begun = asyncio.create_task(database.write(insert("begun", gate=gate)))
        await gate.reached()
        asked = asyncio.create_task(database.write(insert("asked")))
        closing = asyncio.create_task(database.close())
        gate.open()
        await closing
        assert (begun.result(), asked.result()) == (1, 1)
    async with opened(path) as database:
        assert await database.read(words) == ["begun", "asked"]


async def test_nobody_else_sees_a_database_in_memory() -> None:
    async with opened(":memory:") as one, opened(":memory:") as other:
        await one.write(insert("mine"))
        one.nudge(["jobs"])
        assert await one.read(words) == ["mine"]
        assert await other.read(words) == []


async def test_asking_for_a_store_that_is_not_there_does_not_make_one(path: Path) -> None:
    database = SqliteDatabase(path, statements=STATEMENTS, create=False)
    with pytest.raises(StoreUnavailable, match=f"no database at {path}"):
        await database.open()
    assert list(path.parent.iterdir()) == []
    async with opened(path) as made:
        await made.write(insert("one"))
    async with opened(path, create=False) as found:
        assert await found.read(words) == ["one"]


def test_a_file_that_is_not_a_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("Dear diary, " * 100)
    with pytest.raises(StoreUnavailable, match="not a database") as refused:
        asyncio.run(SqliteDatabase(path, statements=STATEMENTS).open())
    assert path.read_text() == "Dear diary, " * 100
    assert refused.value.__cause__ is not None  # its traceback keeps the connection alive
    assert path not in {link.resolve() for link in Path("/proc/self/fd").iterdir()}


def test_a_database_is_not_used_on_another_loop_than_its_own(path: Path) -> None:
    async def use(database: SqliteDatabase) -> None:
        await database.write(insert("never"))

    with asyncio.Runner() as its_own, asyncio.Runner() as another:
        database = SqliteDatabase(path, statements=STATEMENTS)
        its_own.run(database.open())
        with pytest.raises(RuntimeError, match="belongs to the event loop it was opened on"):
            another.run(use(database))
        its_own.run(database.close())
