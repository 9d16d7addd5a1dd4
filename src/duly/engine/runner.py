"""The jobs that a worker runs: what has been claimed, what is under way, what is over.

Jobs come in by ``take``, wait in the ``line`` for one of the slots, run, and leave through
``ends``, from where a claimer writes them into the store. All of it is on the event loop.

More is claimed than there are slots, as much as was lately run in 100 ms: tiny jobs never wait for
the store. A long job does not sit in a line behind others while workers elsewhere are idle: what
waits for longer than expected is given back.
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
from duly.model.claimed import Claimed
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
        self.slots = slots
        self.journal = journal
        self.running: dict[int, Execution] = {}
        self.ended: deque[tuple[float, Execution]] = deque(maxlen=32)  # the last ones, and when
        self.accepts = True  # whether more may be claimed
        self._seating = ExecutorCapacity(executors, time=time, place_of=self._place)
        self.line = PrefetchBuffer(self._seating, time)
        self.wake_second = wake_second  # for the claimer: there is work for two
        self.outbox = Outbox(
            dice=dice, wake=wake, wake_second=wake_second, emit=emit, verbose=verbose
        )
        self._clock = time
        self._registry = registry
        self._executors = executors
        self._resources = dict(resources or {})
        self._most = most  # attempts that are made here at all
        self._transaction = transaction
        self._emit = emit
        self._verbose = verbose  # whether every job is told of
        self._pace = CompletionRate(time)
        self._watches = False

    def time(self) -> float:
        return self._clock()

    # What claimers ask and bring.

    @property
    def wanted(self) -> int:
        """How many more jobs there is use for."""
        if not self.accepts:
            return 0
        ahead = self._pace.ahead(self.outbox.attempts, self.slots)
        here = len(self.running) + len(self.line)
        useful = self.slots + ahead - here
        return (
            useful if self._most is None else min(useful, self._most - self.outbox.attempts - here)
        )

    @property
    def room(self) -> Mapping[str, int]:
        """How many more jobs there is use for, by executor, where that is less than any number."""
        return self._seating.room(self.line)

    def are_limited(self, jobs: Iterable[Claimed]) -> bool:
        """Whether one of them is for an executor that does not run any number."""
        return any(self._seating.is_limited(job) for job in jobs)

    def executor_of(self, task: str) -> str:
        return self._registry.get(task).executor

    @property
    def is_idle(self) -> bool:
        """Whether nothing is claimed, runs, or is still to be written."""
        return not (self.running or self.line or self.outbox)

    @property
    def free(self) -> dict[str, int]:
        """The resources that are not in use."""
        jobs = (*(run.job for run in self.running.values()), *self.line)
        return free_resources(self._resources, jobs)

    @property
    def isolates(self) -> bool:
        """Whether a job can be run such that it brings nobody down but itself."""
        return ALONE in self._executors

    @property
    def has_suspect(self) -> bool:
        """Whether a job that crashed with a worker is here: they are run one at a time."""
        waiting = any(job.crashes for job in self.line)
        return waiting or any(run.job.crashes for run in self.running.values())

    def has(self, number: int) -> bool:
        return number in self.running or self.line.has(number) or self.outbox.has(number)

    def take(self, jobs: Iterable[Claimed]) -> None:
        if not self.accepts:
            self.give_back(jobs, "given back unstarted: its worker accepts no more")
            return
        self.line.add(jobs)
        self._fill()
        self._watch()

    def resize(self, slots: int) -> None:
        self.slots = slots
        self._fill()

    # What is to be stopped.

    def cancel(self, told: Mapping[int, str]) -> None:
        """Stop the jobs that are asked to end, each with its reason."""
        for number, reason in told.items():
            run = self.running.get(number)
            if run is not None:
                self._stop(run, StopReason.CANCELLED, reason)
        for job in self.line.take(told):
            self.outbox.add(job, self._known(job), Stopped(told[job.id]))

    def give_back_waiting(self, reason: str) -> None:
        self.give_back(self.line.take_all(), reason)

    def give_back(self, jobs: Iterable[Claimed], reason: str) -> None:
        for job in jobs:
            self.outbox.add(job, self._known(job), Returned(reason))

    def stop_all(self, why: StopReason) -> None:
        """Stop everything that runs, and give back what does not."""
        self.give_back_waiting(f"given back unstarted: {why.value}")
        for run in list(self.running.values()):
            self._stop(run, why)

    def transaction(self, run: Execution) -> JobTransaction:
        if self._transaction is None:
            raise InvalidValue("transaction() needs a worker that knows where its store is")
        return self._transaction(run.job, run.definition)

    # How a job runs.

    def _fill(self) -> None:
        while len(self.running) < self.slots and (job := self.line.next()) is not None:
            self._start(job)

    def _watch(self) -> None:
        """Look soon whether what waits is well off here: others may be idle."""
        if self.line and not self._watches:
            self._watches = True
            unseated = self.line.unseated()
            executor = next(iter(self._executors.values()))
            executor.after(AHEAD_SECONDS, lambda: self._look(unseated))

    def _look(self, unseated: Mapping[int, int]) -> None:
        forsaken = self.line.take_forsaken(unseated)
        self.give_back(forsaken, "given back unstarted: no process is free here")
        self.give_back(self.line.take_overdue(), "given back unstarted: no slot is free here")
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
        except Exception as error:  # noqa: BLE001 - a codec of others, or terms nobody can read
            self.outbox.add(job, definition, raised(error, definition.retry))
            return
        self.running[job.id] = run
        self._seating.take(run.place)
        if self._verbose:
            self._emit(JobStarted(job.id, job.called, job.attempt))
        self._execute(run, arguments)

    def _execute(self, run: Execution, arguments: Mapping[str, object]) -> None:
        try:
            if run.timeout is not None:
                self._executor(run).expire_after(run, run.timeout, self._expired)
            self._executor(run).start(run, arguments, self._over)
        except Exception as error:  # noqa: BLE001 - as where there can be no more threads
            self._over(run, raised(error, run.definition.retry))

    def _executor(self, run: Execution) -> Executor:
        return self._executors[run.place]

    def _place(self, job: Claimed) -> str | None:
        definition = self._known(job)
        return None if definition is None else self._place_by(job, definition)

    def _place_by(self, job: Claimed, definition: Definition) -> str:
        """What crashed with workers twice runs in a process of its own, if there are such."""
        alone = job.crashes >= SUSPECT and self.isolates
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
        """The executor says that it has ended, and how; on the event loop, and once."""
        if self.running.get(run.job.id) is not run:
            return  # told before; or it was given up for lost, and its job runs here again
        del self.running[run.job.id]
        for timer in (run.alarm, run.grace):
            if timer is not None:
                timer.cancel()
        seconds = self.time() - run.began
        self.ended.append((self.time(), run))
        self._pace.took(seconds)
        self._seating.leave(run.place, seconds)
        if isinstance(found, Raised):
            found = without_secrets(found, run.job.args)
        outcome = run.outcome(found)
        if isinstance(outcome, Completed) and isinstance(found, Raised):
            error = f"{found.error}: {found.message}"
            self._emit(FailedAfterCompletion(run.job.id, run.job.called, error))
        self.outbox.add(run.job, run.definition, outcome, seconds=seconds)
        if self.line:
            self._fill()

    def _known(self, job: Claimed) -> Definition | None:
        return self._registry.get(job.task) if job.task in self._registry else None
