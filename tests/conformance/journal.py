"""What jobs say while they run is kept for those who ask, and only while they run."""

from datetime import timedelta
from typing import Any

from duly.instants import to_us
from duly.model.job import StoredJob
from duly.model.journal import (
    LONGEST_LINE,
    MOST_LINES,
    MOST_TEXT,
    LogEntry,
    LogLine,
    ProgressEntry,
    ProgressNote,
)
from duly.model.outcome import Raised
from duly.model.payload import encode
from duly.policy.retry import Retry
from duly.store.maintenance import Retention
from duly.store.store import SqlStore
from tests.conformance.expect import Broken, equal, holds
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, World
from tests.factories import call

DAY = timedelta(days=1)
RETRY = Retry(attempts=2, backoff="constant", first="1m", jitter=False).as_json()


def line(world: World, job: StoredJob, text: str, **changes: Any) -> LogEntry:
    said = {"at_us": to_us(world.now), "level": "INFO", "text": text, **changes}
    return LogEntry(job_id=job.id, fence=job.fence, attempt=job.attempt, **said)


def note(job: StoredJob, percent: float, message: str = "", **changes: Any) -> ProgressEntry:
    said = {"percent": percent, "message": message, **changes}
    return ProgressEntry(job_id=job.id, fence=job.fence, attempt=job.attempt, **said)


async def texts(world: World, job: StoredJob) -> list[str]:
    return [line.text for line in await world.store.journal.logs(job.id, limit=20_000)]


async def begun(world: World, count: int = 1, **changes: Any) -> list[StoredJob]:
    await world.store.jobs.enqueue([call(**changes) for _ in range(count)])
    return await world.claim(count)


@check
async def lines_are_read_as_they_were_said(world: World) -> None:
    first, second = await begun(world, 2)
    at = world.now - timedelta(microseconds=7)
    await world.store.journal.write(
        [
            line(world, first, "one", level="DEBUG", at_us=to_us(at)),
            line(world, second, "another's"),
            line(world, first, "two \0 \ud800 ü 🎉\n\ttail", level="ERROR"),
        ]
    )
    equal(
        await world.store.journal.logs(first.id),
        [
            LogLine(seq=1, at=at, level="DEBUG", text="one", attempt=1),
            LogLine(seq=2, at=world.now, level="ERROR",
                    text="two \ufffd \ufffd ü 🎉\n\ttail", attempt=1),
        ],
    )  # fmt: skip
    equal(await texts(world, second), ["another's"])
    equal(await world.store.journal.logs(0), [])


@check
async def a_backslash_in_a_line_keeps_no_later_line_out(world: World) -> None:
    [job] = await begun(world)
    said = ["C:\\temp", "\\x41", '{"a": "\\"b"}', "\\d+ and \\\\", "the last"]
    for text in said:
        await world.store.journal.write([line(world, job, text)])
    equal(await texts(world, job), said, "lines")


@check
async def lines_are_read_from_where_the_reader_is(world: World) -> None:
    [job] = await begun(world)
    await world.store.journal.write([line(world, job, str(n)) for n in range(1, 6)])
    page = await world.store.journal.logs(job.id, after=2, limit=2)
    equal([(one.seq, one.text) for one in page], [(3, "3"), (4, "4")])
    await world.store.journal.write([line(world, job, "6")])
    equal([one.text for one in await world.store.journal.logs(job.id, after=4)], ["5", "6"])


@check
async def the_numbers_of_lines_go_on_through_all_attempts(world: World) -> None:
    [job] = await begun(world, retry=RETRY)
    await world.store.journal.write([line(world, job, "a"), line(world, job, "b")])
    await world.end(job, Raised("Oops"))
    world.wait(MINUTE)
    await world.dispatch()
    again = await world.begin()
    await world.store.journal.write([line(world, again, "c")])
    found = await world.store.journal.logs(job.id)
    equal([(one.seq, one.attempt, one.text) for one in found],
          [(1, 1, "a"), (2, 1, "b"), (3, 2, "c")])  # fmt: skip


@check
async def who_lost_the_job_is_not_listened_to(world: World) -> None:
    lost, other = await begun(world, 2)
    await world.lose(lost)
    [again] = await world.claim(1)
    equal(again.id, lost.id)
    await world.store.journal.write(
        [
            line(world, lost, "zombie"),
            note(lost, 99, "zombie"),
            line(world, again, "mine"),
            note(again, 1, "mine"),
            line(world, other, "lost, too"),
        ]
    )
    equal(await texts(world, lost), ["mine"])
    equal((await noted(world, lost)).message, "mine")
    equal(await texts(world, other), [])


