"""Why a flow is where it is, and a step of one, from evidence made by hand."""

from datetime import datetime, timedelta
from typing import Any

from duly.model.flow import FlowInfo, StepInfo, StepState
from duly.model.job import StoredJob
from duly.model.states import State
from duly.policy.why import Explanation, JobEvidence, Lineage, explain_job
from tests.policy.deciding import at

NOW = at("2026-11-13 01:05")
DUE = at("2026-11-13 01:00")
MINUTE = timedelta(minutes=1)


def job(state: State = State.RUNNING, **changes: Any) -> StoredJob:
    known: dict[str, Any] = {
        "id": 4711,
        "task": "etl",
        "state": state,
        "created_at": DUE,
        "due_at": DUE,
        "ready_at": DUE,
        "waits": "steps" if state is State.RUNNING else None,
        "attempt": 1,
    }
    return StoredJob(**{**known, **changes})


def step(name: str, state: str, *before: int, **changes: Any) -> StepInfo:
    known: dict[str, Any] = {
        "number": 0,
        "name": name,
        "task": name,
        "kind": "step",
        "before": before,
        "when": "all_succeeded",
        "if_failed": "cancel",
        "state": StepState(state),
        "parts": 1,
        "remaining": 1 if state == "running" else 0,
        "missed": 0,
        "stopped": 0,
        "reason": "",
        "started_at": None if state == "waiting" else DUE + MINUTE,
        "ended_at": DUE + 2 * MINUTE if state in ("succeeded", "failed") else None,
        "job_id": None if state == "waiting" else 5000,
    }
    return StepInfo(**{**known, **changes})


def flow(*steps: StepInfo) -> FlowInfo:
    numbered = []
    for number, one in enumerate(steps):
        values = {name: getattr(one, name) for name in StepInfo.__dataclass_fields__}
        numbered.append(StepInfo(**{**values, "number": number}))
    return FlowInfo(
        id=4711, root=4711, result=None, remaining=1, failed=0, opened_at=DUE, ended_at=None,
        steps=tuple(numbered),
    )  # fmt: skip


def why(found: StoredJob, now: datetime = NOW, **changes: Any) -> Explanation:
    return explain_job(JobEvidence(job=found, now=now, **changes))


def test_a_flow_says_what_is_done_what_runs_and_what_waits_for_that() -> None:
    steps = flow(
        step("extract", "succeeded"),
        step("transform A", "succeeded", 0),
        step("transform B", "running", 0),
        step("load", "waiting", 1, 2),
        step("report", "waiting", 3),
    )
    assert why(job(), flow=steps).sentence == (
        "job 4711 (etl) was due 01:00 UTC and runs: 2 of 5 steps are done; transform B runs since "
        "01:01 (4 min); load waits for it."
    )


def test_a_list_says_how_many_of_its_parts_are_done() -> None:
    steps = flow(step("each", "running", kind="map", parts=10, remaining=3))
    assert "each runs since 01:01 (4 min), 7 of 10 parts done" in why(job(), flow=steps).sentence


def test_of_many_that_run_some_are_named() -> None:
    steps = flow(*(step(f"s{n}", "running") for n in range(9)), step("all", "waiting", *range(9)))
    said = why(job(), flow=steps).sentence
    assert "s2 runs since 01:01 (4 min); 6 more run; all waits for them." in said
    assert "s3 " not in said


def test_a_flow_in_which_something_failed_goes_on_and_says_what() -> None:
    broken = step("a", "failed", reason="raised ValueError: no", job_id=5001)
    answer = why(job(), flow=flow(broken, step("b", "running")))
    assert "0 of 2 steps are done, 1 failed; b runs since" in answer.sentence
    assert answer.evidence == ("step a failed 01:02: raised ValueError: no",)
    assert ("see the step", "duly why 5001") in [
        (command.what, command.line) for command in answer.commands
    ]


def test_a_failed_flow_says_how_far_it_came_and_how_it_goes_on() -> None:
    found = job(State.FAILED, error='step "a": raised ValueError: no', ended_at=NOW)
    steps = flow(
        step("x", "succeeded"),
        step("b", "failed", 0, ended_at=NOW, job_id=5002, reason="raised KeyError: b"),
        step("a", "failed", 0, job_id=5001),
        step("c", "cancelled", 1, 2, job_id=None),
    )
    answer = why(found, flow=steps)
    assert answer.sentence == (
        'job 4711 (etl) was due 01:00 UTC and failed: step "a": raised ValueError: no.'
    )
    assert answer.evidence == (
        "ended 01:05: 1 of 4 steps is done, 2 failed, 1 cancelled",
        "step b failed 01:05: raised KeyError: b",
    )
    assert [(command.what, command.line) for command in answer.commands] == [
        ("see it", "duly jobs show 4711"),
        ("see the step", "duly why 5001"),  # which failed first, though it is not the first
        ("go on from what failed", "duly jobs retry 4711"),
    ]


def test_a_flow_that_is_over_says_how_far_it_came_and_not_who_opened_it() -> None:
    done = job(State.SUCCEEDED, waits=None, claimed_at=DUE, ended_at=DUE + MINUTE)
    answer = why(done, flow=flow(step("a", "succeeded"), step("b", "skipped", 0)))
    assert answer.evidence == ("2 of 2 steps are done",)
    stopped = job(State.CANCELLED, waits=None, ended_at=NOW, reason="cancelled: enough")
    answer = why(stopped, flow=flow(step("a", "succeeded"), step("b", "cancelled", 0)))
    assert answer.evidence == ("1 of 2 steps is done, 1 cancelled",)


def test_what_failed_of_a_list_is_found_among_its_jobs() -> None:
    found = job(State.FAILED, error="no", ended_at=NOW)
    steps = flow(step("each", "failed", kind="map", parts=10))
    lines = [command.line for command in why(found, flow=steps).commands]
    assert "duly jobs flow:4711 task:each state:failed" in lines


def test_a_step_that_asks_says_what_until_when_and_how_it_is_answered() -> None:
    asked = job(
        State.BLOCKED,
        id=5003,
        task="wait",
        waits="event",
        waits_for="order.paid:A 7",
        deadline=NOW + 2 * MINUTE,
        reason="waits for order.paid",
    )
    lineage = Lineage(flow=4711, flow_name="etl", step=2, name="payment", kind="wait")
    answer = why(asked, lineage=lineage)
    assert answer.sentence == (
        "job 5003 (payment) was due 01:00 UTC and waits for the event order.paid about A 7, "
        "until 01:07 (in 2 min)."
    )
    assert (answer.lineage, answer.evidence) == (lineage, ())
    assert answer.commands[0].line == "duly events emit order.paid --key 'A 7'"


def test_a_question_without_a_key_or_an_end_is_asked_plainly() -> None:
    asked = job(State.BLOCKED, waits="event", waits_for="order.paid")
    answer = why(asked)
    assert answer.sentence.endswith("and waits for the event order.paid.")
    assert answer.commands[0].line == "duly events emit order.paid"


def test_a_part_says_which_of_how_many_it_is() -> None:
    lineage = Lineage(
        flow=4711, flow_name="etl", step=2, name="transform", kind="map", part=7, parts=10
    )
    assert str(lineage) == "step 2 (transform, part 7 of 10) of flow 4711 etl"
