"""The jobs that a worker runs: what has been claimed, what is under way, what is over.

Jobs come in by ``take``, wait for one of the slots, run, and leave through ``done`` and
``settlements``, from where a claimer writes them into the store. Everything here happens on the
event loop, except where it says otherwise.

More is claimed than there are slots, as much as was lately run in 50 ms: tiny jobs never wait for
the store, and a long job never sits in a line behind others while workers elsewhere are idle.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from duly.engine.execution import raised
from duly.engine.executors.protocol import Executor
from duly.engine.pace import AHEAD_SECONDS, Pace
from duly.engine.run import Run, Scribe, Why
from duly.engine.seats import Seating
from duly.errors import InvalidValue, SignatureChanged
from duly.events import (
    Emit,
    FailedAfterwards,
    JobEnded,
    JobStarted,
    JobStuck,
    TimeoutIgnored,
    nobody,
)
from duly.model.claimed import Claimed
from duly.model.outcome import (
    Completed,
    Late,
    Mismatched,
    Outcome,
    Raised,
    Returned,
    Stopped,
    Succeeded,
)
from duly.policy.verdict import SUSPECT, Tried, judge
from duly.registry.definition import Definition
from duly.registry.registry import Completion, Registry
from duly.store.protocol import Done, Settlement

# One claimer is told of the first job that is over, and another one when there are so many.
ENOUGH_FOR_TWO = 50
ALONE = "alone"  # the executor for jobs that crashed with a worker
_MICROSECOND = timedelta(microseconds=1)


class Crew:
    def __init__(  # noqa: PLR0913 - its parts, by name
        self,
        registry: Registry,
        executors: Mapping[str, Executor],
        *,
        slots: int,
        scribe: Scribe,
        time: Callable[[], float],
        dice: Callable[[], float],
        wake: Callable[[], None],
        resources: Mapping[str, int] | None = None,
        most: int | None = None,
        transaction: Callable[[Claimed, Definition], Completion] | None = None,
        emit: Emit = nobody,
    ) -> None:
        self.slots = slots
        self.scribe = scribe
        self._clock = time
        self.running: dict[int, Run] = {}
        self.done: list[Done] = []
        self.settlements: list[Settlement] = []
        self.ended = 0  # attempts, ever
        self._ended_in: set[str] = set()
        self._most = most  # … that are made here at all
        self.accepts = True  # whether more may be claimed
        self._registry = registry
        self._executors = executors
        self._dice = dice
        self._wake = wake
        self._woken = False
        self._emit = emit
        self._speaks = emit is not nobody
        self._transaction = transaction
        self._waiting: deque[Claimed] = deque()
        self._resources = dict(resources or {})
        self._pace = Pace(time)
        self._seating = Seating(executors, time=time, place_of=self._place)

    def time(self) -> float:
        return self._clock()

    # What claimers ask and bring.

    @property
    def wanted(self) -> int:
        """How many more jobs there is use for."""
        if not self.accepts:
            return 0
        ahead = self._pace.ahead(self.ended, self.slots)
        here = len(self.running) + len(self._waiting)
        useful = self.slots + ahead - here
        return useful if self._most is None else min(useful, self._most - self.ended - here)

    @property
    def room(self) -> Mapping[str, int]:
        """How many more jobs there is use for, by executor, where that is less than any number."""
        return self._seating.room(self._waiting)

    def are_limited(self, jobs: Iterable[Claimed]) -> bool:
        """Whether one of them is for an executor that does not run any number."""
        return any(self._seating.is_limited(job) for job in jobs)

    def executor_of(self, task: str) -> str:
        return self._registry.get(task).executor

    @property
    def nothing_over(self) -> bool:
        return not (self.done or self.settlements)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is claimed, runs, or is still to be written."""
        return not (self.running or self._waiting or self.done or self.settlements)

    @property
    def free(self) -> dict[str, int]:
        """The resources that are not in use."""
        free = dict(self._resources)
        for job in (*(run.job for run in self.running.values()), *self._waiting):
            for name, amount in job.needed.items() if job.needs else ():
                free[name] = free.get(name, 0) - amount
        return free

    @property
    def isolates(self) -> bool:
        """Whether a job can be run such that it brings nobody down but itself."""
        return ALONE in self._executors

    @property
    def has_suspect(self) -> bool:
        """Whether a job that crashed with a worker is here: they are run one at a time."""
        waiting = any(job.crashes for job in self._waiting)
        return waiting or any(run.job.crashes for run in self.running.values())

    def has(self, number: int) -> bool:
        return number in self.running or any(job.id == number for job in self._waiting)

    def take(self, jobs: Iterable[Claimed]) -> None:
        if not self.accepts:
            self.give_back(jobs, "given back unstarted: its worker accepts no more")
            return
        self._waiting.extend(jobs)
        self._fill()
        unseated = self._seating.unseated(self._waiting)
        if unseated:
            numbers = {job.id for job in unseated}
            executor = next(iter(self._executors.values()))
            executor.after(AHEAD_SECONDS, lambda: self._give_back_unseated(numbers))

    def resize(self, slots: int) -> None:
        self.slots = slots
        self._fill()

    def take_done(self, most: int) -> list[Done]:
        self._woken = False
        done, self.done = self.done[:most], self.done[most:]
        return done

    def take_ended_in(self) -> set[str]:
        """The queues in which jobs have ended since this was asked last."""
        queues, self._ended_in = self._ended_in, set()
        return queues

    def take_settlements(self, most: int) -> list[Settlement]:
        settlements, self.settlements = self.settlements[:most], self.settlements[most:]
        return settlements

    # What is to be stopped.

    def cancel(self, told: Mapping[int, str]) -> None:
        """Stop the jobs that are asked to end, each with its reason."""
        for number, reason in told.items():
            run = self.running.get(number)
            if run is not None:
                self._stop(run, Why.CANCELLED, reason)
        for job in [job for job in self._waiting if job.id in told]:
            self._waiting.remove(job)
            self._finish(job, self._known(job), Stopped(told[job.id]), seconds=0.0)

    def give_back_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        self.give_back(waiting, reason)

    def give_back(self, jobs: Iterable[Claimed], reason: str) -> None:
        for job in jobs:
            self._finish(job, self._known(job), Returned(reason), seconds=0.0)

    def stop_all(self, why: Why) -> None:
        """Stop everything that runs, and give back what does not."""
        self.give_back_waiting(f"given back unstarted: {why.value}")
        for run in list(self.running.values()):
            self._stop(run, why)

    def transaction(self, run: Run) -> Completion:
        if self._transaction is None:
            raise InvalidValue("transaction() needs a worker that knows where its store is")
        return self._transaction(run.job, run.definition)

    # How a job runs.

    def _fill(self) -> None:
        passed_over = []
        while self._waiting and len(self.running) < self.slots:
            job = self._waiting.popleft()
            if self._seating.is_full_for(job):
                passed_over.append(job)
            else:
                self._start(job)
        self._waiting.extendleft(reversed(passed_over))

    def _give_back_unseated(self, numbers: set[int]) -> None:
        """What waits for a process here may find one elsewhere."""
        unseated = [job for job in self._seating.unseated(self._waiting) if job.id in numbers]
        for job in unseated:
            self._waiting.remove(job)
        self.give_back(unseated, "given back unstarted: no process is free here")

    def _start(self, job: Claimed) -> None:
        definition = self._known(job)
        if definition is None:
            self._finish(job, None, Returned("its worker does not know the task"), seconds=0.0)
            return
        if job.is_late:
            self._finish(job, definition, Late(), seconds=0.0)
            return
        try:
            arguments = definition.signature.decode(job.args)
            run = Run(job, definition, self)
        except SignatureChanged as error:
            mismatch = Mismatched(str(error), definition.signature.fingerprint)
            self._finish(job, definition, mismatch, seconds=0.0)
            return
        except Exception as error:  # noqa: BLE001 - a codec of others, or terms nobody can read
            self._finish(job, definition, raised(error, definition.retry), seconds=0.0)
            return
        self.running[job.id] = run
        self._seating.take(job)
        if self._speaks:
            self._emit(JobStarted(job.id, job.task, job.attempt))
        self._execute(run, arguments)

    def _execute(self, run: Run, arguments: Mapping[str, object]) -> None:
        try:
            if run.timeout is not None:
                self._executor(run).expire_after(run, run.timeout, self._expired)
            self._executor(run).start(run, arguments, self._over)
        except Exception as error:  # noqa: BLE001 - as where there can be no more threads
            self._over(run, raised(error, run.definition.retry))

    def _executor(self, run: Run) -> Executor:
        return self._executors[self._place(run.job) or run.definition.executor]

    def _place(self, job: Claimed) -> str | None:
        """What crashed with workers twice runs in a process of its own, if there are such."""
        if job.crashes >= SUSPECT and self.isolates:
            return ALONE
        definition = self._known(job)
        return None if definition is None else definition.executor

    def _expired(self, run: Run) -> None:
        if run.is_thread and run.timeout is not None:
            self._emit(TimeoutIgnored(run.job.id, run.job.task, run.timeout))
        self._stop(run, Why.EXPIRED)

    def _stop(self, run: Run, why: Why, reason: str = "") -> None:
        run.stop(why, reason)
        if run.grace is None:
            run.grace = self._executor(run).after(
                run.definition.grace.total_seconds(), lambda: self._still_there(run)
            )

    def _still_there(self, run: Run) -> None:
        if self.running.get(run.job.id) is run:
            self._emit(JobStuck(run.job.id, run.job.task, run.reason))

    def _over(self, run: Run, found: Outcome | Completed) -> None:
        """The executor says that it has ended, and how; on the event loop, and once."""
        if self.running.get(run.job.id) is not run:
            return  # told before; or it was given up for lost, and its job runs here again
        del self.running[run.job.id]
        for timer in (run.alarm, run.grace):
            if timer is not None:
                timer.cancel()
        seconds = self.time() - run.began
        self._pace.took(seconds)
        self._seating.leave(run.job, seconds)
        outcome = run.outcome(found)
        if isinstance(outcome, Completed) and isinstance(found, Raised):
            error = f"{found.error}: {found.message}"
            self._emit(FailedAfterwards(run.job.id, run.job.task, error))
        self._finish(run.job, run.definition, outcome, seconds=seconds)
        if self._waiting:
            self._fill()

    def _finish(
        self,
        job: Claimed,
        definition: Definition | None,
        outcome: Outcome | Completed,
        *,
        seconds: float,
    ) -> None:
        self.ended += not isinstance(outcome, Returned)
        self._ended_in.add(job.queue)
        if isinstance(outcome, Succeeded) and job.is_plain:
            self.done.append(_plainly_done(job, outcome))
            reason = "succeeded"
        elif isinstance(outcome, Completed):
            reason = "completed in a transaction of its own"
        else:
            settlement = self._settlement(job, definition, outcome, seconds=seconds)
            self.settlements.append(settlement)
            reason = settlement.verdict.reason
        if self._speaks:
            word = type(outcome).__name__.lower()
            self._emit(JobEnded(job.id, job.task, outcome=word, reason=reason, seconds=seconds))
        if not self._woken or len(self.done) == ENOUGH_FOR_TWO:
            self._woken = True
            self._wake()

    def _settlement(
        self, job: Claimed, definition: Definition | None, outcome: Outcome, *, seconds: float
    ) -> Settlement:
        tried = Tried.of(job, definition.retry if definition else None)
        verdict = judge(tried, outcome, job.moment(seconds), dice=self._dice())
        return Settlement(
            job=job,
            verdict=verdict,
            outcome=type(outcome).__name__.lower(),
            result=outcome.result if isinstance(outcome, Succeeded) else None,
            keep_result=_kept(job) if isinstance(outcome, Succeeded) else None,
        )

    def _known(self, job: Claimed) -> Definition | None:
        return self._registry.get(job.task) if job.task in self._registry else None


def _plainly_done(job: Claimed, outcome: Succeeded) -> Done:
    if outcome.result is None:
        return Done(job.id, job.fence)
    return Done(job.id, job.fence, outcome.result, _kept(job) // _MICROSECOND)


def _kept(job: Claimed) -> timedelta:
    return job.terms.kept
