"""Flows as they are declared: the plan that comes of one, and what its jobs carry.

Nothing here runs, and mistakes are in test_flow_mistakes.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest

from duly import Duly, Flow, Limit, Retry, Step
from duly.app.tasks import Task
from duly.errors import DulyError, InvalidValue, NotFound
from duly.model.flow import Awaited, Fill, Over, Source, StepPlan
from duly.model.job import JobRequest
from duly.model.limit import NamedLimit
from duly.model.terms import Callback, Terms
from duly.policy.retry import NEVER
from duly.testing import Sandbox
from tests.app.etl import (
    DAY,
    Report,
    anything,
    clean,
    duly,
    etl,
    extract,
    publish,
)

STANDARD = Retry().as_json()


def plan_of(flow: Flow[..., Any]) -> Sequence[StepPlan]:
    return flow._enqueuer.registry.flow_plan(flow.definition).steps


def only_step(flow: Flow[..., Any]) -> StepPlan:
    [step] = plan_of(flow)
    return step


def test_the_etl_comes_to_four_steps() -> None:
    def asked(task: str, args: str) -> JobRequest:
        return JobRequest(task=task, args=args, retry=STANDARD)  # type: ignore[arg-type]

    assert duly.registry.flow_plan(etl.definition).result == 2
    assert plan_of(etl) == (
        StepPlan(
            name="extract",
            call=asked("extract", '{"day":null}'),
            fills=(Fill(("day",), Source(argument="day")),),
            wanted=True,
        ),
        StepPlan(
            name="transform",
            call=asked("transform", '{"row":null,"factor":2}'),
            over=Over("row", Source(step=0)),
            before=(0,),
            wanted=True,
        ),
        StepPlan(
            name="load",
            call=asked("load", '{"rows":null}'),
            fills=(Fill(("rows",), Source(step=1)),),
            before=(1,),
            wanted=True,
        ),
        StepPlan(name="clean", call=asked("clean", "{}"), before=(2,)),
    )


def test_a_plan_is_made_once_until_something_else_is_declared() -> None:
    first = duly.registry.flow_plan(etl.definition)
    assert duly.registry.flow_plan(etl.definition) is first

    @duly.task
    def another() -> None: ...

    assert duly.registry.flow_plan(etl.definition) is not first


def test_a_flow_is_asked_for_as_a_task_is() -> None:
    asked = etl.using(key="2027", tenant="acme", run_after="5m").bind(DAY).asked()
    assert (asked.task, asked.args, asked.key) == ("etl", '{"day":"2027-01-01"}', "2027")
    assert (asked.tenant, asked.run_after) == ("acme", timedelta(minutes=5))
    assert (etl.name, repr(etl)) == ("etl", "<Flow etl>")
    with pytest.raises(DulyError, match="argument `day`: write a date as"):
        etl.bind("tomorrow").asked()  # type: ignore[arg-type]


def test_what_may_be_said_about_a_flow_is_kept() -> None:
    app = Duly()

    @app.task
    def tell(job_id: int) -> None: ...
    @app.task
    def work(day: date) -> int:
        raise NotImplementedError

    @app.flow(
        name="night",
        aliases=("nightly",),
        title="The night of {day}",
        queue="etl",
        priority="high",
        timeout="2h",
        keep_result="1d",
        on_success=tell,
        on_failure="tell",
        on_cancelled=tell,
    )
    def flow(day: date) -> Step[int]:
        return work.step(day)

    assert app.registry.get("nightly") is flow.definition
    asked = flow.bind(DAY).asked()
    assert (asked.task, asked.title) == ("night", "The night of 2027-01-01")
    assert (asked.queue, asked.priority) == ("etl", 50)
    calls = Callback(task="tell", retry=STANDARD)
    assert asked.terms == Terms(
        timeout=timedelta(hours=2),
        keep_result=timedelta(days=1),
        on_success=calls,
        on_failure=calls,
        on_cancelled=calls,
    )


def test_steps_are_given_the_defaults_of_their_flow_however_it_was_asked_for() -> None:
    """Also where only its name is known, as over HTTP: the plan has them, and not the job."""
    app, given = Duly(), list[tuple[date, int]]()

    @app.task
    def work(day: date, *, factor: int) -> None:
        given.append((day, factor))

    @app.flow
    def inner(day: date, factor: int = 2) -> None:
        work.step(day, factor=factor)

    @app.flow
    def outer(days: list[date], factor: int = 5) -> None:
        inner.map(days) >> inner.step(DAY, factor)

    assert inner.bind(DAY).asked().args == '{"day":"2027-01-01"}'
    with Sandbox(app, now="2027-01-04T08:00Z") as box:
        inner.enqueue(DAY)
        inner.enqueue(DAY, factor=3)
        box.run()
        outer.enqueue([DAY])
        box.run()
    assert given == [(DAY, 2), (DAY, 3), (DAY, 2), (DAY, 5)]


def test_a_step_is_asked_for_with_what_its_task_says() -> None:
    app = Duly()

    @app.task
    def tell(job_id: int) -> None: ...
    @app.task(
        title="Sync {customer} to {region}",
        queue="crm",
        priority=7,
        retry=None,
        limits=[Limit("crm:{region}:{customer}", concurrency=1)],
        needs={"gpu": 1},
        on_failure=tell,
    )
    def sync(customer: int, region: str = "eu", deep: bool = False) -> None: ...
    @app.flow
    def flow(customer: int) -> None:
        sync.step(customer)

    step = only_step(flow)
    name = "crm:{region}:{customer}"
    assert step.call == JobRequest(
        task="sync",
        args='{"customer":null}',  # type: ignore[arg-type]
        title="Sync {customer} to {region}",
        queue="crm",
        priority=7,
        retry=NEVER.as_json(),
        limits=(NamedLimit(name=name, template=name, concurrency=1),),
        needs={"gpu": 1},
        terms=Terms(on_failure=Callback(task="tell", retry=STANDARD)),
    )
    assert step.defaults == '{"region":"eu"}'


def test_what_is_said_by_using_is_for_that_step() -> None:
    app = Duly()

    @app.task(title="Work {number}", executor="process")
    def work(number: int = 1) -> None: ...
    @app.flow
    def flow() -> None:
        chosen = work.using(
            queue="slow",
            priority="low",
            retry=None,
            timeout="5m",
            title="{not} a template",
            tags=["night"],
            tenant="acme",
            run_after="10s",
            start_within="1h",
        )
        chosen.step()
        work.using(tenant=None).step()

    chosen, plain = (step.call for step in plan_of(flow))
    assert chosen == JobRequest(
        task="work",
        queue="slow",
        priority=-50,
        retry=NEVER.as_json(),
        terms=Terms(timeout=timedelta(minutes=5)),
        title="{{not}} a template",
        tags=("night",),
        tenant="acme",
        run_after=timedelta(seconds=10),
        start_within=timedelta(hours=1),
    )
    assert plain == JobRequest(task="work", title="Work {number}", retry=STANDARD)


def test_a_callback_may_be_declared_below_the_flow() -> None:
    app = Duly()

    @app.task(on_failure="tell")
    def work() -> None: ...
    @app.flow
    def flow() -> None:
        work.step()

    with pytest.raises(NotFound, match='work: on_failure="tell": there is no such task'):
        app.registry.flow_plan(flow.definition)

    @app.task
    def tell(job_id: int) -> None: ...

    assert only_step(flow).call.terms.on_failure == Callback(task="tell", retry=STANDARD)


def test_a_list_that_is_known_is_part_of_the_plan() -> None:
    app = Duly()

    @app.task
    def send(to: str, day: date) -> int:
        raise NotImplementedError

    @app.flow
    def flow(day: date) -> Step[list[int]]:
        return send.map(["ada", "bob"], day)

    step = only_step(flow)
    assert step.over == Over("to", None, '["ada","bob"]')  # type: ignore[arg-type]
    assert step.call.args == '{"to":null,"day":null}'
    assert step.fills == (Fill(("day",), Source(argument="day")),)


def test_stand_ins_may_lie_in_lists_and_dicts() -> None:
    @duly.flow
    def nested(day: date) -> None:
        rows = extract.step(day).result
        anything.step({"day": day, "rows": [rows, 7]})

    step = plan_of(nested)[1]
    assert step.call.args == '{"what":{"day":null,"rows":[null,7]}}'
    assert step.fills == (
        Fill(("what", "day"), Source(argument="day")),
        Fill(("what", "rows", 0), Source(step=0)),
    )


def test_a_flow_is_a_step_of_another() -> None:
    @duly.flow
    def outer(days: list[date]) -> Step[list[Report]]:
        first = etl.step(DAY)
        first >> clean.step()
        return etl.using(queue="slow").map(days)

    first, cleaned, mapped = plan_of(outer)
    assert (first.call.task, first.call.args) == ("etl", '{"day":"2027-01-01"}')
    assert (mapped.call.queue, mapped.over) == ("slow", Over("day", Source(argument="days")))
    assert cleaned.before == (0,)


def test_a_call_is_a_step_too() -> None:
    @duly.flow
    def bound() -> Step[list[int]]:
        return extract.bind(DAY).step()

    assert only_step(bound).call.args == '{"day":"2027-01-01"}'


def test_a_step_may_wait_for_an_event() -> None:
    @duly.flow
    def approved(order_id: int, region: str) -> Step[dict[str, Any]]:
        paid = duly.wait_for("order.paid", key="{region}:{order_id}", timeout="2d")
        paid >> duly.wait_for("order.sent").named("sent")
        return paid

    first, second = plan_of(approved)
    assert first == StepPlan(
        name="wait for order.paid",
        call=JobRequest(task="wait", args='{"region":null,"order_id":null}'),  # type: ignore[arg-type]
        fills=(
            Fill(("region",), Source(argument="region")),
            Fill(("order_id",), Source(argument="order_id")),
        ),
        awaited=Awaited("order.paid", "{region}:{order_id}", timedelta(days=2)),
        wanted=True,
    )
    assert (second.name, second.awaited) == ("sent", Awaited("order.sent"))


def test_failures_have_steps_of_their_own() -> None:
    @duly.flow
    def careful(day: date) -> None:
        work = etl.step(day).if_failed("go_on")
        publish.step(work.result, note="it may be none").when("all_done")
        work >> clean.step().when("any_failed")

    work, published, cleaned = plan_of(careful)
    assert (work.if_failed, work.rescue) == ("go_on", False)
    assert (published.when, published.rescue) == ("all_done", True)
    assert (cleaned.when, cleaned.rescue, cleaned.before) == ("any_failed", True, (0,))


def test_a_schedule_starts_a_flow() -> None:
    app = Duly(zone="Europe/Berlin")

    @app.task
    def work(day: date | None = None) -> int:
        raise NotImplementedError

    @app.schedule("02:00")
    @app.flow
    def nightly() -> Step[int]:
        return work.step()

    @app.flow
    def daily(day: date) -> Step[int]:
        return work.step(day)

    app.schedule("03:00", nightly, name="again", overlap="queue_one")
    app.schedule("04:00", daily.bind(DAY))
    plans = {one.name: one.plan() for one in app.declarations}
    assert {name: (plan.task, plan.args) for name, plan in plans.items()} == {
        "nightly": ("nightly", "{}"),
        "again": ("nightly", "{}"),
        "daily": ("daily", '{"day":"2027-01-01"}'),
    }
    with pytest.raises(
        InvalidValue, match=r"^daily needs day, but the schedule passes no arguments: "
    ):
        app.schedule("03:00", daily)  # type: ignore[arg-type]


def test_the_same_lines_once_more_are_the_same_flow() -> None:
    app = Duly()

    def declared(give: int) -> Flow[[], int]:
        @app.task
        def work(number: int = give) -> int:
            raise NotImplementedError

        @app.flow
        def flow() -> Step[int]:
            return work.step(give)

        return flow

    assert only_step(declared(1)).call.args == '{"number":1}'
    assert only_step(declared(2)).call.args == '{"number":2}'


def test_a_type_that_is_defined_further_down_is_looked_at_later() -> None:
    app = Duly()
    scope: dict[str, Any] = {"duly": app, "Step": Step, "__name__": "shop"}
    exec(LATER, scope)  # noqa: S102 - a module of its own, of which the end is not there yet
    wrong, right = scope["wrong"], scope["right"]
    with pytest.raises(InvalidValue, match="keep: an annotation cannot be resolved: name 'Order'"):
        right.bind().asked()
    exec("class Order(dict[str, int]): ...\nclass Item(int): ...", scope)  # noqa: S102
    scope["Order"], scope["Item"] = dict[str, int], int
    assert right.bind().asked().task == "right"
    with pytest.raises(InvalidValue) as refused:
        wrong.bind().asked()
    told = "wrong: step take: `item` is int, but the result of step make is dict[str, int]"
    assert str(refused.value) == told


LATER = """
@duly.task
def make() -> "Order": raise NotImplementedError
@duly.task
def take(item: "Item") -> None: ...
@duly.task
def keep(order: "Order") -> None: ...
@duly.flow
def right() -> "Step[None]":
    return keep.step(make.step().result)
@duly.flow
def wrong() -> "Step[None]":
    return take.step(make.step().result)
"""


def test_a_task_is_still_a_task() -> None:
    assert isinstance(clean, Task)
    assert clean.definition.graph is None
