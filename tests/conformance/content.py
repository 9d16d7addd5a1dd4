"""Hostile content is refused at the door with a typed error, or stored as it is."""

import json
import math

from duly.errors import InvalidValue, PayloadError
from duly.model.limit import Queue
from duly.model.outcome import Raised, Stopped, Succeeded
from duly.model.payload import LONGEST_ARGS, LONGEST_RESULT, Json, decode, encode
from duly.model.states import State
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import LEASE, MINUTE, World
from tests.factories import call, plan, profile

TEXTS = (
    "",
    " ",
    "null",
    "0",
    "1e5",
    "true",
    "[]",
    "{}",
    '"',
    "'",
    "''; drop table duly_job; --",
    "\\",
    "\\u0000",
    "\\ud800",
    "%s %(x)s :now $1 ? {job}",
    "\t\n\r\x01\x1f\x7f\x80",
    "\u2028\u2029\ufeff\ufffd\uffff",
    "é e\u0301 ß İ ı",
    "مرحبا \u202e עברית",
    "日本語 🕰️ 👩‍👩‍👧",
    "\U0010ffff",
    "x" * 500,
)
VALUES: tuple[object, ...] = (
    *TEXTS,
    None,
    True,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    0.1,
    -0.0,
    1.7976931348623157e308,
    5e-324,
    1.0,
    [],
    {},
    {"": {"": [None]}},
    {text: text for text in TEXTS},
    [[["x"] * 50] * 50],
    "x" * (LONGEST_ARGS - 2),
)
UNSTORABLE = ("\0", "a\0b", "\ud800", "\udfff", "a\udc80b")


def _nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


@check
async def every_value_that_is_json_comes_back_as_it_was(world: World) -> None:
    values = [*VALUES, _nested(64)]
    numbers = await world.store.jobs.enqueue([call(args=encode(value)) for value in values])
    for value, job in zip(values, await world.claim(len(values)), strict=True):
        _same(decode(job.args), value)
        await world.end(job, Succeeded(encode(value)))
    for value, number in zip(values, numbers, strict=True):
        job = await world.job(number)
        _same(decode(job.args), value)
        _same(decode(job.result or Json("")), value)


@check
async def every_text_can_be_a_name_a_key_and_a_label(world: World) -> None:
    texts = [text for text in TEXTS if text]
    await world.add(*(plan(text, task=text, queue=text, title=text, tags=(text[:100],) * 2,
                           tenant=text, submitter=text) for text in texts))  # fmt: skip
    world.wait(MINUTE)
    equal((await world.fire()).jobs, len(texts))
    for text in texts:
        equal((await world.schedule(text)).plan.title, text)
        [job] = await world.claim(10, queue=text, tasks=[text])
        equal((job.task, job.queue, job.title, job.tags, job.tenant, job.submitter),
              (text, text, text, (text[:100],) * 2, text, text))  # fmt: skip
        number = await world.enqueue(call(text, key=text, queue=text))
        equal(await world.enqueue(call(text, key=text, queue=text, if_exists="keep")), number)
        holds(await world.store.jobs.cancel_key(text, text, reason=text), "found by its key")


@check
async def every_text_can_be_a_reason_a_note_and_an_error(world: World) -> None:
    await world.add(plan())
    for text in ("", "null", "'", "".join(TEXTS[:-1])):
        paused = await world.by(text).schedules.pause("report", note=text)
        equal(paused.pause and (paused.pause.by, paused.pause.note), (text, text))
        await world.by(text).schedules.resume("report")
        await world.store.work.set_queue(Queue(name=text or "empty", note=text))
        number = await world.enqueue(call(key="k"))
        await world.store.jobs.cancel(number, reason=text)
        holds(text in (await world.job(number)).reason, f"the reason {text!r}")
        number = await world.enqueue(call())
        await world.end(await world.begin(), Raised("Oops", text))
        equal((await world.job(number)).error, f"Oops: {text}" if text else "Oops")
        await world.by(text).jobs.retry(number)
        await world.end(await world.begin(), Stopped(text))
        equal((await world.job(number)).state, State.CANCELLED)


@check
async def what_no_database_can_hold_is_refused_at_the_door(world: World) -> None:
    for text in UNSTORABLE:
        for field in ("task", "queue", "tenant", "submitter", "title", "key"):
            with refused(PayloadError):
                await world.enqueue(call(**{field: text}))
        with refused(PayloadError):
            call(tags=(text,))
        with refused(PayloadError):
            encode({text: 1})
        with refused(PayloadError):
            plan(text)
    for value in (math.nan, math.inf, [-math.inf], 2**63, _nested(65), {1: 2}, b"x", object()):
        with refused(PayloadError):
            encode(value)
    with refused(PayloadError):
        decode(Json("1e400"))
    with refused(PayloadError, "store large values elsewhere"):
        encode("x" * 50_000_000)
    equal(await world.live(), [])


@check
async def words_of_people_that_no_database_can_hold_are_refused_with_a_typed_error(
    world: World,
) -> None:
    await world.add(plan())
    schedules, jobs, work = world.store.schedules, world.store.jobs, world.store.work
    number = await world.enqueue(call())
    for text in UNSTORABLE:
        for attempt in (
            lambda text=text: world.by(text).schedules.pause("report"),
            lambda text=text: schedules.pause("report", note=text),
            lambda text=text: world.by(text).schedules.skip_next("report"),
            lambda text=text: world.by(text).schedules.run("report"),
            lambda text=text: world.by(text).schedules.remove("report"),
            lambda text=text: jobs.cancel(number, reason=text),
            lambda text=text: work.register(profile(text), lease=LEASE),
        ):
            with refused(InvalidValue):
                await attempt()
        with refused(InvalidValue):
            Queue(name=text)
        with refused(InvalidValue):
            Queue(name="q", note=text)
    equal((await world.schedule()).pause, None)
    equal((await world.job(number)).state, State.READY)
    equal(len(await world.fires()), 0)


@check
async def what_is_asked_for_by_an_impossible_name_is_refused_with_a_typed_error(
    world: World,
) -> None:
    for text in UNSTORABLE:
        with refused(InvalidValue):
            await world.schedule(text)
        with refused(InvalidValue):
            await world.store.schedules.pause(text)
        with refused(InvalidValue):
            await world.store.jobs.cancel_key("work", text)


@check
async def an_error_that_no_database_can_hold_ends_its_job_all_the_same(world: World) -> None:
    for text in UNSTORABLE:
        number = await world.enqueue(call())
        running = await world.begin()
        await world.end(running, Raised(f"E{text}", text, traceback=text * 100_000))
        job = await world.job(number)
        holds(job.state is State.FAILED and "\ufffd" in (job.error or ""), "it says so")


@check
async def large_values_are_stored_up_to_the_limit(world: World) -> None:
    number = await world.enqueue(call(args=encode("é" * (LONGEST_ARGS // 2 - 1))))
    running = await world.begin()
    result = encode("x" * (LONGEST_RESULT - 2), what="result", longest=LONGEST_RESULT)
    await world.end(running, Succeeded(result))
    job = await world.job(number)
    equal((len(job.args.encode()), job.result == result), (LONGEST_ARGS, True))


def _same(found: object, value: object) -> None:
    equal(json.dumps(found), json.dumps(value), "a value")
