"""Tasks by name, and the calls that are made of them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from duly.clock import now
from duly.errors import InvalidValue, NotFound, PayloadError
from duly.model.job import JobRequest
from duly.model.limit import Limit, NamedLimit, Rate
from duly.model.terms import Callback, Terms
from duly.policy.retry import NEVER, Retry
from duly.registry.definition import Definition, define
from duly.registry.registry import Registry
from duly.rules import parse


def send(to: str, amount: int = 1) -> None: ...
def other(to: str) -> None: ...
def move(source: int, target: int) -> None: ...
def ship(order: UUID) -> None: ...
def tell_ops(number: int, loud: bool = False) -> None: ...
def tell_nobody() -> None: ...
def tell_text(job_id: str) -> None: ...


def registry(*definitions: Definition) -> Registry:
    made = Registry()
    for definition in definitions:
        made.add(definition)
    return made


def call_of(definition: Definition, *args: object, **using: Any) -> JobRequest:
    return registry(definition).call(definition, args, {}, **using)


def test_a_task_is_found_by_its_name_and_by_its_aliases() -> None:
    definition = define(send, aliases=("mail", "post"))
    found = registry(definition, define(other))
    assert found.get("send") is found.get("mail") is found.get("post") is definition
    assert found.names() == ("send", "mail", "post", "other")
    assert "post" in found
    assert "nobody" not in found
    assert [each.name for each in found] == ["send", "other"]
    assert len(found) == 2


def test_an_unknown_task_is_told_with_the_one_that_was_meant() -> None:
    found = registry(define(send), define(tell_ops))
    with pytest.raises(NotFound, match='there is no task "tel_ops"; did you mean "tell_ops"\\?'):
        found.get("tel_ops")
    with pytest.raises(NotFound, match="known tasks: send, tell_ops"):
        found.get("zzz")
    with pytest.raises(NotFound, match="no task is declared"):
        Registry().get("send")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (define(send), define(other, name="send")),
        (define(send), define(other, aliases=("send",))),
        (define(send, aliases=("x",)), define(other, aliases=("x",))),
        (define(send, aliases=("other",)), define(other)),
    ],
    ids=["names", "alias of the second", "aliases", "alias of the first"],
)
def test_two_tasks_with_one_name_are_refused_with_both_places(
    one: Definition, two: Definition
) -> None:
    found = registry(one)
    with pytest.raises(InvalidValue) as refused:
        found.add(two)
    for said in (one.where, two.where, 'name="…"'):
        assert said in str(refused.value)
    assert found.names() == one.names


def test_a_module_that_is_loaded_again_brings_its_tasks_again() -> None:
    before = define(send, aliases=("old",), limits=[Limit("a", concurrency=1)])
    found = registry(before)
    assert found.terms(before) == Terms()
    again = define(send, limits=[Limit("a", concurrency=2)], keep_result="1h")
    found.add(again)
    assert found.terms(again) == Terms(keep_result=timedelta(hours=1))
    assert found.get("send") is again
    assert found.names() == ("send",)


def test_one_limit_has_one_set_of_numbers() -> None:
    found = registry(define(send, limits=[Limit("crm", rate="5/s")]))
    found.add(define(tell_ops, limits=[Limit("crm", rate="5/s")]))
    with pytest.raises(InvalidValue) as refused:
        found.add(define(other, limits=[Limit("crm", rate="6/s")]))
    assert 'Limit("crm", rate="6/s") of other' in str(refused.value)
    assert 'differs from Limit("crm", rate="5/s") of tell_ops' in str(refused.value)
    assert "other" not in found


def test_every_name_has_the_fingerprint_of_what_it_takes() -> None:
    definition = define(send, aliases=("mail",))
    prints = registry(definition, define(other)).signatures()
    assert prints["send"] == prints["mail"] == definition.signature.fingerprint
    assert prints["other"] != prints["send"]


def test_a_plain_call_carries_nothing_that_was_not_asked_for() -> None:
    call = call_of(define(send), "ada")
    assert call == JobRequest(task="send", args=call.args, retry=Retry().as_json())
    assert call.args == '{"to":"ada"}'
    assert call.terms.as_json() is None


def test_a_call_carries_the_choices_of_its_task() -> None:
    definition = define(
        send,
        title="{amount} to {to}",
        queue="mail",
        priority="low",
        retry=Retry(attempts=7),
        timeout="10m",
        executor="process",
        needs={"gpu": 1},
        keep_result="1d",
        limits=[Limit("crm", rate="50/s"), Limit("crm:{to}", concurrency=1)],
    )
    call = call_of(definition, "ada")
    assert (call.title, call.queue, call.priority) == ("1 to ada", "mail", -50)
    assert call.retry == Retry(attempts=7).as_json()
    assert call.needs == {"gpu": 1}
    assert call.terms == Terms(timeout=timedelta(minutes=10), keep_result=timedelta(days=1))
    assert call.limits == (
        NamedLimit(name="crm", template="crm", rate=Rate(50, timedelta(seconds=1))),
        NamedLimit(name="crm:ada", template="crm:{to}", concurrency=1),
    )


def test_what_the_caller_says_wins() -> None:
    moment = datetime(2027, 1, 3, tzinfo=UTC)
    definition = define(send, title="{to}", queue="mail", executor="process", timeout="1h")
    call = call_of(
        definition,
        "ada",
        run_after=moment,
        queue="slow",
        priority="high",
        key="k",
        if_exists="keep",
        tenant="acme",
        start_within="12h",
        late="hurry",
        retry=None,
        timeout="5m",
        title="literally {this}",
        tags=["nightly"],
        submitter="bob",
    )
    assert (call.run_after, call.queue, call.priority) == (moment, "slow", 50)
    assert (call.key, call.if_exists, call.tenant) == ("k", "keep", "acme")
    assert (call.start_within, call.late) == (timedelta(hours=12), "hurry")
    assert (call.retry, call.terms.timeout) == (NEVER.as_json(), timedelta(minutes=5))
    assert (call.title, call.tags, call.submitter) == ("literally {this}", ("nightly",), "bob")


def test_none_is_none_and_not_the_default() -> None:
    definition = define(send, executor="process", timeout="1h")
    assert call_of(definition, "ada", timeout=None).terms.timeout is None
    assert call_of(definition, "ada").terms.timeout == timedelta(hours=1)


@pytest.mark.parametrize("delay", ["5m", timedelta(minutes=5)], ids=str)
def test_a_call_may_wait_for_a_length_of_time(delay: str | timedelta) -> None:
    assert call_of(define(send), "ada", run_after=delay).run_after == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("using", "said"),
    [
        ({"run_after": 5}, 'run_after=5: a unit is missing: write "5s"'),
        ({"run_after": datetime(2027, 1, 3)}, "run_after=.* is naive and needs a zone"),  # noqa: DTZ001
        ({"start_within": "soon"}, 'start_within: "soon" is not a duration'),
        ({"priority": "urgent"}, "priority='urgent'"),
        ({"retry": 5}, "retry=5: expected retry=Retry"),
        ({"timeout": "5m"}, "a thread cannot be stopped: use executor="),
        ({"tags": "nightly"}, "tags='nightly': expected several texts"),
        ({"queue": ""}, "must not be empty"),
        ({"if_exists": "skip"}, "if_exists='skip': choose one of"),
    ],
    ids=str,
)
def test_what_a_caller_cannot_have_is_refused(using: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        call_of(define(send), "ada", **using)


def test_a_timeout_may_be_said_for_a_thread_that_was_asked_for() -> None:
    call = call_of(define(send, executor="thread"), "ada", timeout="5m")
    assert call.terms.timeout == timedelta(minutes=5)


def test_wrong_arguments_are_refused_before_anything_is_stored() -> None:
    with pytest.raises(PayloadError, match="send: argument `to`: expected str, got int"):
        call_of(define(send), 5)


def test_equal_arguments_meet_the_same_limit_however_they_are_written() -> None:
    definition = define(ship, limits=[Limit("{order}", concurrency=1)])
    order = UUID("abcdefab-cdef-abcd-efab-cdefabcdefab")
    calls = [call_of(definition, order), call_of(definition, str(order).upper())]
    assert calls[0].limits == calls[1].limits


def test_a_title_is_cut_where_a_limit_would_be_refused() -> None:
    assert len(call_of(define(send, title="to {to}"), "x" * 900).title) == 500
    with pytest.raises(InvalidValue, match="900 characters"):
        call_of(define(send, limits=[Limit("{to}", concurrency=1)]), "x" * 900)


def test_two_limits_that_come_to_one_name_are_met_once() -> None:
    definition = define(
        move, limits=[Limit("at:{source}", concurrency=1), Limit("at:{target}", concurrency=1)]
    )
    assert [lane.name for lane in call_of(definition, 1, 2).limits] == ["at:1", "at:2"]
    assert [lane.name for lane in call_of(definition, 1, 1).limits] == ["at:1"]


def test_two_limits_that_come_to_one_name_with_other_numbers_are_refused() -> None:
    definition = define(
        move, limits=[Limit("at:{source}", concurrency=1), Limit("at:{target}", concurrency=2)]
    )
    with pytest.raises(InvalidValue, match='both become "at:1" for these arguments'):
        call_of(definition, 1, 1)


def test_a_callback_is_rendered_as_the_task_it_names() -> None:
    definition = define(send, on_failure="ops")
    callback = define(
        tell_ops, aliases=("ops",), queue="alerts", priority="high", retry=Retry(attempts=9)
    )
    found = registry(definition, callback)
    assert found.call(definition, ("ada",), {}).terms.on_failure == Callback(
        task="tell_ops",
        queue="alerts",
        priority=50,
        retry=Retry(attempts=9).as_json(),
        argument="number",
    )


def test_a_callback_may_be_declared_after_the_task_that_names_it() -> None:
    definition = define(send, on_success="tell_ops")
    found = registry(definition)
    with pytest.raises(NotFound, match='send: on_success="tell_ops": there is no such task'):
        found.call(definition, ("ada",), {})
    found.add(define(tell_ops))
    assert found.call(definition, ("ada",), {}).terms.calls_back


@pytest.mark.parametrize("function", [tell_nobody, move, tell_text])
def test_a_callback_takes_the_number_of_a_job(function: Any) -> None:  # noqa: ANN401
    definition = define(send, on_cancelled=function.__name__)
    found = registry(definition, define(function))
    with pytest.raises(InvalidValue, match=r"send: on_cancelled: .*\(job_id: int\)"):
        found.call(definition, ("ada",), {})


def test_a_result_that_nobody_wants_is_said_to_the_store() -> None:
    assert call_of(define(send, keep_result=None), "ada").terms.keep_result == timedelta()


def test_a_rule_as_the_start_means_its_next_moment() -> None:
    for rule in ("22:00 Europe/Berlin", parse("0 22 * * * Europe/Berlin")):
        found = call_of(define(send), "ada", run_after=rule).run_after
        assert isinstance(found, datetime)
        assert found in (parse("22:00 Europe/Berlin").between(now(), now() + timedelta(days=2), 1))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("2020-01-01 00:00 UTC", "has no later time"),
        ("spaced 10m", "has no times of its own"),
        ("on doc.changed", "has no times of its own"),
        ("22:00", 'run_after="22:00" names an hour, .*: write "22:00 Europe/Berlin"$'),
        ("at noon", "run_after: "),
    ],
)
def test_a_rule_without_a_next_moment_is_refused(rule: str, problem: str) -> None:
    with pytest.raises(InvalidValue, match=problem):
        call_of(define(send), "ada", run_after=rule)


def test_a_start_in_the_past_as_text_is_that_moment() -> None:
    found = call_of(define(send), "ada", run_after="2020-01-01T00:00:00Z").run_after
    assert found == datetime(2020, 1, 1, tzinfo=UTC)
