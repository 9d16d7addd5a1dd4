"""Schedules and calls as users write them, all kinds in all combinations, rolled by the dice."""

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypedDict, get_args

from duly.model.job import IfExists, JobRequest
from duly.model.limit import Limit, NamedLimit
from duly.model.payload import Json, encode
from duly.model.policies import Catchup, Late, Missed, Overlap, Policies
from duly.model.schedule import Plan
from duly.model.terms import NO_TERMS, Callback, Terms
from duly.policy.reaction import FIELD
from duly.policy.retry import Retry
from tests.simulation.tasks import CALLBACK, FLOWS, PING, QUEUES, RESOURCE, STOP, TASKS

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kathmandu")
KEYS = ("a", "b")
TENANTS = ("", "one", "two", "three")
CUSTOMERS = (1, 2)
LIMITS = (
    Limit("one:{customer}", concurrency=1),
    Limit("two", concurrency=2),
    Limit("pace:{customer}", concurrency=2, rate="5/s"),
    Limit("rate", rate="10/s"),
)
RULES = (
    "every 1s",
    "every 7s",
    "every 13s",
    "every 30s",
    "every 1m",
    "every 10m",
    "*/5 * * * * *",
    "*/2 * * * *",
    "*/1 1-3 * * *",
    "0,30 1-3 * * *",
    "*-*-* 1,2:*:0/10",
    "*:0/1:20",
    "*-*-* 0..3:0/2:10",
    "every 20s | *:*:05",
    "every 10s - (*:0/3 lasting=1m)",
    "every 25s - (*:0/7:30 lasting=40s)",
)
ON = (
    f"on {PING}",
    f'on {PING} key="k:{{k}}" debounce=3s',
    f'on {PING} key="k:{{k}}" run_after=10s unless={STOP}',
    f'on {PING} key="k:{{k}}" run_after=20s unless={STOP}',
    f'on {PING} run_after="5s from at"',
)
SPACED = ("spaced 1s", "spaced 5s", "spaced 20s", "spaced 5s - (*:0/4 lasting=1m)")


def rolled_plan(dice: random.Random, name: str, now: datetime) -> Plan:
    if dice.random() < 0.2:
        return rolled_reaction(dice, name)
    plan = Plan(
        name=name,
        task=rolled_task(dice),
        queue=dice.choice(QUEUES),
        priority=dice.choice((-10, 0, 0, 20)),
        rule=rolled_rule(dice, now),
        zone=dice.choice(ZONES),
        args=encode({"of": name}),
        **rolled_demands(dice),
    )
    return replace(plan, policies=rolled_policies(dice, plan, now))


def rolled_reaction(dice: random.Random, name: str) -> Plan:
    """A schedule that is due when something happens."""
    demands = rolled_demands(dice)
    demands["tenant"] = ""  # what happens is nobody's in particular
    return Plan(
        name=name,
        task=rolled_task(dice),
        queue=dice.choice(QUEUES),
        rule=dice.choice(ON),
        args=encode({"of": {FIELD: "k"}}),
        policies=Policies(
            overlap="allow",
            start_within=_perhaps(dice, 1, 5, 30),
            late=dice.choice(get_args(Late)),
            retry=rolled_retry(dice),
        ),
        **demands,
    )


def rolled_rule(dice: random.Random, now: datetime) -> str:
    roll = dice.random()
    if roll < 0.2:
        return dice.choice(SPACED)
    if roll < 0.3:
        return (now + timedelta(seconds=dice.randint(1, 120))).isoformat(timespec="seconds")
    return dice.choice(RULES)


