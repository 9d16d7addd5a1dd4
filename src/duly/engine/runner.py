"""Runs the claimed jobs of a worker: waiting, running, ended.

Jobs enter by ``take``, wait in the prefetch buffer for a slot, run, and leave through the outbox,
from which a claimer writes their outcomes to the store. Everything happens on the event loop.

More jobs are claimed than there are slots: as many as recently ended in 100 ms, so short jobs never
wait for the store. A job that waits longer than expected is given back, so that it does not wait
here while other workers are idle.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from duly.engine.capacity import (
    AHEAD_SECONDS,
    CompletionRate,
    ExecutorCapacity,
    PrefetchBuffer,
    free_resources,
)
from duly.engine.execution import Execution, JournalPort, StopReason, raised, without_secrets
from duly.engine.executors import Executor
from duly.engine.outbox import Outbox
from duly.errors import InvalidValue, SignatureChanged
from duly.events import (
    Emit,
    FailedAfterCompletion,
    JobStarted,
    JobStuck,
    TimeoutIgnored,
    ignore_event,
)
from duly.model.job import Claimed
from duly.model.outcome import (
    Completed,
    Late,
    Mismatched,
    Opened,
    Outcome,
    Raised,
    Returned,
    Stopped,
)
from duly.policy.verdict import SUSPECT
from duly.registry.definition import Definition
from duly.registry.registry import JobTransaction, Registry

ALONE = "alone"  # the executor for jobs that crashed with a worker


class Runner:
    def __init__(  # noqa: PLR0913 - its parts, by name
        self,
        registry: Registry,
        executors: Mapping[str, Executor],
        *,
        slots: int,
        journal: JournalPort,
        time: Callable[[], float],
        dice: Callable[[], float],
        wake: Callable[[], None],
        wake_second: Callable[[], None] = lambda: None,
        resources: Mapping[str, int] | None = None,
        most: int | None = None,
        transaction: Callable[[Claimed, Definition], JobTransaction] | None = None,
        emit: Emit = ignore_event,
        verbose: bool = True,
    ) -> None:
        self.slots: int = slots
        self.journal = journal
        self.running: dict[int, Execution] = {}
        # The last executions, with their end.
        self.ended: deque[tuple[float, Execution]] = deque(maxlen=32)
        self.accepts = True  # whether more may be claimed
        self._executor_capacity = ExecutorCapacity(executors, time=time, place_of=self._place)
        self.prefetched: PrefetchBuffer = PrefetchBuffer(self._executor_capacity, time)
        self.wake = wake  # there is work for a claimer
        self.wake_second = wake_second  # there is work for a second claimer
        self.outbox: Outbox = Outbox(
            dice=dice, wake=wake, wake_second=wake_second, emit=emit, verbose=verbose
        )
        self.time = time
        self._registry = registry
        self._executors = executors
        self._resources = dict(resources or {})
        self._most = most  # attempts that this worker makes at most
        self._transaction = transaction
        self._emit = emit
        self._verbose = verbose  # whether an event is emitted for every job
        self._completion_rate = CompletionRate(time)
        self._watches = False

    # For the claimers.

    @property
    def wanted(self) -> int:
        """Return how many more jobs to claim."""
        if not self.accepts:
            return 0
        ahead = self._completion_rate.ahead(self.outbox.attempts, self.slots)
        here = len(self.running) + len(self.prefetched)
        useful = self.slots + ahead - here
        return (
            useful if self._most is None else min(useful, self._most - self.outbox.attempts - here)
        )

    @property
    def room(self) -> Mapping[str, int]:
        """Return how many more jobs to claim for each executor with limited concurrency."""
        return self._executor_capacity.room(self.prefetched)

    def are_limited(self, jobs: Iterable[Claimed]) -> bool:
        """Return whether one of the jobs is for an executor with limited concurrency."""
        # One of each kind: a batch has hundreds of jobs of few tasks.
        kinds = {(job.task, job.crashes): job for job in jobs}
        return any(self._executor_capacity.is_limited(job) for job in kinds.values())

    def executor_of(self, task: str) -> str:
        return self._registry.get(task).executor

    @property
    def is_idle(self) -> bool:
        """Return whether no job waits, runs or has an outcome to be written."""
        return not (self.running or self.prefetched or self.outbox)

    @property
    def free(self) -> dict[str, int]:
        """The resources that no job uses."""
        jobs = (*(run.job for run in self.running.values()), *self.prefetched)
        return free_resources(self._resources, jobs)

    @property
    def isolates(self) -> bool:
        """Return whether a job that crashed with a worker can run in a process of its own."""
        return ALONE in self._executors

    @property
    def has_suspect(self) -> bool:
        """Return whether a job that crashed with a worker is here: those run one at a time."""
        waiting = any(job.crashes for job in self.prefetched)
        return waiting or any(run.job.crashes for run in self.running.values())

    def has(self, number: int) -> bool:
        return number in self.running or self.prefetched.has(number) or self.outbox.has(number)

    def take(self, jobs: Iterable[Claimed]) -> None:
        if not self.accepts:
            self.give_back(jobs, "given back unstarted: its worker accepts no more")
            return
        self.prefetched.add(jobs)
        self._fill()
        self._watch()

    def resize(self, slots: int) -> None:
        self.slots = slots
        self._fill()

    # Stopping.

    def cancel(self, reasons: Mapping[int, str]) -> None:
        """Stop these jobs, each for its reason."""
        for number, reason in reasons.items():
            run = self.running.get(number)
            if run is not None:
                self._stop(run, StopReason.CANCELLED, reason)
        for job in self.prefetched.take(reasons):
            self.outbox.add(job, self._known(job), Stopped(reasons[job.id]))

    def give_back_waiting(self, reason: str) -> None:
        self.give_back(self.prefetched.take_all(), reason)

    def give_back(self, jobs: Iterable[Claimed], reason: str) -> None:
        for job in jobs:
            self.outbox.add(job, self._known(job), Returned(reason))

    def stop_all(self, why: StopReason) -> None:
        """Stop every running job and give back the waiting ones."""
        self.give_back_waiting(f"given back unstarted: {why.value}")
        for run in list(self.running.values()):
            self._stop(run, why)

    def transaction(self, run: Execution) -> JobTransaction:
        if self._transaction is None:
            raise InvalidValue("transaction() needs a worker that knows where its store is")
        return self._transaction(run.job, run.definition)

    # Running.

    def _fill(self) -> None:
        while len(self.running) < self.slots and (job := self.prefetched.next()) is not None:
            self._start(job)

    def _watch(self) -> None:
        """Schedule a check that gives waiting jobs back if other workers may be idle."""
        if self.prefetched and not self._watches:
            self._watches = True
            without_slot = self.prefetched.without_slot()
            executor = next(iter(self._executors.values()))
            executor.after(AHEAD_SECONDS, lambda: self._look(without_slot))

    def _look(self, without_slot: Mapping[int, int]) -> None:
        stuck = self.prefetched.take_stuck(without_slot)
        self.give_back(stuck, "given back unstarted: no process is free here")
        self.give_back(self.prefetched.take_overdue(), "given back unstarted: no slot is free here")
        self._watches = False
        self._watch()

    def _start(self, job: Claimed) -> None:
        definition = self._known(job)
        if definition is None:
            self.outbox.add(job, None, Returned("its worker does not know the task"))
            return
        if job.is_late:
            self.outbox.add(job, definition, Late())
            return
        try:
            arguments = definition.signature.decode(job.args)
            if definition.graph is not None:
                self.outbox.add(job, definition, Opened(self._registry.flow_plan(definition)))
                return
            run = Execution(job, definition, self, place=self._place_by(job, definition))
        except SignatureChanged as error:
            mismatch = Mismatched(str(error), definition.signature.fingerprint)
            self.outbox.add(job, definition, mismatch)
            return
        except Exception as error:  # noqa: BLE001 - a codec of the application, or unreadable options
            self.outbox.add(job, definition, raised(error, definition.retry))
            return
        self.running[job.id] = run
        self._executor_capacity.take(run.place)
        if self._verbose:
            self._emit(
                JobStarted(
                    job.id, job.called, job.attempt, job.queue, job.schedule, worker=job.worker
                )
            )
        self._execute(run, arguments)

    def _execute(self, run: Execution, arguments: Mapping[str, object]) -> None:
        try:
            if run.timeout is not None:
                self._executor(run).expire_after(run, run.timeout, self._expired)
            self._executor(run).start(run, arguments, self._over)
        except Exception as error:  # noqa: BLE001 - as when no more threads can be started
            self._over(run, raised(error, run.definition.retry))

    def _executor(self, run: Execution) -> Executor:
        return self._executors[run.place]

    def _place(self, job: Claimed) -> str | None:
        definition = self._known(job)
        return None if definition is None else self._place_by(job, definition)

    def _place_by(self, job: Claimed, definition: Definition) -> str:
        """Return the executor: a job that crashed with two workers gets its own process.

        Not the job of an engine, whose function does not run here.
        """
        alone = job.crashes >= SUSPECT and self.isolates and definition.engine is None
        return ALONE if alone and job.task not in self._registry.local else definition.executor

    def _expired(self, run: Execution) -> None:
        if run.is_thread and run.timeout is not None:
            self._emit(TimeoutIgnored(run.job.id, run.job.called, run.timeout))
        self._stop(run, StopReason.EXPIRED)

    def _stop(self, run: Execution, why: StopReason, reason: str = "") -> None:
        run.stop(why, reason)
        if run.grace is None:
            run.grace = self._executor(run).after(
                run.definition.grace.total_seconds(), lambda: self._still_there(run)
            )

    def _still_there(self, run: Execution) -> None:
        if self.running.get(run.job.id) is run:
            self._emit(JobStuck(run.job.id, run.job.called, run.reason))

    def _over(self, run: Execution, found: Outcome | Completed) -> None:
        """An execution has ended. Called once, on the event loop, by its executor."""
        if self.running.get(run.job.id) is not run:
            return  # reported before; or it was lost, and its job runs here again
        del self.running[run.job.id]
        for timer in (run.alarm, run.grace):
            if timer is not None:
                timer.cancel()
        now = self.time()
        seconds = now - run.began
        self.ended.append((now, run))
        self._completion_rate.took(seconds)
        self._executor_capacity.leave(run.place, seconds)
        if isinstance(found, Raised):
            found = without_secrets(found, run.job.args)
        outcome = run.outcome(found)
        if isinstance(outcome, Completed) and isinstance(found, Raised):
            error = f"{found.error}: {found.message}"
            self._emit(FailedAfterCompletion(run.job.id, run.job.called, error))
        self.outbox.add(run.job, run.definition, outcome, seconds=seconds)
        if self.prefetched:
            self._fill()

    def _known(self, job: Claimed) -> Definition | None:
        return self._registry.find(job.task)
