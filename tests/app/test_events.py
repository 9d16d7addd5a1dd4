"""``duly.emit`` and ``@duly.on`` as their users have them, in a sandbox and on a store: SQLite."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import psycopg
import pytest

from duly import Context, Duly, Limit, Step
from duly.errors import DulyError, InvalidValue, NotFound, WrongState
from duly.testing import Sandbox
from tests.app.waiting import eventually

NOON = datetime(2027, 1, 3, 12, tzinfo=UTC)
DAY = timedelta(days=1)
Connection: TypeAlias = sqlite3.Connection | psycopg.Connection[tuple[object, ...]]


class Shop:
    """An app that reacts to a few things."""

    def __init__(self, url: str | None = None) -> None:
        self.duly = duly = Duly(url)

        @duly.on("doc.changed", key="doc:{doc_id}", debounce="30s")
        @duly.task(title="index {doc_id} ({mode})", limits=[Limit("doc:{doc_id}", concurrency=1)])
        async def reindex(doc_id: int, mode: str = "full") -> str:
            return f"{doc_id} {mode}"

        @duly.on(
            "class.scheduled",
            key="class:{class_id}",
            run_after="-24h from starts_at",
            unless="class.cancelled",
        )
        @duly.task
        def remind(class_id: int) -> int:
            return class_id

        @duly.on("invoice.*", name="every invoice")
        @duly.on("invoice.paid")
        @duly.task
        def thank(invoice_id: int, total: Decimal = Decimal(0)) -> str:
            return f"{invoice_id}: {total}"

        self.reindex, self.remind, self.thank = reindex, remind, thank


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def box(shop: Shop) -> Iterator[Sandbox]:
    with Sandbox(shop.duly, now=NOON) as box:
        yield box


def outcomes(box: Sandbox, schedule: str) -> list[str]:
    return [fire.outcome for fire in box.fires(schedule)]


def test_fields_of_an_event_are_the_arguments_of_the_same_name(shop: Shop, box: Sandbox) -> None:
    number = shop.duly.emit("invoice.paid", {"invoice_id": 7, "total": Decimal("9.50"), "x": 1})
    assert sorted(job.result() for job in box.run()) == ["7: 9.50", "7: 9.50"]
    assert [fire.schedule for fire in shop.duly.events.reactions(number)] == [
        "every invoice",
        "thank",
    ]
    shop.duly.emit("invoice.sent", {"invoice_id": 8})
    assert [job.result() for job in box.run()] == ["8: 0"]


def test_a_debounced_task_runs_once_it_has_been_quiet(shop: Shop, box: Sandbox) -> None:
    for mode in ("full", "part"):
        shop.duly.emit("doc.changed", {"doc_id": 7, "mode": mode})
        shop.duly.emit("doc.changed", {"doc_id": 8})
        box.travel("10s")
    assert box.run() == []
    box.travel("21s")
    ran = {job.title: job.result() for job in box.run()}
    assert ran == {"index 7 (part)": "7 part", "index 8 (full)": "8 full"}
    assert outcomes(box, "reindex") == ["merged", "merged", "queued", "queued"]


def test_a_reminder_moves_with_its_class_and_goes_with_it(shop: Shop, box: Sandbox) -> None:
    shop.duly.emit("class.scheduled", {"class_id": 1, "starts_at": NOON + 7 * DAY})
    box.travel("1s")
    box.assert_enqueued(shop.remind.bind(1), at=NOON + 6 * DAY)
    shop.duly.emit("class.scheduled", {"class_id": 1, "starts_at": NOON + 9 * DAY})
    box.travel("1s")
    box.assert_enqueued(shop.remind.bind(1), at=NOON + 8 * DAY)
    assert len(box.jobs("task:remind")) == 1
    shop.duly.emit("class.cancelled", {"class_id": 1})
    box.travel("10d")
    assert box.run() == []
    assert outcomes(box, "remind") == ["merged", "skipped"]
    assert "cancelled by class.cancelled" in shop.duly.schedules.why("remind")


def test_what_happened_while_nobody_was_there_is_reacted_to_afterwards(
    shop: Shop, box: Sandbox
) -> None:
    shop.duly.emit("class.scheduled", {"class_id": 1, "starts_at": NOON + 2 * DAY})
    box.travel("3d", down=True)
    box.travel("1s")
    assert [job.result() for job in box.run()] == [1]


def test_what_lacks_a_field_is_told_and_not_lost(shop: Shop, box: Sandbox) -> None:
    number = shop.duly.emit("invoice.paid", {"invoice": 7})
    box.run()
    [fire, _] = shop.duly.events.reactions(number)
    assert (fire.outcome, fire.job_id) == ("skipped", None)
    assert (fire.event, fire.manual) == (int(number), False)
    assert box.fires(fire.schedule) == [fire]
    assert 'has no field "invoice_id", which thank takes' in shop.duly.schedules.why("thank")


def test_a_job_that_says_that_something_happened_starts_others_in_the_same_run() -> None:
    duly = Duly()

    @duly.on("chain.*")
    @duly.task
    def chain(n: int) -> int:
        if n:
            duly.emit("chain.link", {"n": n - 1})
        return n

    with Sandbox(duly, now=NOON) as box:
        chain.enqueue(3)
        assert [job.result() for job in box.run()] == [3, 2, 1, 0]


def test_a_flow_reacts_as_a_task_does() -> None:
    duly = Duly()

    @duly.task
    def double(number: int) -> int:
        return 2 * number

    @duly.on("number.came")
    @duly.flow
    def twice(number: int = 4) -> Step[int]:
        return double.step(double.step(number).result)

    with Sandbox(duly, now=NOON) as box:
        for payload in ({"number": 3}, {}):
            number = duly.emit("number.came", payload)
            box.run()
            [fire] = duly.events.reactions(number)
            assert fire.job_id is not None
            assert duly.jobs.get(fire.job_id).result() == payload.get("number", 4) * 4


def test_a_step_that_waits_for_an_event_goes_on_in_the_same_run() -> None:
    duly = Duly()

    @duly.task
    def ship(order: dict[str, int]) -> int:
        return order["order_id"]

    @duly.flow
    def sell(order_id: int) -> Step[int]:
        return ship.step(duly.wait_for("order.paid", key="{order_id}").result)

    with Sandbox(duly, now=NOON) as box:
        job = sell.enqueue(7)
        box.run()
        duly.emit("order.paid", {"order_id": 8}, key="8")
        box.run()
        assert job.refresh().state == "running"
        duly.emit("order.paid", {"order_id": 7}, key="7")
        box.run()
        assert job.refresh().result() == 7


def test_the_context_is_no_field() -> None:
    duly = Duly()

    @duly.on("a")
    @duly.task(takes_context=True)
    def told(context: Context, x: int) -> int:
        return x

    with Sandbox(duly, now=NOON) as box:
        duly.emit("a", {"x": 5})
        assert [job.result() for job in box.run()] == [5]
        assert duly.schedules.get("told").args == '{"x":{"$event":"x"}}'


def test_it_can_be_declared_beside_the_task_with_some_arguments_bound() -> None:
    duly = Duly()

    @duly.task
    def note(x: int, by: str = "") -> str:
        return f"{x} by {by}"

    assert duly.on("a", note) is None
    duly.on("b", note.bind(7), name="bound")
    with Sandbox(duly, now=NOON) as box:
        duly.emit("a", {"x": 1, "by": "ada"})
        duly.emit("b", {"x": 2, "by": "bob"})
        assert [job.result() for job in box.run()] == ["1 by ada", "7 by bob"]


def test_what_the_task_says_about_its_jobs_is_so() -> None:
    duly = Duly()

    @duly.task
    def work(x: int) -> int:
        return x

    duly.on("a", work.using(queue="mail", priority="high", tags=("t",), tenant="acme", title="{x}"))
    with Sandbox(duly, now=NOON) as box:
        duly.emit("a", {"x": 1})
        [job] = box.run()
        assert (job.queue, job.tags, job.tenant, job.title) == ("mail", ("t",), "acme", "{x}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"key": "doc:{}"}, "{} is not the name of an argument"),
        ({"key": "k", "debounce": "30s", "run_after": "5m"}, "say one of them"),
        ({"unless": "b"}, "unless= needs a key="),
        ({"debounce": 30}, 'write "30s" or "30m"'),
        ({"run_after": "tomorrow"}, "is not a duration"),
        ({"late": "never"}, "late='never': choose one of"),
    ],
)
def test_words_that_make_no_sense_are_refused_where_they_stand(
    words: dict[str, Any], said: str
) -> None:
    duly = Duly()

    @duly.task
    def work() -> None: ...

    with pytest.raises(DulyError) as refused:
        duly.on("a", **words)(work)
    assert said in str(refused.value)


def test_decorators_in_the_wrong_order_and_two_of_one_name_are_refused(shop: Shop) -> None:
    with pytest.raises(InvalidValue, match=r"goes above @duly\.task: swap them"):
        shop.duly.on("a")(lambda: None)  # type: ignore[type-var]
    with pytest.raises(InvalidValue, match='two schedules are named "thank"'):
        shop.duly.on("a")(shop.thank)
    with pytest.raises(InvalidValue, match=r"needs the name of an event: @duly\.on"):
        shop.duly.on(shop.thank)  # type: ignore[call-overload]
    with pytest.raises(InvalidValue, match="is about one job"):
        shop.duly.on("a", name="b")(shop.thank.using(key="k"))


@pytest.mark.parametrize(
    ("event", "payload", "said"),
    [
        ("a b", {}, "is not the name of an event"),
        ("a", [1], "its payload must be an object"),
        ("a", {1: 2}, "its payload must be an object"),
        ("a", {"x": object()}, "cannot be stored"),
        ("a", {"x": float("nan")}, "not a number in JSON"),
        ("a", {"x": "x" * 300_000}, "more than the maximum of"),
    ],
)
def test_what_cannot_be_said_is_refused(event: str, payload: object, said: str) -> None:
    with pytest.raises(DulyError) as refused:
        Duly().emit(event, payload)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_a_reaction_is_a_schedule_that_cannot_be_run_without_an_event(
    shop: Shop, box: Sandbox
) -> None:
    schedules = shop.duly.schedules
    assert schedules.get("thank").rule == "on invoice.paid"
    assert schedules.preview("thank") == []
    assert "no such event has happened" in schedules.why("thank")
    with pytest.raises(WrongState, match=r"emit invoice\.paid, or enqueue thank itself"):
        schedules.run("thank")
    with pytest.raises(WrongState, match="is replayed"):
        schedules.backfill("thank", NOON - DAY, NOON)
    schedules.pause("thank", note="enough")
    shop.duly.emit("invoice.paid", {"invoice_id": 7})
    box.run()
    assert "the schedule was paused" in schedules.why("thank")
    box.travel("1h")
    assert "saw no such event then" in schedules.why("thank", NOON + timedelta(minutes=30))


def test_it_is_declared_with_the_other_schedules_of_the_app(shop: Shop) -> None:
    declared = {one.plan.name for one in shop.duly.declarations.announcement("x").wanted}
    assert declared == {"reindex", "remind", "thank", "every invoice"}


# On a store.


@pytest.fixture
def real(url: str) -> Iterator[Shop]:
    shop = Shop(url)
    yield shop
    shop.duly.close()


@pytest.fixture
def connection(real: Shop, url: str) -> Iterator[Connection]:
    real.duly.schedules.list()
    made: Connection = psycopg.connect(url) if url.startswith("postgres") else sqlite3.connect(url)
    yield made
    made.close()


def test_an_event_is_there_with_the_callers_transaction_or_not_at_all(
    real: Shop, connection: Connection
) -> None:
    events = real.duly.events
    number = real.duly.emit("a.b", {"x": 1}, key="k", connection=connection)
    assert events.list() == []
    connection.rollback()
    assert events.list() == []
    number = real.duly.emit("a.b", {"x": 2}, key="k", connection=connection)
    connection.commit()
    [event] = events.list("a.*", key="k")
    assert (event.id, event.name, event.payload) == (number, "a.b", {"x": 2})
    assert events.get(number) == event
    with pytest.raises(NotFound):
        events.get("1")


def test_whoever_runs_the_app_reacts_within_moments(real: Shop, connection: Connection) -> None:
    duly = real.duly
    duly.schedules.add("on invoice.paid", real.thank, name="mine")  # type: ignore[arg-type]
    with duly.running(scheduler=False):  # as the dispatcher, it runs on every node
        number = duly.emit("invoice.paid", {"invoice_id": 7})
        duly.emit("invoice.paid", {"invoice_id": 8}, connection=connection)
        connection.rollback()
        kept = duly.emit("invoice.paid", {"invoice_id": 9}, connection=connection)
        connection.commit()
        for one in (number, kept):
            eventually(lambda one=one: duly.events.reactions(one), "a reaction")  # type: ignore[misc]
            [fire] = duly.events.reactions(one)
            assert fire.job_id is not None
            assert duly.jobs.get(fire.job_id).result(timeout="9s") is not None
        assert sorted(job.result() for job in duly.jobs.list("task:thank")) == ["7: 0", "9: 0"]


def test_events_are_replayed_to_a_schedule_that_came_later(real: Shop) -> None:
    duly = real.duly
    numbers = [duly.emit("invoice.paid", {"invoice_id": n}) for n in range(3)]
    duly.schedules.add("on invoice.*", real.thank, name="late")  # type: ignore[arg-type]
    since = duly.events.get(numbers[0]).at
    assert duly.events.replay("late", since, dry_run=True).events == 3
    done = duly.events.replay("late", since)
    assert [duly.jobs.get(job).task for job in done.jobs] == ["thank"] * 3
    assert duly.events.replay("late", since).events == 0
