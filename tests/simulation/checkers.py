"""What must hold after every commit.

The checkers keep their own picture of the jobs and schedules, made from the changes that were seen
and never from what the store answers. After each commit they hold the changes against the promises:

* a job's state follows the state before by a row of the table, and a job that is gone has ended;
* who settles a job shows the fence of its claim, and fences of a job only rise;
* nothing is begun early, nor by a worker without a lease, nor taken from one that has its lease;
* of a schedule whose runs must not overlap, one job at most is past its waiting;
* a due moment has one row, written when it was due, and a cursor never goes back.

What can only be judged at the end (every moment covered, nothing left undone) is in ``ledger`` and
``liveness``.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from duly.model.fire import Cause, Outcome
from duly.model.payload import Json
from duly.model.states import ENDED, LIVE, TRANSITIONS, WAITING, State
from duly.policy.retry import Retry
from duly.policy.verdict import HAUNTED, POISON
from tests.simulation.callbacks import Callbacks
from tests.simulation.counts import Asked, Counts
from tests.simulation.events import Events
from tests.simulation.flows import Flows
from tests.simulation.ledger import Ledger
from tests.simulation.limits import Lanes
from tests.simulation.watch import (
    EndRow,
    FireRow,
    JobRow,
    KeyRow,
    ScheduleRow,
    Seen,
    SignalRow,
    WorkerRow,
)

EDGES = {(before, after) for before, moves in TRANSITIONS.items() for after in moves.values()}


class Transaction(NamedTuple):
    """What was committed: by whom, when by the store's clock, and what it changed."""

    host: str
    now: int
    asked: list[Asked]
    changes: list[Seen]
    since: int = 0  # the commit behind which the operation began


@dataclass(slots=True)
class Known:
    """A job as the changes show it."""

    row: JobRow
    state: State
    exclusive: bool  # of a schedule whose runs must not overlap
    keyless: bool = False  # another job has taken its key over
    returned: bool = False  # by its worker, to be ready at once, whatever the time is there

    @property
    def unblocked(self) -> bool:
        """Whether it is past the jobs of its schedule before it, whatever else it waits for."""
        return self.state in LIVE and (self.state is not State.BLOCKED or bool(self.row.waits))


