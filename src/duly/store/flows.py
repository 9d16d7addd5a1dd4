"""Operations on flows: open, advance, stop.

Each is part of a transaction that ends or opens a job, and is called with the outermost flow
locked. It counts ended steps, starts the steps that can run, and returns the flows that are over:
the caller ends their jobs, and then advances the flows that those jobs are steps of.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from duly.model.flow import FlowPlan
from duly.model.states import State
from duly.store import flow_work, rows
from duly.store.database import Ask, Operation
from duly.store.flow_work import Advanced, at, begun
from duly.store.ids import Ids
from duly.store.rows import HeldRow, JobEnding, StepPosition


def roots(flows: Iterable[int]) -> Operation[tuple[list[int], list[int]]]:
    """Return the outermost flows of these flows, and their schedules: these are locked first."""
    found = yield Ask("flow_roots", {"ids": sorted(set(flows))})
    outermost = sorted({root for _, root, _ in found})
    return outermost, sorted({schedule for _, _, schedule in found if schedule is not None})


def opened(row: HeldRow, plan: FlowPlan, timeout: int | None, *, ids: Ids) -> Operation[Advanced]:
    """Write the steps of a flow that its worker has opened, and start the first of them."""
    number = row.id
    said = f"{len(plan.steps):,} steps" if len(plan.steps) > 1 else "1 step"
    marks = [{"id": number, "reason": said, "timeout": timeout}]
    yield Ask("open_flows", {"rows": rows.packed(marks)})
    root = number
    if row.step is not None and row.parent is not None:
        [(_, root, _)] = yield Ask("flow_roots", {"ids": [row.parent]})
    steps = len(plan.steps)
    new = {"id": number, "root": root, "result": plan.result, "steps": steps}
    if not (yield Ask("add_flows", {"rows": rows.packed([new])})):
        return (yield from _resumed(number, ids=ids))
    yield Ask("add_steps", {"rows": rows.packed(flow_work.step_values(number, plan))})
    work = yield from begun(number)
    if work is None:
        return Advanced()
    first = [n for n, step in enumerate(plan.steps) if not step.before]
    work.course.bring(flow_work.counted((yield Ask("some_steps", at(number, first)))))
    work.course.starting += first
    return (yield from work.carried_out(ids=ids))


def advance(ended: Sequence[tuple[StepPosition, JobEnding]], *, ids: Ids) -> Operation[Advanced]:
    """Advance flows whose steps' jobs have ended."""
    found = Advanced()
    for number, mine in groupby(sorted(ended, key=_flow), _flow):
        found.add((yield from _advanced(number, list(mine), ids=ids)))
    return found


def stopped(number: int, state: State, reason: str, *, ids: Ids) -> Operation[Advanced | None]:
    """Stop a flow: cancel waiting steps, signal running ones; None if it is ending already."""
    work = yield from begun(number)
    if work is None:
        return None
    yield Ask("forget_signals", {"ids": [number]})
    yield Ask("no_deadline", {"flow": number})
    if work.course.flow.ending is not None:
        return None
    work.course.bring(flow_work.counted((yield Ask("open_steps", {"flow": number}))))
    work.course.stop(state, reason)
    return (yield from work.carried_out(ids=ids))


def stranded(limit: int) -> Operation[list[tuple[StepPosition, JobEnding]]]:
    """Return steps whose jobs have ended without their flow being advanced."""
    found = yield Ask("stranded_parts", {"limit": limit})
    return [
        (
            StepPosition(flow, step, part),
            JobEnding(State.FAILED, "its job is gone")
            if state is None
            else JobEnding(State(state), reason, result=result),
        )
        for flow, step, part, state, reason, result in found
    ]


def forget(numbers: Sequence[int]) -> Operation[list[int]]:
    """Delete the rows of flows whose jobs are deleted; return the jobs of their steps."""
    ids = list(numbers)
    jobs = [job for (job,) in (yield Ask("jobs_of_flows", {"ids": ids}))]
    for what in ("remove_flow_parts", "remove_flow_steps", "remove_flows"):
        yield Ask(what, {"ids": ids})
    return jobs


def _flow(one: tuple[StepPosition, JobEnding]) -> int:
    return one[0].flow


def _advanced(
    number: int, ended: Sequence[tuple[StepPosition, JobEnding]], *, ids: Ids
) -> Operation[Advanced]:
    work = yield from begun(number)
    if work is None:
        return Advanced()
    steps = work.course.steps
    numbers = sorted({place.step for place, _ in ended})
    work.course.bring(flow_work.counted((yield Ask("some_steps", at(number, numbers)))))
    parts = []
    for place, ending in ended:
        result = ending.result if steps[place.step].wanted else None
        parts.append({**place._asdict(), "state": ending.state, "result": result})
        work.course.job_ended(place.step, ending.state, ending.reason)
    yield Ask("end_parts", {"rows": rows.packed(parts)})
    return (yield from work.carried_out(ids=ids))


def _resumed(number: int, *, ids: Ids) -> Operation[Advanced]:
    """Resume a failed flow that was retried and is opened again."""
    work = yield from begun(number)
    if work is None:
        return Advanced()
    course = work.course
    if not course.is_over:
        return work.found  # its job was reclaimed as lost while its steps went on: they still do
    course.bring(flow_work.counted((yield Ask("all_steps", {"flow": number}))))
    rescuers = [step.number for step in course.steps.values() if step.rescue]
    if rescuers:
        yield Ask("drop_parts", at(number, rescuers))
    for step, part, job_id, is_failed, is_flow in (yield Ask("broken_parts", {"flow": number})):
        work.broken.setdefault(step, {})[part] = job_id if is_failed or is_flow else None
    work.counts = {step.number: step.parts for step in course.steps.values() if step.parts}
    course.resume()
    return (yield from work.carried_out(ids=ids))
