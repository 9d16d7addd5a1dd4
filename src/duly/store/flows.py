"""Operations on flows: open, advance, stop.

Each is part of a transaction that ends or opens a job, and is called with the outermost flow
locked. It counts ended steps, starts the steps that can run, and returns the flows that are over:
the caller ends their jobs, and then advances the flows that those jobs are steps of.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from duly.errors import InvalidValue
from duly.flow.progress import Course, FlowFacts, StepFacts
from duly.flow.step_arguments import Filled, StoredPlan, Values, filled
from duly.model.columns import read_rows
from duly.model.event import awaited
from duly.model.flow import Fill, FlowPlan, Source, StepPlan
from duly.model.payload import LONGEST_RESULT, Json, decode
from duly.model.states import State
from duly.store import retries, rows
from duly.store.database import Ask, Operation, Row, Value
from duly.store.ids import CONFIRMED, Ids, all_new
from duly.store.rows import JobEnding, LockedJob, StepPosition
from duly.store.values import EVENTS, JOBS, WORKERS

AT_ONCE = 5_000  # jobs in one statement


_ENCODER = msgspec.json.Encoder()
_PLAN = msgspec.json.Decoder(StoredPlan)
_COUNTED = (
    "number", "state", "waiting", "unmet", "failed", "parts", "remaining", "missed", "stopped",
    "reason",
)  # fmt: skip
_OF_A_FLOW = ("id", "request", "key", "tenant", "submitter")  # not in a step's plan


class FlowRow(NamedTuple):
    """A running flow, with the values that its steps inherit from its job."""

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


def counted(found: Iterable[Row]) -> list[StepFacts]:
    return read_rows(StepFacts, found)


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
    """Return the column values of a step's job, for the INSERT."""
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
            "start_within": rows.microseconds(plan.awaited.timeout),
            "late": "skip",
            "reason": f"waits for {plan.awaited.event}",
        }
    return {name: value for name, value in values.items() if value is not None}


def _stored(step: StepPlan, plan: FlowPlan) -> StoredPlan:
    call = rows.call_values(step.call, 0, 0)
    tenant = {"tenant": step.call.tenant} if step.call.tenant else {}
    over = step.over
    if over is not None and over.source is not None:
        over = msgspec.structs.replace(over, source=_complete(over.source, plan))
    return StoredPlan(
        call={name: value for name, value in call.items() if name not in _OF_A_FLOW} | tenant,
        fills=tuple(Fill(fill.path, _complete(fill.source, plan)) for fill in step.fills),
        over=over,
        awaited=step.awaited,
        defaults=decode(step.defaults),
    )


def _complete(source: Source, plan: FlowPlan) -> Source:
    """Return the source with what its step needs to read it without the plan."""
    if source.step is None:
        return msgspec.structs.replace(source, default=decode(plan.defaults).get(source.argument))
    return msgspec.structs.replace(source, is_list=plan.steps[source.step].over is not None)


@dataclass(slots=True)
class Advanced:
    """The flows that are over now, the queues with new jobs, and the topics to notify."""

    over: dict[int, JobEnding] = field(default_factory=dict)
    queues: list[str] = field(default_factory=list)
    tells: set[str] = field(default_factory=set)

    def add(self, other: "Advanced") -> None:
        self.over |= other.over
        self.queues += other.queues
        self.tells |= other.tells


def begun(number: int) -> Operation["FlowChange | None"]:
    """Read a running flow to change it; None if it is not running any more."""
    found = yield Ask("running_flows", {"ids": [number]})
    if not found:
        return None
    flow = FlowRow(*found[0])
    return FlowChange(flow, Course(flow.facts))


