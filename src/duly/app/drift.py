"""Where a schedule differs from what code declares: somebody has edited it, and that stays.

Until somebody takes it back: then it is the code's again, and follows it from there.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from duly.app.changing import edited
from duly.app.views import Schedule
from duly.errors import WrongState
from duly.model.policies import Policies
from duly.model.schedule import Plan
from duly.policy.redaction import hidden_json
from duly.store.protocol import Store

# What a plan says by saying nothing.
_CHOICES: Final = {
    "overlap": Policies().overlap,
    "missed": Policies().missed.policy,
    "late": Policies().late,
    "dst": Policies().dst,
}


@dataclass(frozen=True, slots=True)
class Drift:
    """What differs: here, and in the code of an app."""

    app: str
    field: str
    here: str
    in_code: str

    def __str__(self) -> str:
        return f"{self.field} is {self.here} here, and {self.in_code} in {self.app}"


async def drift(store: Store, name: str) -> list[Drift]:
    known = await store.schedules.in_code(name)
    if known is None:
        return []
    app, declared = known
    here, code = _told((await store.schedules.get(name)).plan), _told(declared)
    return [
        Drift(app, field, here.get(field, "none"), code.get(field, "none"))
        for field in sorted({*here, *code})
        if here.get(field) != code.get(field)
    ]


async def taken_back(store: Store, name: str, *, who: str) -> Schedule:
    """Let what code declares count again."""
    known = await store.schedules.in_code(name)
    if known is None:
        raise WrongState(f'"{name}" is not declared in code: there is nothing to take back')
    _, declared = known
    return await edited(store, name, lambda _: declared, who=who)


def _told(plan: Plan) -> dict[str, str]:
    return dict(_pieces(plan))


def _pieces(plan: Plan) -> Iterator[tuple[str, str]]:
    values = {
        "rule": plan.rule,
        "zone": plan.zone,
        "task": plan.task,
        "title": plan.title,
        "queue": plan.queue,
        "priority": plan.priority,
        "tags": list(plan.tags),
        "timeout": str(plan.terms.timeout) if plan.terms.timeout else None,
        **_CHOICES,
        **json.loads(plan.policies.as_json()),
    }
    yield "args", hidden_json(plan.task, plan.args)
    for field, value in values.items():
        if value not in (None, "", []):
            yield field, value if isinstance(value, str) else json.dumps(value)
