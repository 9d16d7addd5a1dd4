"""Cases about pruning: what is old goes, while somebody makes it matter again."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeAlias

from duly.instants import to_us
from duly.model.terms import NO_TERMS, Terms
from duly.policy.firing import decide
from duly.store import backfill, maintenance, retries, rows, work
from duly.store.database import Ask, Operation, Row, Value, alone
from duly.store.transactions import Editor
from tests.factories import call, plan
from tests.interleaving.interleave import Explored, Order, Program, once
from tests.interleaving.stage import START
from tests.store.postgres.interleavings.actors import (
    FATAL,
    LONG,
    WORKER,
    Broken,
    Scene,
    cancel,
    claim,
    enqueue,
    expect,
    finish,
    numbers,
)
from tests.store.postgres.interleavings.job_cases import JOB, keyed

HOUR = timedelta(hours=1)
LATER = to_us(START + timedelta(days=1))  # before which everything here is old
EVENT = 500


def asked(statement: str, **values: Value) -> Operation[list[Row]]:
    return (yield Ask(statement, values))


async def put(scene: Scene, insert: str) -> None:
    await scene.stage.look(f"{insert} returning 1")


def pruner(statement: str, before: int = LATER) -> Callable[[], Program]:
    return once(lambda: maintenance.prune(statement, before, 10))


async def failed(scene: Scene, key: str | None = None, terms: Terms = NO_TERMS) -> None:
    await scene.worker()
    await scene.enqueue(JOB, keyed() if key else call(terms=terms))
    job = await scene.begin()
    await scene.stage.run(lambda: finish(job, outcome=FATAL))


def revive() -> Operation[list[int]]:
    return retries.revive([JOB], "ada")


def one_row(scene: Scene, table: str, where: str = "true") -> Callable[[Order], Awaitable[Broken]]:
    async def check(_: Order) -> Broken:
        found = await scene.column(f"select count(*) from duly.{table} where {where}")
        return expect(found == [1], f"{found} rows are left in {table}")

    return check


async def keys_and_a_call(scene: Scene) -> Explored:
    """A new job takes a key that an ended one left behind."""
    await put(scene, "insert into duly.job_key values ('work', 'k', 999)")
    return await scene.play(
        one_row(scene, "job_key", f"job_id = {JOB}"),
        pruner=once(lambda: maintenance.prune_keys(10)),
        person=once(lambda: enqueue((JOB, keyed()))),
    )


async def keys_and_a_retry(scene: Scene) -> Explored:
    """A failed job comes back, whose key was left behind."""
    await failed(scene, key="k")
    await put(scene, f"insert into duly.job_key values ('work', 'k', {JOB})")

    async def it_has_its_key(_: Order) -> Broken:
        key = await scene.column("select key from duly.job")
        holder = await scene.column("select job_id from duly.job_key")
        return expect((key, holder) == (["k"], [JOB]), f"its key is {key}, held by {holder}")

    return await scene.play(
        it_has_its_key,
        pruner=once(lambda: maintenance.prune_keys(10)),
        person=once(revive),
    )


async def signals_and_a_retry(scene: Scene) -> Explored:
    """A job is retried and told to end, and an old signal to it is still there."""
    await failed(scene)
    await put(scene, f"insert into duly.signal values ({JOB}, 'cancel', 'of old', 1)")

    def retries_and_cancels() -> Program:
        yield revive
        yield claim
        return (yield lambda: cancel(JOB))

    return await scene.play(
        one_row(scene, "signal"),
        most=200,
        pruner=pruner("old_signals", 2),
        person=retries_and_cancels,
    )


async def signals_a_retry_and_a_pruner_that_waits(scene: Scene) -> Explored:
    """The same while the pruner, which has looked already, waits for a row of another one."""
    await put(scene, "insert into duly.signal values (5, 'cancel', 'to another job', 1)")
    await failed(scene)
    await put(scene, f"insert into duly.signal values ({JOB}, 'cancel', 'of old', 1)")

    def retries_and_cancels() -> Program:
        yield revive
        yield claim
        return (yield lambda: cancel(JOB))

    return await scene.play(
        one_row(scene, "signal", f"job_id = {JOB}"),
        most=200,
        other=once(lambda: maintenance.prune("old_signals", 2, 1)),
        pruner=pruner("old_signals", 2),
        person=retries_and_cancels,
    )


async def notes_and_a_job_that_goes_on(scene: Scene) -> Explored:
    await put(scene, f"insert into duly.note values ({JOB}, 1, 1, 10, 'begun', null)")
    note = {"job_id": JOB, "attempt": 1, "percent": 20, "message": "goes on", "meta": None}
    return await scene.play(
        one_row(scene, "note"),
        pruner=pruner("prune_notes", 2),
        job=once(lambda: asked("keep_notes", rows=rows.packed([note]))),
    )


async def idempotency_keys_and_a_request(scene: Scene) -> Explored:
    """A key that is too old is taken anew."""
    await put(scene, "insert into duly.once values ('ada', 'k', 'old', '[]', 1)")
    taken: dict[str, Value] = {"who": "ada", "key": "k", "mark": "new", "day": 1}
    return await scene.play(
        one_row(scene, "once", "mark = 'new'"),
        pruner=pruner("prune_once", 2),
        request=once(lambda: asked("take_once", **taken)),
    )


async def reservations_and_another_block(scene: Scene) -> Explored:
    """A process that reserved nothing for a day reserves another block of numbers."""
    await put(scene, "insert into duly.reservation (holder, block, at) values ('node', 1, 1)")
    return await scene.play(
        one_row(scene, "reservation", "block = 2"),
        pruner=pruner("prune_reservations", 2),
        node=once(lambda: asked("note_reservation", holder="node", block=2)),
    )


async def events_and_a_replay(scene: Scene) -> Explored:
    """Somebody replays an event that is about to be forgotten."""
    await scene.add(plan(rule="on a.b"))
    at = to_us(START - HOUR)
    await put(
        scene,
        "insert into duly.event (id, name, payload, submitter, tenant, at, seen)"
        f" values ({EVENT}, 'a.b', '{{}}', '', '', {at}, true)",
    )
    request = backfill.ReplayRequest(name="report", since=START - 2 * HOUR, until=START)

    async def no_job_lacks_its_event(_: Order) -> Broken:
        lost = await scene.column(
            "select id from duly.job where request <> id"
            " and not exists (select from duly.event where event.id = job.request)"
        )
        return expect(lost == [], f"jobs {lost} react to what is gone")

    return await scene.play(
        no_job_lacks_its_event,
        pruner=pruner("prune_events"),
        person=once(
            lambda: backfill.replay(request, request.beginning, Editor("ada", decide, numbers(60)))
        ),
    )


async def failed_jobs_and_a_retry(scene: Scene) -> Explored:
    return await _failed_jobs_and_a_retry(scene, "prune_failed", NO_TERMS)


async def failed_jobs_of_a_task_and_a_retry(scene: Scene) -> Explored:
    return await _failed_jobs_and_a_retry(scene, "prune_failed_of_tasks", Terms(keep_failed=HOUR))


async def _failed_jobs_and_a_retry(scene: Scene, statement: str, terms: Terms) -> Explored:
    await failed(scene, terms=terms)

    async def it_is_retried_or_gone(order: Order) -> Broken:
        states, revived = await scene.states(), order.results["person"]
        wanted = {JOB: "ready"} if revived == [JOB] else {}
        return expect(states == wanted, f"revived: {revived}, and it is {states}")

    return await scene.play(it_is_retried_or_gone, pruner=pruner(statement), person=once(revive))


async def history_and_a_flow_that_goes_on(scene: Scene) -> Explored:
    """A step that was stopped is revived by its flow."""
    await scene.worker()
    await scene.enqueue(JOB, call())
    job = await scene.begin()
    await scene.stage.run(lambda: finish(job))

    async def it_is_there_once_or_gone(_: Order) -> Broken:
        found = await scene.column(
            "select 'live' from duly.job union all select 'ended' from duly.history"
        )
        return expect(found in (["live"], []), f"it is {found}")

    return await scene.play(
        it_is_there_once_or_gone,
        pruner=pruner("prune_history"),
        flow=once(lambda: retries.revive_steps([JOB])),
    )


async def flows_and_a_retry(scene: Scene) -> Explored:
    """A flow is retried when what is known of it is about to be forgotten."""
    await failed(scene)
    await put(
        scene,
        "insert into duly.flow (id, root, steps, remaining, failed, reason, opened_at, ended_at)"
        f" values ({JOB}, {JOB}, 1, 0, 1, '', 0, 1)",
    )
    await put(
        scene,
        "insert into duly.part (flow, step, part, job_id, state)"
        f" values ({JOB}, 0, 0, 999, 'failed')",
    )

    async def all_or_nothing_is_known(_: Order) -> Broken:
        [known] = await scene.column(
            "select (select count(*) from duly.flow) = (select count(*) from duly.part)"
        )
        return expect(known, "a part of it is forgotten")

    return await scene.play(
        all_or_nothing_is_known, pruner=pruner("old_flows", 2), person=once(revive)
    )


async def workers_and_a_beat(scene: Scene) -> Explored:
    """A worker that was silent for long renews its lease after all."""
    await scene.worker(lease=timedelta(seconds=1))
    scene.wait(7_200)

    async def who_was_renewed_is_there(order: Order) -> Broken:
        there = await scene.column("select id from duly.worker")
        renewed = bool(order.results["worker"])
        return expect((there == [WORKER]) == renewed, f"renewed: {renewed}, and {there}")

    return await scene.play(
        who_was_renewed_is_there,
        pruner=pruner("forget_workers", to_us(scene.stage.now - HOUR)),
        worker=once(lambda: alone(work.renewal(WORKER, LONG, running=0))),
    )


def _attempt() -> dict[str, object]:
    return {"job_id": 2, "number": 1, "worker": 1, "fence": 1, "started_at": 1,
            "outcome": "raised", "reason": "", "error": None}  # fmt: skip


def _line(at: int) -> dict[str, object]:
    return {"job_id": 2, "seq": 1, "attempt": 1, "at": at, "level": "info", "text": "new"}


# Rows that are only ever added: the pruner, an old row, and how a new one is written.
Added: TypeAlias = tuple[str, str, str, dict[str, Value]]
ADDED: Sequence[Added] = (
    (
        "prune_attempts",
        "insert into duly.attempt values (1, 1, 1, 1, 1, 1, 'raised', '', null)",
        "record_attempts",
        {"rows": rows.packed([_attempt()])},
    ),
    (
        "prune_log",
        "insert into duly.log values (1, 1, 1, 1, 'info', 'old')",
        "keep_lines",
        {"rows": rows.packed([_line(LATER)])},
    ),
    (
        "prune_changes",
        "insert into duly.change values (1, 1, 'report', 'ada', 'old')",
        "record_change",
        {"schedule_id": 2, "name": "other", "who": "ada", "what": "new"},
    ),
    (  # only messages that were sent or given up are deleted: they do not change any more
        "prune_alert_messages",
        "insert into duly.alert_message values (1, 'ops', 1, '{}', 1, null, 1, '')",
        "add_alert_messages",
        {"rows": rows.packed([{"id": 2, "destination": "ops", "content": "{}"}])},
    ),
)
TABLES = {
    "prune_attempts": "attempt",
    "prune_log": "log",
    "prune_changes": "change",
    "prune_alert_messages": "alert_message",
}


async def old_rows_and_a_new_one(scene: Scene, added: Added) -> Explored:
    statement, old, writes, values = added
    await put(scene, old)
    return await scene.play(
        one_row(scene, TABLES[statement]),
        pruner=pruner(statement, 2),
        writer=once(lambda: asked(writes, **values)),
    )