@dataclass(slots=True)
class FlowChange:
    """The changes to one flow in one transaction."""

    flow: FlowRow
    course: Course
    # Of a flow that is resumed: the parts that did not succeed, with the jobs that can be revived,
    # and how many parts there were.
    broken: dict[int, dict[int, int | None]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    found: Advanced = field(default_factory=Advanced)

    def carried_out(self, *, ids: Ids) -> Operation[Advanced]:
        course = self.course
        while course.is_under_way or course.starting:
            while course.is_under_way:
                yield from self._ring()
            if course.starting:
                yield from self._start(ids=ids)
        yield from self._write()
        yield from self._stop()
        if course.is_over:
            self.found.over[self.flow.id] = yield from self._end()
        return self.found

    def _ring(self) -> Operation[None]:
        """Load the steps that follow the ended ones, and advance them."""
        course = self.course
        if course.cancels_rest:
            course.bring(counted((yield Ask("open_steps", {"flow": self.flow.id}))))
        if course.unknown:
            asked = at(self.flow.id, course.unknown)
            course.bring(counted((yield Ask("some_steps", asked))))
        course.go_on()

    def _start(self, *, ids: Ids) -> Operation[None]:
        """Enqueue the jobs of the steps that can run."""
        starting, self.course.starting = self.course.starting, []
        found = yield Ask("step_plans", at(self.flow.id, starting))
        plans = {number: read_plan(text) for number, text in found}
        values = yield from self._values(plans.values())
        for number in starting:
            yield from self._start_one(number, plans[number], values, ids=ids)

    def _values(self, plans: Iterable[StoredPlan]) -> Operation[Values]:
        sources = [source for plan in plans for source in plan.sources]
        wanted = sorted({source.step for source in sources if source.step is not None})
        results: dict[int, list[Json | None]] = {}
        if wanted:
            for step, _, result in (yield Ask("part_results", at(self.flow.id, wanted))):
                results.setdefault(step, []).append(result)
        arguments = decode(Json(self.flow.args)) if len(wanted) < len(sources) else {}
        return Values(arguments, results)

    def _start_one(
        self, number: int, plan: StoredPlan, values: Values, *, ids: Ids
    ) -> Operation[None]:
        try:
            jobs = filled(plan, values)
        except InvalidValue as error:
            self.course.refused(number, str(error))
            return
        again = self.broken.get(number, {})
        if again and self.counts.get(number) != len(jobs):
            yield Ask("drop_parts", at(self.flow.id, [number]))
            again = {}
        revived = {part: job_id for part, job_id in again.items() if job_id is not None}
        if revived:  # with their own ids and recorded attempts
            yield from retries.revive_steps(list(revived.values()))
            yield from self._add_parts(number, revived)
        parts = again or range(len(jobs))
        self.course.started(number, len(jobs), len(parts))
        fresh = {part: jobs[part] for part in parts if part not in revived}
        yield from self._insert(number, plan, fresh, ids=ids)

    def _insert(
        self, number: int, plan: StoredPlan, jobs: Mapping[int, Filled], *, ids: Ids
    ) -> Operation[None]:
        places = dict(zip(jobs, (yield from ids.draw(len(jobs))), strict=True))
        values = [
            job_values(plan, job, self.flow, {"id": places[part], "step": number, "part": part})
            for part, job in jobs.items()
        ]
        for start in range(0, len(values), AT_ONCE):
            batch = values[start : start + AT_ONCE]
            all_new(
                (yield Ask("enqueue_as", {"batch": rows.packed(batch), **CONFIRMED})), len(batch)
            )
        yield from self._add_parts(number, places)
        if plan.awaited is not None:
            yield Ask("compare_steps", {"ids": list(places.values())})
            self.found.tells.add(EVENTS)  # the awaited event may have been emitted already
        elif values:
            self.found.queues.append(str(plan.call["queue"]))

    def _add_parts(self, number: int, places: Mapping[int, int]) -> Operation[None]:
        if places:
            parts = ({"step": number, "part": p, "job_id": job} for p, job in places.items())
            yield Ask("add_parts", {"flow": self.flow.id, "rows": rows.packed(parts)})

    def _write(self) -> Operation[None]:
        changed = [{"flow": self.flow.id, **count_values(step)} for step in self.course.changed]
        if changed:
            yield Ask("set_steps", {"rows": rows.packed(changed)})
        facts = self.course.flow
        yield Ask(
            "set_flow",
            {
                "flow": self.flow.id,
                "remaining": facts.remaining,
                "failed": facts.failed,
                "ending": None if facts.ending is None else facts.ending.value,
                "reason": facts.reason,
            },
        )

    def _stop(self) -> Operation[None]:
        """Ask running jobs of steps that are not needed any more to end."""
        running = [n for n in self.course.stopping if not self.course.steps[n].is_over]
        if running:
            asked = {**at(self.flow.id, running), "reason": f"its flow has ended: {self._why}"}
            yield Ask("stop_parts", asked)
            self.found.tells |= {WORKERS, JOBS}

    @property
    def _why(self) -> str:
        return self.course.flow.reason or "a step failed"

    def _end(self) -> Operation[JobEnding]:
        facts = self.course.flow
        if facts.ending is not None:
            return JobEnding(facts.ending, facts.reason, error=_error(facts.ending, facts.reason))
        if facts.failed:
            return JobEnding(State.FAILED, facts.reason, error=facts.reason)
        done = f"succeeded: {self.flow.steps:,} step{'s' if self.flow.steps > 1 else ''}"
        result = yield from self._result()
        yield Ask("drop_results", {"flow": self.flow.id})
        if result is not None and len(result) > LONGEST_RESULT:
            long = f"its result is too long to be stored ({len(result):,} characters)"
            if self.flow.root == self.flow.id:
                return JobEnding(State.SUCCEEDED, f"{done}; {long}")
            said = f"{long}, or to be passed on: store it elsewhere, and return a reference"
            return JobEnding(State.FAILED, said, error=said)
        return JobEnding(State.SUCCEEDED, done, result=result)

    def _result(self) -> Operation[str | None]:
        number = self.flow.result
        if number is None:
            return None
        found = yield Ask("part_results", at(self.flow.id, [number]))
        [(_, text)] = yield Ask("step_plans", at(self.flow.id, [number]))
        if read_plan(text).over is None:
            return found[0][2] if found else None
        return f"[{','.join(result or 'null' for _, _, result in found)}]"


def _error(state: State, reason: str) -> str | None:
    return reason if state is State.FAILED else None


def at(flow: int, numbers: Sequence[int]) -> dict[str, int | Sequence[int]]:
    return {"flow": flow, "numbers": sorted(numbers)}


def roots(flows: Iterable[int]) -> Operation[tuple[list[int], list[int]]]:
    """Return the outermost flows of these flows, and their schedules: these are locked first."""
    found = yield Ask("flow_roots", {"ids": sorted(set(flows))})
    outermost = sorted({root for _, root, _ in found})
    return outermost, sorted({schedule for _, _, schedule in found if schedule is not None})


def opened(row: LockedJob, plan: FlowPlan, timeout: int | None, *, ids: Ids) -> Operation[Advanced]:
    """Write the steps of a flow that its worker has opened, and start the first of them."""
    number = row.id
    said = f"{len(plan.steps):,} steps" if len(plan.steps) > 1 else "1 step"
    marks = [{"id": number, "waits": "steps", "reason": said, "crashes": 0, "timeout": timeout}]
    yield Ask("detach_jobs", {"rows": rows.packed(marks)})
    root = number
    if row.step is not None and row.parent is not None:
        [(_, root, _)] = yield Ask("flow_roots", {"ids": [row.parent]})
    steps = len(plan.steps)
    new = {"id": number, "root": root, "result": plan.result, "steps": steps}
    if not (yield Ask("add_flows", {"rows": rows.packed([new])})):
        return (yield from _resumed(number, ids=ids))
    yield Ask("add_steps", {"rows": rows.packed(step_values(number, plan))})
    work = yield from begun(number)
    if work is None:
        return Advanced()
    first = [n for n, step in enumerate(plan.steps) if not step.before]
    work.course.bring(counted((yield Ask("some_steps", at(number, first)))))
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
    work.course.bring(counted((yield Ask("open_steps", {"flow": number}))))
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
    work.course.bring(counted((yield Ask("some_steps", at(number, numbers)))))
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
    course.bring(counted((yield Ask("all_steps", {"flow": number}))))
    rescuers = [step.number for step in course.steps.values() if step.rescue]
    if rescuers:
        yield Ask("drop_parts", at(number, rescuers))
    for step, part, job_id, is_failed, is_flow in (yield Ask("broken_parts", {"flow": number})):
        work.broken.setdefault(step, {})[part] = job_id if is_failed or is_flow else None
    work.counts = {step.number: step.parts for step in course.steps.values() if step.parts}
    course.resume()
    return (yield from work.carried_out(ids=ids))
