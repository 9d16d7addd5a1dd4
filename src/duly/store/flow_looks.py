"""Flows as they are looked at."""

from collections.abc import Sequence

import msgspec

from duly.instants import from_us
from duly.model.flow import FlowInfo, FlowProgress, PartInfo, StepInfo, StepState
from duly.store import rows
from duly.store.database import Ask, Operation, Row

_NUMBERS = msgspec.json.Decoder(tuple[int, ...])


def flow(number: int) -> Operation[FlowInfo | None]:
    found = yield Ask("show_flow", {"flow": number})
    if not found:
        return None
    [(_, root, result, remaining, failed, opened_at, ended_at)] = found
    return FlowInfo(
        id=number,
        root=root,
        result=result,
        remaining=remaining,
        failed=failed,
        opened_at=from_us(opened_at),
        ended_at=rows.moment(ended_at),
        steps=tuple(map(_step, (yield Ask("show_steps", {"flow": number})))),
    )


def parts(number: int, step: int, after: int, limit: int) -> Operation[list[PartInfo]]:
    asked = {"flow": number, "step": step, "after": after, "limit": limit}
    return [PartInfo(*row) for row in (yield Ask("show_parts", asked))]


def progress(numbers: Sequence[int]) -> Operation[dict[int, FlowProgress]]:
    if not numbers:
        return {}
    found = yield Ask("flows_among", {"ids": sorted(set(numbers))})
    return {number: FlowProgress(*counts) for number, *counts in found}


def _step(row: Row) -> StepInfo:
    (
        number, name, task, kind, before, when, if_failed, state, parts, remaining, missed, stopped,
        reason, started_at, ended_at, job_id,
    ) = row  # fmt: skip
    return StepInfo(
        number=number,
        name=name,
        task=task,
        kind=kind,
        before=_NUMBERS.decode(before),
        when=when,
        if_failed=if_failed,
        state=StepState(state),
        parts=parts,
        remaining=remaining,
        missed=missed,
        stopped=stopped,
        reason=reason,
        started_at=rows.moment(started_at),
        ended_at=rows.moment(ended_at),
        job_id=job_id,
    )