class Checkers:
    """The picture, and the promises it is held against."""

    def __init__(
        self,
        sometimes: Counter[str],
        violated: Callable[[str], None],
        holder_lives: Callable[[int | None], bool],
    ) -> None:
        self.sometimes = sometimes
        self.violated = violated
        self.strict = True  # rows are read under locks: even for a moment nothing waits in vain
        self.isolated = False  # what crashed once runs in a process of its own
        self.jobs: dict[int, Known] = {}
        self.counts = Counts(sometimes)
        self.ledger = Ledger(sometimes, violated)
        self.limits = Lanes(sometimes, violated)
        self.flows = Flows(sometimes, violated)
        self._callbacks = Callbacks(sometimes, violated)
        self.events = Events(self.ledger)
        self.settled: dict[tuple[int, int], State] = {}  # what a job became, by its fence
        self.calls: dict[int, set[int]] = {}  # the jobs that a client's call was enqueued or run as
        self.taken_back: Callable[[int], None] = lambda _: None
        self.claimed: list[tuple[int, int]] = []  # jobs and fences of the last transaction
        self._holder_lives = holder_lives
        self._of_schedule: dict[int, dict[int, Known]] = {}  # those that live
        self._leases: dict[int, int] = {}
        self._latest = 0  # the store's clock at its highest
        self._touched: dict[int, None] = {}
        self._shown: dict[int, int] = {}  # the fences that this transaction shows
        self._transaction = Transaction("", 0, [], [])
        self._eyes: dict[str, Callable[[Any, Any], None]] = {
            "duly_job": self._job,
            "duly_history": self._end,
            "duly_failed": self._end,
            "duly_schedule": self._schedule,
            "duly_fire": self._fire,
            "duly_worker": self._lease,
            "duly_job_key": self._key,
            "duly_signal": self._signal,
            "duly_named_limit": self.limits.named_limit,
            "duly_holding": self.limits.holding,
            "duly_limit_rule": self.limits.rule,
            "duly_queue": self.limits.queue,
            "duly_flow": self.flows.flow,
            "duly_step": self.flows.step,
            "duly_part": self.flows.part,
            "duly_event": self.events.event,
        }

    def committed(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.claimed = []
        self._latest = max(self._latest, transaction.now)
        self.counts.count(transaction.host, transaction.asked, since=transaction.since)
        if not transaction.changes:
            return
        self._shown = _shown(transaction.asked)
        for table, before, after in transaction.changes:
            self._see(table, before, after)
        self.limits.judge(transaction.now)
        self._callbacks.judge()
        self.flows.judge()
        for schedule_id in self._touched:
            self._overlaps(schedule_id)
        self._touched.clear()

    def unpaired(self) -> Iterator[str]:
        """At the end: fires that say "queued" and their jobs stand for each other."""
        fires = self.ledger.fires
        for fire in fires.values():
            job = self.jobs.get(fire.job_id or 0)
            if fire.outcome == Outcome.QUEUED and (job is None or job.row.fire_id != fire.id):
                yield f"{fire} is queued, and its job is {job}"
        for job in self.jobs.values():
            of = fires.get(job.row.fire_id or 0)
            if of is None or (of.cause == Cause.WITHDRAWN and job.state is State.CANCELLED):
                continue  # what started it was called off
            if of.outcome != Outcome.QUEUED or of.job_id != job.row.id:
                yield f"{job} stands for {of}"

    def _see(self, table: str, before: Any, after: Any) -> None:  # noqa: ANN401 – rows of a table
        see = self._eyes.get(table)
        if see is not None:
            see(before, after)

    def _schedule(self, before: ScheduleRow | None, after: ScheduleRow | None) -> None:
        self.ledger.schedule(before, after, rewinds=self._asks("rewind_schedule"))

    def _end(self, _: EndRow | None, after: EndRow | None) -> None:
        if after is not None:  # else it was pruned
            self._ended(after)

    def _signal(self, before: SignalRow | None, after: SignalRow | None) -> None:
        if before is None and after is not None:
            self.sometimes["replace signal"] += "replaced" in after.reason

    def _job(self, before: JobRow | None, after: JobRow | None) -> None:
        if before is None:
            self._made(cast(JobRow, after))
        elif after is None:
            self._gone(before)
        else:
            self._changed(before, after)
        self.limits.job(before, after)

    def _fire(self, before: FireRow | None, after: FireRow | None) -> None:
        if after is not None:
            self.ledger.fire(before, after, latest=self._latest)
        elif not self._asks("prune_fires"):
            self.ledger.taken_back(cast(FireRow, before))

    def _made(self, row: JobRow) -> None:
        state = State(row.state)
        known = self.jobs.get(row.id)
        if known is not None:
            self._edge(known, state)
            self.sometimes["failed job retried"] += 1
        elif state not in WAITING:
            self.violated(f"job {row.id} begins its life as {state}")
        else:
            self._callbacks.made(row)
        exclusive = self.ledger.exclusive(row.schedule_id)
        self.jobs[row.id] = made = Known(row, state, exclusive=exclusive)
        if row.key is None:  # else it may be replaced, and asked for again, before it ever runs
            self._call(row)
        if row.schedule_id is not None:
            self._of_schedule.setdefault(row.schedule_id, {})[row.id] = made
            self._touched[row.schedule_id] = None
            if known is None:
                self.ledger.job_made(row)

    def _changed(self, before: JobRow, row: JobRow) -> None:
        known = self.jobs[row.id]
        state = State(row.state)
        if state is not known.state:
            self._edge(known, state)
        if state is State.RUNNING and before.state != state:
            self._claimed(known, before, row)
        elif before.state == State.RUNNING and state is not State.RUNNING:
            self._left(known, state)
            self._attempts(row)
            known.returned = state is State.READY
        if before.state == State.BLOCKED and state is not State.BLOCKED:
            self.sometimes["blocked freed"] += 1
        if row.is_flow and not before.is_flow:
            self._opened(row)
        known.row, known.state = row, state
        if row.schedule_id != before.schedule_id:
            self._moved(known, before)
        if row.schedule_id is not None:
            self._touched[row.schedule_id] = None
            if row.fire_id != before.fire_id:
                self.sometimes["take-over"] += 1

    def _moved(self, known: Known, before: JobRow) -> None:
        """An event that another schedule reacts to has taken its key, and it stands for that."""
        if before.schedule_id is not None:
            self._of_schedule[before.schedule_id].pop(before.id, None)
        if known.row.schedule_id is not None:
            self._of_schedule.setdefault(known.row.schedule_id, {})[before.id] = known

    def _opened(self, row: JobRow) -> None:
        """A flow goes on without its worker, by the right of its fence."""
        if self._shown.get(row.id) != row.fence:
            self.violated(f"flow {row.id} was opened by {self._shown.get(row.id)}, not {row.fence}")
        self.settled[row.id, row.fence] = State.RUNNING
        self.sometimes["flow opened"] += 1

    def _gone(self, row: JobRow) -> None:
        if self.jobs[row.id].state not in ENDED:
            self.violated(f"job {row.id} is gone, and it was {row.state}")
        if row.schedule_id is not None:
            self._of_schedule[row.schedule_id].pop(row.id, None)
            self._touched[row.schedule_id] = None

    def _ended(self, row: EndRow) -> None:
        known = self.jobs[row.id]
        state = State(row.state)
        if known.state is State.RUNNING:
            self._left(known, state)
        self._edge(known, state)
        self.sometimes["step answered"] += (known.state, state) == (State.BLOCKED, State.SUCCEEDED)
        known.state = state
        self._callbacks.ended(known.row, state)
        self.sometimes[f"ended {state}"] += 1
        if row.crashes >= POISON:
            self.sometimes["poison reached"] += 1

    def _edge(self, known: Known, state: State) -> None:
        if (known.state, state) not in EDGES:
            self.violated(f"job {known.row.id} went from {known.state} to {state}")

    def _claimed(self, known: Known, before: JobRow, row: JobRow) -> None:
        if row.ready_at > self._latest and not known.returned:
            early = (row.ready_at - self._latest) / 1e6
            self.violated(f"job {row.id} was begun {early} s before it was to be ready")
        if row.fence <= before.fence:
            self.violated(f"job {row.id}: fence {row.fence} comes after fence {before.fence}")
        self.claimed.append((row.id, row.fence))
        if row.attempt != before.attempt + 1:
            self.violated(f"job {row.id}: after attempt {before.attempt} comes {row.attempt}")
        if self._leases.get(row.worker or 0, 0) <= self._transaction.now:
            self.violated(f"worker {row.worker} claimed job {row.id} without a lease")
        if known.state is State.RUNNING:
            self.violated(f"job {row.id} was claimed while it ran")
        self._call(row)

    def _left(self, known: Known, state: State) -> None:
        """A job that ran does not run any more: by the right of its fence."""
        row = known.row
        if row.is_flow:
            self.flows.left(row)
            self.sometimes[f"flow {state}"] += 1
            return
        shown = self._shown.get(row.id)
        if shown != row.fence:
            self.violated(
                f"job {row.id} runs under fence {row.fence}, and became {state} by somebody who "
                f"shows fence {shown}"
            )
        self.settled[row.id, row.fence] = state
        if self._asks("lost_jobs"):
            self.sometimes["taken back"] += 1
            self.taken_back(row.id)
            if self._holder_lives(row.worker):
                self.sometimes["lease expired while the holder was alive"] += 1
            if self._leases.get(row.worker or 0, 0) > self._latest:
                self.violated(f"job {row.id} was taken from worker {row.worker}, which has a lease")

    def _attempts(self, row: JobRow) -> None:
        allowed = Retry.from_json(Json(row.retry)).attempts if row.retry else Retry().attempts
        if row.attempt > allowed + row.crashes:
            self.violated(f"job {row.id} waits again after attempt {row.attempt} of {allowed}")
        if row.crashes >= (HAUNTED if self.isolated else POISON):
            self.violated(f"job {row.id} waits again after {row.crashes} crashes")

    def _lease(self, before: WorkerRow | None, after: WorkerRow | None) -> None:
        if after is None:
            return
        if (
            before is not None
            and after.lease_until > before.lease_until
            and before.lease_until <= self._transaction.now
        ):
            self.violated(f"the lease of worker {after.id} was renewed after it had expired")
        self._leases[after.id] = after.lease_until

    def _key(self, before: KeyRow | None, after: KeyRow | None) -> None:
        if before is None or after is None or before.job_id == after.job_id:
            return
        holder = self.jobs.get(before.job_id)
        if holder is None or holder.state in ENDED:
            return
        if holder.state in WAITING:
            self.violated(f'key "{before.key}" has a second job while {before.job_id} waits')
        holder.keyless = True
        self.sometimes["key taken over from a running job"] += 1

    def _call(self, row: JobRow) -> None:
        number = json.loads(row.args).get("call") if row.step is None else None
        if number is not None:
            self.calls.setdefault(number, set()).add(row.id)

    def _asks(self, statement: str) -> bool:
        """Whether the transaction that is judged has asked this."""
        return any(ask.statement == statement for ask in self._transaction.asked)

    def _overlaps(self, schedule_id: int) -> None:
        jobs = self._of_schedule.get(schedule_id, {}).values()
        if not self.ledger.there(schedule_id):
            return
        unblocked = [job for job in jobs if job.unblocked]
        exclusive = [job.row.id for job in unblocked if job.exclusive]
        if len(exclusive) > 1:
            self.violated(f"jobs {exclusive} of schedule {schedule_id} may run at once")
        if self.strict and not unblocked and len(jobs) > 0:
            self.violated(f"schedule {schedule_id}: a job waits behind nothing")


def _shown(asked: list[Asked]) -> dict[int, int]:
    """The fences that were shown to settle jobs."""
    shown: dict[int, int] = {}
    for ask in asked:
        if ask.statement == "hold_jobs":
            rows = json.loads(cast(str, ask.values["rows"]))
            shown |= {row["id"]: row["fence"] for row in rows}
        elif ask.statement == "finish_plain":
            fence = cast(int, ask.values["fence"])
            shown |= dict.fromkeys(cast(list[int], ask.values["ids"]), fence)
    return shown
