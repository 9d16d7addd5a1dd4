"""Between the steps of a flow and their rows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from duly.flow.progress import FlowFacts, StepFacts
from duly.flow.step_arguments import (
    Filled,
    StoredAwaited,
    StoredFill,
    StoredOver,
    StoredPlan,
    StoredSource,
)
from duly.model.event import awaited
from duly.model.flow import Awaited, FlowPlan, Over, Source, StepPlan, StepState
from duly.model.payload import decode
from duly.model.states import State
from duly.store import rows
from duly.store.database import Row, Value

_ENCODER = msgspec.json.Encoder()
_PLAN = msgspec.json.Decoder(StoredPlan)
_NUMBERS = msgspec.json.Decoder(tuple[int, ...])
_COUNTED = (
    "number", "state", "waiting", "unmet", "failed", "parts", "remaining", "missed", "stopped",
    "reason",
)  # fmt: skip
_OF_A_FLOW = ("id", "request", "key", "tenant", "submitter")  # what a step is not told by its plan


class FlowRow(NamedTuple):
    """A flow that runs, with what its steps take from its job."""

    id: int
    root: int
    result: int | None
    steps: int
    remaining: int
    failed: int
    ending: str | None
    reason: str
    args: str
    due_at: int
    tenant: str
    submitter: str

    @property
    def facts(self) -> FlowFacts:
        return FlowFacts(
            remaining=self.remaining,
            failed=self.failed,
            ending=None if self.ending is None else State(self.ending),
            reason=self.reason,
        )


def counted(found: Iterable[Row]) -> Iterator[StepFacts]:
    for (
        number, name, when, if_failed, wanted, rescue, behind, state,
        waiting, unmet, failed, parts, remaining, missed, stopped, reason,
    ) in found:  # fmt: skip
        yield StepFacts(
            number=number,
            name=name,
            when=when,
            if_failed=if_failed,
            wanted=bool(wanted),
            rescue=bool(rescue),
            behind=_NUMBERS.decode(behind),
            state=StepState(state),
            waiting=waiting,
            unmet=unmet,
            failed=failed,
            parts=parts,
            remaining=remaining,
            missed=missed,
            stopped=stopped,
            reason=reason,
        )


def count_values(step: StepFacts) -> dict[str, object]:
    return {name: getattr(step, name) for name in _COUNTED}


def step_values(flow: int, plan: FlowPlan) -> Iterator[dict[str, object]]:
    for number, (step, behind) in enumerate(zip(plan.steps, plan.behind, strict=True)):
        yield {
            "flow": flow,
            "number": number,
            "name": step.name,
            "task": step.call.task,
            "plan": _ENCODER.encode(_stored(step, plan)).decode(),
            "follows": _ENCODER.encode(step.before).decode(),
            "leads_to": _ENCODER.encode(behind).decode(),
            "runs_when": step.when,
            "if_failed": step.if_failed,
            "kind": "map" if step.over else "wait" if step.awaited else "step",
            "wanted": int(step.wanted),
            "rescue": int(step.rescue),
            "waiting": len(step.before),
        }


def read_plan(text: str) -> StoredPlan:
    return _PLAN.decode(text)


def job_values(
    plan: StoredPlan, one: Filled, flow: FlowRow, place: Mapping[str, int]
) -> dict[str, Value]:
    """A job of a step, as it is inserted."""
    values: dict[str, Any] = {
        **plan.call,
        "tenant": plan.call.get("tenant") or flow.tenant,
        "submitter": flow.submitter,
        "args": one.args,
        "title": one.title,
        "limits": one.limits,
        "due_at": flow.due_at,
        "parent": flow.id,
        **place,
    }
    if plan.awaited is not None:
        values |= {
            "waits": "event",
            "waits_for": awaited(plan.awaited.event, one.key),
            "start_within": plan.awaited.timeout,
            "late": "skip",
            "reason": f"waits for {plan.awaited.event}",
        }
    return {name: value for name, value in values.items() if value is not None}


def _stored(step: StepPlan, plan: FlowPlan) -> StoredPlan:
    call = rows.call_values(step.call, 0, 0)
    tenant = {"tenant": step.call.tenant} if step.call.tenant else {}
    return StoredPlan(
        call={name: value for name, value in call.items() if name not in _OF_A_FLOW} | tenant,
        fills=tuple(StoredFill(fill.path, _source(fill.source, plan)) for fill in step.fills),
        over=None if step.over is None else _over(step.over, plan),
        awaited=None if step.awaited is None else _awaited(step.awaited),
        defaults=decode(step.defaults),
    )


def _source(source: Source, plan: FlowPlan) -> StoredSource:
    if source.step is None:
        default = decode(plan.defaults).get(source.argument)
        return StoredSource(argument=source.argument, default=default)
    return StoredSource(step=source.step, is_list=plan.steps[source.step].over is not None)


def _over(over: Over, plan: FlowPlan) -> StoredOver:
    source = None if over.source is None else _source(over.source, plan)
    return StoredOver(argument=over.argument, source=source, items=over.items)


def _awaited(event: Awaited) -> StoredAwaited:
    return StoredAwaited(event.event, event.key, rows.microseconds(event.timeout))