@check
async def nothing_is_said_after_the_end(world: World) -> None:
    [job] = await begun(world)
    await world.store.journal.write([line(world, job, "before")])
    await world.end(job)
    await world.store.journal.write([line(world, job, "after"), note(job, 100)])
    equal(await texts(world, job), ["before"], "what was said stays")
    equal(await world.store.journal.note(job.id), None)


@check
async def the_last_note_counts(world: World) -> None:
    first, second = await begun(world, 2)
    equal(await world.store.journal.note(first.id), None)
    meta = encode({"file": "a.csv"})
    await world.store.journal.write(
        [note(first, 10, "read"), note(second, 55.5), note(first, 20, "sorted", meta=meta)]
    )
    equal(
        await world.store.journal.note(first.id),
        ProgressNote(percent=20.0, message="sorted", meta=meta, at=world.now, attempt=1),
    )
    world.wait(MINUTE)
    await world.store.journal.write([note(first, 30)])
    equal(
        await world.store.journal.note(first.id),
        ProgressNote(percent=30.0, message="", meta=None, at=world.now, attempt=1),
    )
    equal((await noted(world, second)).percent, 55.5)
    await world.end(first)
    equal((await noted(world, first)).percent, 30.0, "it stays when the job has ended")


@check
async def a_job_says_so_many_lines_and_no_more(world: World) -> None:
    [job] = await begun(world)
    said = [line(world, job, str(n)) for n in range(1, MOST_LINES + 3)]
    await world.store.journal.write(said[: MOST_LINES - 2])
    equal(len(await texts(world, job)), MOST_LINES - 2)
    await world.store.journal.write(said[MOST_LINES - 2 :])
    await world.store.journal.write([line(world, job, "more")])
    kept = await texts(world, job)
    equal(len(kept), MOST_LINES)
    equal(kept[-2], str(MOST_LINES - 1))
    holds("ends here" in kept[-1], "the last line says that it is the last")


@check
async def a_job_says_so_much_text_and_no_more(world: World) -> None:
    long, short = await begun(world, 2)
    page = "ü" * (LONGEST_LINE // 2)
    for _ in range(3):
        await world.store.journal.write([line(world, long, page) for _ in range(25)])
    await world.store.journal.write([line(world, long, "tiny"), line(world, short, "tiny")])
    kept = await texts(world, long)
    size = sum(len(text.encode()) for text in kept)
    holds(MOST_TEXT * 0.9 < size <= MOST_TEXT, f"{size} bytes are kept")
    holds("ends here" in kept[-1], "the last line says that it is the last")
    equal(sum("ends here" in text for text in kept), 1)
    equal(await texts(world, short), ["tiny"])


@check
async def a_write_whose_answer_was_lost_is_there_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    node = World(SqlStore(losing), world.clock)
    [job] = await begun(world)
    await world.store.journal.write([line(world, job, "first")])
    losing.lose("keep_lines", times=2)
    await node.store.journal.write([line(world, job, "a"), line(world, job, "b"), note(job, 5)])
    equal(losing.lost, 2)
    await node.store.journal.write([line(world, job, "c")])
    equal(await texts(world, job), ["first", "a", "b", "c"])


@check
async def who_reads_along_is_told(world: World) -> None:
    heard = world.listen()
    jobs = await begun(world, 11)
    heard.clear()
    await world.store.journal.write([line(world, jobs[0], "a"), note(jobs[1], 1)])
    equal([topic for topic in heard if topic.startswith("log:")],
          [f"log:{job.id}" for job in sorted(jobs[:2], key=lambda job: job.id)])  # fmt: skip
    heard.clear()
    await world.store.journal.write([line(world, job, "at once") for job in jobs])
    equal([topic for topic in heard if topic.startswith("log:")], [], "of many nobody is told")


@check
async def what_was_said_is_kept_as_long_as_the_history(world: World) -> None:
    [job] = await begun(world)
    retention = Retention(history=2 * DAY, failed=6 * DAY)
    await world.store.journal.write([line(world, job, "old"), note(job, 1)])
    world.wait(DAY)
    await world.store.journal.write([line(world, job, "young")])
    world.wait(DAY + MINUTE)
    await world.store.maintenance.prune(retention, limit=100)
    equal(await texts(world, job), ["young"])
    equal(await world.store.journal.note(job.id), None)
    world.wait(DAY)
    await world.store.maintenance.prune(retention, limit=100)
    equal(await texts(world, job), [])


async def noted(world: World, job: StoredJob) -> ProgressNote:
    found = await world.store.journal.note(job.id)
    if found is None:
        raise Broken(f"job {job.id} has no note")
    return found
