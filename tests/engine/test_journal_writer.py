"""What jobs say: all of it, in order, before their end; and it holds nobody up."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from duly.clock import sleep
from duly.engine.execution import Execution
from duly.engine.executors.process.frames import CapturedLine
from duly.engine.journal_writer import JournalWriter, LogCapture
from duly.errors import StoreUnavailable
from duly.events import EngineEvent
from duly.model.job import Claimed
from duly.model.journal import Entry, LogEntry
from duly.policy.retry import Retry
from duly.registry.context import Context, current, entered
from duly.registry.definition import define
from duly.store.store import Store
from tests.engine.workshop import Bench, Fault, Line, at_work, memory_store, raising, until

AT = 1_700_000_000_000_000


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


async def work() -> None:
    pass


async def claimed(store: Store) -> Claimed:
    [job] = await Bench(store, work).claimed("work")
    return job


async def texts(store: Store, number: int) -> list[str]:
    return [line.text for line in await store.journal.logs(number, limit=20_000)]


async def test_lines_are_written_together_and_in_order(store: Store) -> None:
    line = Line(store)
    journal, job = JournalWriter(line.store), await claimed(store)
    journal.lines(job, [CapturedLine(AT, "info", f"line {number}") for number in range(5)])
    assert journal.has_entries
    await journal.tick()
    assert await texts(store, job.id) == [f"line {number}" for number in range(5)]
    assert line.calls["journal.write"] == 1
    assert not journal.has_entries


async def test_all_that_was_said_is_written_and_not_only_a_batch(store: Store) -> None:
    journal, job = JournalWriter(store), await claimed(store)
    for number in range(2_500):
        journal.line(job, AT, level="info", text=f"{number}")
    await journal.write()
    assert await texts(store, job.id) == [f"{number}" for number in range(2_500)]


async def test_a_note_tells_how_far_a_job_is(store: Store) -> None:
    journal, job = JournalWriter(store), await claimed(store)
    journal.note(job, 10.0, message="begun", meta=None)
    journal.note(job, 60.0, message="most of it", meta=None)
    await journal.write()
    note = await store.journal.note(job.id)
    assert note is not None
    assert (note.percent, note.message) == (60.0, "most of it")


async def test_secrets_are_not_written_down(store: Store) -> None:
    journal, job = JournalWriter(store), await claimed(store)
    journal.line(job, AT, level="info", text="postgresql://me:hidden@host/db")
    await journal.write()
    assert "hidden" not in str(await texts(store, job.id))


async def test_what_could_not_be_written_is_written_later_in_its_order(store: Store) -> None:
    line = Line(store)
    journal, job = JournalWriter(line.store), await claimed(store)
    journal.line(job, AT, level="info", text="first")
    line.faults["journal.write"] = raising(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        await journal.tick()
    journal.line(job, AT, level="info", text="second")
    line.faults.clear()
    await journal.write()
    assert await texts(store, job.id) == ["first", "second"]


async def test_a_line_that_cannot_be_stored_is_dropped_alone(store: Store) -> None:
    line = Line(store)
    journal, job = JournalWriter(line.store), await claimed(store)

    async def picky(real: Fault, entries: Sequence[Entry]) -> None:
        if any(isinstance(entry, LogEntry) and entry.text == "bad" for entry in entries):
            raise ValueError("no such character")
        await real(entries)

    line.faults["journal.write"] = picky
    for text in ("good", "bad", "better"):
        journal.line(job, AT, level="info", text=text)
    await journal.write()
    assert await texts(store, job.id) == ["good", "better"]
    assert not journal.has_entries


async def test_words_that_are_being_written_are_waited_for(store: Store) -> None:
    line = Line(store)
    journal, job = JournalWriter(line.store), await claimed(store)
    go = asyncio.Event()

    async def slow(real: Fault, entries: Sequence[Entry]) -> None:
        await go.wait()
        await real(entries)

    line.faults["journal.write"] = slow
    journal.line(job, AT, level="info", text="a word")
    first = asyncio.create_task(journal.write())
    await until(lambda: line.calls["journal.write"] == 1)
    assert journal.has_entries
    second = asyncio.create_task(journal.write())
    await sleep(0.01)
    assert not second.done()
    go.set()
    await asyncio.gather(first, second)
    assert await texts(store, job.id) == ["a word"]


async def test_words_from_many_threads_are_all_there(store: Store) -> None:
    journal, job = JournalWriter(store), await claimed(store)

    def speak() -> None:
        for number in range(200):
            journal.line(job, AT, level="info", text=f"{number}")

    threads = [threading.Thread(target=speak) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await asyncio.gather(journal.write(), journal.write())
    await journal.write()
    found = await texts(store, job.id)
    assert sorted(found) == sorted([f"{number}" for number in range(200)] * 4)


async def test_the_last_words_of_a_job_that_ends_at_once_are_kept(store: Store) -> None:
    async def short() -> None:
        current().log.info("a word")
        current().progress(100, "done")

    def plain(context: Context) -> None:
        context.log.warning("a word")
        logging.getLogger("elsewhere").warning("another %s", "word")

    async def failing() -> None:
        current().log.info("a word")
        raise ValueError("oh")

    async def silent() -> None:
        current().log.debug("a word")

    tasks = (short, failing, silent, define(plain, takes_context=True))
    async with at_work(store, *tasks) as working:
        numbers = {name: await working.enqueue(name) for name in ("short", "plain", "silent")}
        for [number] in numbers.values():
            await working.ended(number)
        [failed] = await working.enqueue("failing")
        await working.over(failed)
    assert await texts(store, numbers["short"][0]) == ["duly.job.short: a word"]
    assert await texts(store, numbers["plain"][0]) == [
        "duly.job.plain: a word",
        "elsewhere: another word",
    ]
    assert await texts(store, failed) == ["duly.job.failing: a word"]
    assert await texts(store, numbers["silent"][0]) == []
    note = await store.journal.note(numbers["short"][0])
    assert note is not None
    assert (note.percent, note.message) == (100.0, "done")


async def test_no_word_is_lost_when_many_talk_and_end(store: Store) -> None:
    async def talk(count: int) -> None:
        for number in range(count):
            current().log.info("%s", number)
            await sleep(0)

    async with at_work(store, talk, concurrency=20) as working:
        numbers = await working.enqueue("talk", times=60, count=30)
        numbers += await working.enqueue("talk", times=1, count=3_000)
        for number in numbers:
            await working.ended(number)
    lengths = [len(await texts(store, number)) for number in numbers]
    assert lengths == [30] * 60 + [3_000]


async def test_a_store_that_takes_no_words_still_learns_the_end(store: Store) -> None:
    async def talk() -> None:
        current().log.info("a word")

    line = Line(store)
    line.faults["journal.write"] = raising(ValueError)
    async with at_work(line.store, talk) as working:
        [number] = await working.enqueue("talk")
        await working.ended(number)


async def test_arguments_that_do_not_fit_their_message_break_nothing(store: Store) -> None:
    journal, job = JournalWriter(store), await claimed(store)
    bench = Bench(store, work)
    run = Execution(job, bench.registry.get("work"), bench.runner, place="async")
    bench.runner.journal = journal
    with LogCapture() as ear, entered(Context(job, Retry(), run)):
        ear.made("me", logging.INFO, "me.py", 1, "%d of %d", ("one",), None)
    await journal.write()
    assert "do not fit" in (await texts(store, job.id))[0]


async def test_what_is_said_outside_of_jobs_is_nobodys(store: Store) -> None:
    journal = JournalWriter(store)
    with LogCapture():
        logging.getLogger("elsewhere").error("a word")
    assert not journal.has_entries


async def test_an_ear_is_gone_when_its_worker_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever was at work on a loop that is gone has left theirs behind.
    monkeypatch.setattr(LogCapture, "_workers", 0)
    monkeypatch.setattr(LogCapture, "_is_there", False)
    before, handlers = logging.LogRecord, list(logging.getLogger().handlers)
    monkeypatch.setattr(logging, "_logRecordFactory", before)
    async with at_work(store, work):
        assert logging.getLogRecordFactory() != before
        assert logging.getLogger().handlers == handlers  # or nobody would see any warning
    assert logging.getLogRecordFactory() == before


async def test_a_listener_that_fails_stops_nothing(store: Store) -> None:
    def broken(event: EngineEvent) -> None:
        raise RuntimeError(event)

    async with at_work(store, work, emit=broken) as working:
        [number] = await working.enqueue("work")
        await working.ended(number)
