"""Outcomes that wait to be written to the store by a claimer.

A plain success, for which nothing waits, goes to ``done`` and is written together with the next
claim. Everything else is judged here and becomes a ``settlement``.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

from duly.events import Emit, JobEnded
from duly.model.job import Claimed
from duly.model.outcome import Completed, Opened, Outcome, Returned, Succeeded
from duly.model.states import ENDED
from duly.policy.verdict import Tried, Verdict, judge
from duly.registry.definition import Definition
from duly.store.values import JobDone, Settlement

# The first outcome wakes one claimer; this many wake the second.
ENOUGH_FOR_TWO = 50
_MICROSECOND = timedelta(microseconds=1)


class Outbox:
    def __init__(
        self,
        *,
        dice: Callable[[], float],
        wake: Callable[[], None],
        wake_second: Callable[[], None],
        emit: Emit,
        verbose: bool,
    ) -> None:
        self.done: list[JobDone] = []
        self.settlements: list[Settlement] = []
        self._later: list[tuple[float, Settlement]] = []  # not to be written before that time
        self.attempts: int = 0  # attempts that have ended here, ever
        self._queues: set[str] = set()
        self._dice = dice
        self._wake = wake
        self._wake_second = wake_second
        self._woken = False
        self._emit = emit
        self._verbose = verbose  # emit an event for every job, not only for failures

    def __bool__(self) -> bool:
        return bool(self.done or self.settlements or self._later)

    @property
    def are_pressing(self) -> bool:
        """Return whether an outcome can be written now."""
        return bool(self.done or self.settlements)

    def has(self, number: int) -> bool:
        settlements = (*self.settlements, *(one for _, one in self._later))
        done = any(one.id == number for one in self.done)
        return done or any(one.job.id == number for one in settlements)

    def add(
        self,
        job: Claimed,
        definition: Definition | None,
        outcome: Outcome | Completed,
        *,
        seconds: float = 0.0,
    ) -> None:
        self.attempts += not isinstance(outcome, Returned)
        self._queues.add(job.queue)
        verdict = self._keep(job, definition, outcome, seconds=seconds)
        if self._verbose or (verdict is not None and verdict.error is not None):
            self._emit_end(job, outcome, verdict, seconds=seconds)
        if not self._woken:
            self._woken = True
            self._wake()
        elif len(self.done) == ENOUGH_FOR_TWO:
            self._wake_second()

    def take_done(self, most: int) -> list[JobDone]:
        self._woken = False
        done, self.done = self.done[:most], self.done[most:]
        return done

    def take_settlements(self, most: int, now: float) -> list[Settlement]:
        self.settlements += [one for until, one in self._later if until <= now]
        self._later = [(until, one) for until, one in self._later if until > now]
        settlements, self.settlements = self.settlements[:most], self.settlements[most:]
        return settlements

    def put_off(self, settlements: Iterable[Settlement], until: float) -> None:
        """Postpone these: they cannot be written now, and others can."""
        self._later += [(until, one) for one in settlements]

    def take_queues(self) -> set[str]:
        """Return the queues in which jobs have ended since the last call."""
        queues, self._queues = self._queues, set()
        return queues

    def _keep(
        self,
        job: Claimed,
        definition: Definition | None,
        outcome: Outcome | Completed,
        *,
        seconds: float,
    ) -> Verdict | None:
        """Keep an outcome to be written; return the verdict, None for a plain success."""
        if isinstance(outcome, Completed):
            return None
        if isinstance(outcome, Succeeded) and job.is_plain:
            self.done.append(_plainly_done(job, outcome))
            return None
        tried = Tried.of(job, definition.retry if definition else None)
        verdict = judge(tried, outcome, job.moment(seconds), dice=self._dice())
        succeeded = outcome if isinstance(outcome, Succeeded) else None
        self.settlements.append(
            Settlement(
                job=job,
                verdict=verdict,
                outcome=type(outcome).__name__.lower(),
                result=succeeded.result if succeeded else None,
                keep_result=job.terms.kept if succeeded else None,
                opens=outcome.plan if isinstance(outcome, Opened) else None,
            )
        )
        return verdict

    def _emit_end(
        self,
        job: Claimed,
        outcome: Outcome | Completed,
        verdict: Verdict | None,
        *,
        seconds: float,
    ) -> None:
        own = isinstance(outcome, Completed)
        done = "completed in a transaction of its own" if own else "succeeded"
        self._emit(
            JobEnded(
                job.id,
                job.called,
                outcome=type(outcome).__name__.lower(),
                reason=verdict.reason if verdict else done,
                seconds=seconds,
                attempt=job.attempt,
                queue=job.queue,
                schedule=job.schedule,
                worker=job.worker,
                error=verdict.error if verdict else None,
                last=verdict is None or verdict.state in ENDED,
            )
        )


def _plainly_done(job: Claimed, outcome: Succeeded) -> JobDone:
    if outcome.result is None:
        return JobDone(job.id, job.fence)
    return JobDone(job.id, job.fence, outcome.result, job.terms.kept // _MICROSECOND)