def rolled_policies(dice: random.Random, plan: Plan, now: datetime) -> Policies:
    """The policies for a plan, of which only those are bounded that lie in the story."""
    spaced = plan.rule.startswith("spaced")
    bounds: dict[str, datetime] = {}
    if dice.random() < 0.15:
        bounds["end"] = now + timedelta(seconds=dice.randint(20, 400))
    if dice.random() < 0.15:
        bounds["start"] = now + timedelta(seconds=dice.randint(1, 15))
    return Policies(
        overlap=dice.choice(get_args(Overlap)),
        missed=rolled_missed(dice),
        start_within=_perhaps(dice, 1, 5, 30),
        late=dice.choice(get_args(Late)),
        dst=dice.choice(("cron", "cron", "systemd", "elapsed")),
        exclude=None if spaced or dice.random() < 0.8 else "*:0/3:30 lasting=40s",
        jitter=_perhaps(dice, 1, 10),
        first=dice.choice(("now", "wait")),
        retry=rolled_retry(dice),
        start=bounds.get("start"),
        end=bounds.get("end"),
    )


def rolled_missed(dice: random.Random) -> Missed:
    return Missed(
        policy=dice.choice(get_args(Catchup)),
        at_most=dice.choice((1, 2, 5, 20)),
        spacing=_perhaps(dice, 1, 3),
        grace=timedelta(seconds=dice.choice((1, 10, 60))),
    )


def rolled_retry(dice: random.Random) -> Json | None:
    if dice.random() < 0.4:
        return None
    return Retry(attempts=dice.randint(1, 5), first=f"{dice.randint(1, 5)}s", cap="20s").as_json()


def rolled_call(dice: random.Random, number: int, now: datetime) -> JobRequest:
    """What a client asks for. Its number stands in the arguments: that is how it is found again."""
    keyed = dice.random() < 0.3
    after: datetime | timedelta | None = None
    if dice.random() < 0.5:
        after = timedelta(seconds=dice.random() * 30)
        after = now + after if dice.random() < 0.5 else after
    poison = {"poison": True} if dice.random() < 0.12 else {}
    return JobRequest(
        task=rolled_task(dice),
        queue=dice.choice(QUEUES),
        priority=dice.choice((0, 0, 10, -50, -100)),
        args=encode({"call": number, **poison}),
        run_after=after,
        key=dice.choice(KEYS) if keyed else None,
        if_exists=dice.choice(("replace", *get_args(IfExists))),
        start_within=_perhaps(dice, 1, 10),
        late=dice.choice(get_args(Late)),
        retry=rolled_retry(dice),
        **rolled_demands(dice),
    )


def rolled_task(dice: random.Random) -> str:
    """A task, or now and then a flow, which is asked for in the same way."""
    return dice.choice((*FLOWS, "patient") if dice.random() < 0.2 else TASKS)


class Demands(TypedDict):
    tenant: str
    limits: tuple[NamedLimit, ...]
    needs: dict[str, int]
    terms: Terms


def rolled_demands(dice: random.Random) -> Demands:
    """What a job asks of those who run it; half of them ask nothing."""
    if dice.random() < 0.5:
        return Demands(tenant=dice.choice(TENANTS), limits=(), needs={}, terms=NO_TERMS)
    count = dice.choice((0, 1, 1, 2))
    values = {"customer": dice.choice(CUSTOMERS)}
    return Demands(
        tenant=dice.choice(TENANTS),
        limits=tuple(limit.rendered(values) for limit in dice.sample(LIMITS, count)),
        needs={RESOURCE: dice.choice((1, 2))} if dice.random() < 0.2 else {},
        terms=rolled_terms(dice),
    )


def rolled_terms(dice: random.Random) -> Terms:
    def perhaps() -> Callback | None:
        return Callback(task=CALLBACK, queue="other") if dice.random() < 0.3 else None

    return Terms(
        timeout=_perhaps(dice, 1, 5),
        on_success=perhaps(),
        on_failure=perhaps(),
        on_cancelled=perhaps(),
    )


def _perhaps(dice: random.Random, *seconds: int) -> timedelta | None:
    return timedelta(seconds=dice.choice(seconds)) if dice.random() < 0.3 else None
