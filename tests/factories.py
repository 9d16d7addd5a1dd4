"""Plans and calls for tests: plain ones, and ones in which every column has a value of its own.

A statement that writes ``tenant`` where it should write ``submitter`` passes every test in which
both are empty. With a different value in every column it fails the first.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from duly.model.job import JobRequest, Owner
from duly.model.limit import NamedLimit, Rate
from duly.model.payload import Json, encode
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan
from duly.model.terms import Callback, Terms
from duly.model.worker import Profile
from duly.policy.retry import Retry

NEEDED = {"the resource": 37}
_DISTINCT_LABEL: dict[str, Any] = {
    "task": "the task",
    "queue": "the queue",
    "priority": 7,
    "tenant": "the tenant",
    "submitter": "the submitter",
    "title": "the title",
    "tags": ("first tag", "second tag"),
    "version": 3,
    "limits": (
        NamedLimit(
            name="the lane",
            template="the {lane}",
            concurrency=41,
            rate=Rate(43, timedelta(seconds=47)),
        ),
    ),
    "needs": NEEDED,
    "terms": Terms(
        timeout=timedelta(minutes=53),
        keep_result=timedelta(days=59),
        on_success=Callback(task="the follower", queue="followers", argument="the argument"),
    ),
}


def plan(name: str = "report", rule: str = "every 1m", **changes: Any) -> Plan:
    """A plan of one rule and one task; policies may be given one by one."""
    policies = {
        field: changes.pop(field) for field in Policies.__dataclass_fields__ if field in changes
    }
    if policies:
        changes["policies"] = replace(changes.get("policies", Policies()), **policies)
    return Plan(**{"task": "work", **changes, "name": name, "rule": rule})


def call(task: str = "work", **changes: Any) -> JobRequest:
    """A call of one task, at once."""
    return JobRequest(**{**changes, "task": task})


def profile(name: str = "worker", **changes: Any) -> Profile:
    """A worker of one queue that knows one task; tasks may be given without their signatures."""
    tasks = changes.pop("tasks", ("work",))
    signatures = {task: f"signature of {task}" for task in tasks}
    return Profile(**{"queues": ("default",), "signatures": signatures, **changes, "name": name})


def distinct_plan(end: datetime) -> Plan:
    """A plan in which no two columns, and no two policies, have the same value."""
    return Plan(
        **_DISTINCT_LABEL,
        name="the name",
        args=encode({"argument": "of the plan"}),
        owner=Owner.FILE,
        rule="0 * * * *",
        zone="Asia/Kathmandu",
        policies=Policies(
            overlap="allow",
            missed=Missed("all", at_most=11, grace=timedelta(seconds=13)),
            start_within=timedelta(minutes=17),
            late="hurry",
            dst="elapsed",
            exclude="dates(2026-03-05)",
            jitter=timedelta(seconds=19),
            start=end - timedelta(days=3_000),
            end=end,
            max_runs=10_007,
            first="wait",
            retry=distinct_retry(),
        ),
    )


def distinct_call(run_after: datetime | timedelta | None = None) -> JobRequest:
    """A call in which no two columns have the same value."""
    return JobRequest(
        **_DISTINCT_LABEL,
        args=encode({"argument": "of the call"}),
        owner=Owner.PERSON,
        run_after=run_after,
        key="the key",
        if_exists="keep",
        start_within=timedelta(minutes=23),
        late="hurry",
        retry=distinct_retry(),
    )


def distinct_retry() -> Json:
    return Retry(attempts=2, backoff="linear", first="29s", cap="31m", jitter=False).as_json()
