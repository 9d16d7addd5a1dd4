"""The one executor of the simulated world: on its stage jobs are only played, and played badly.

A job takes time. Some raise, ask for another moment or give up for good; some take their node with
them, or make it stand still for longer than its lease; some are deaf: asked to stop, they go on,
and come back with a result when nobody may take it any more.

The stage also tells who believes in a lease. A job that is given to another worker must not be
played any more by the one before, except where that one is deaf, or stands still.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from duly.clock import sleep
from duly.engine.execution import Execution, StopReason, raised, returned
from duly.engine.executors import LoopTimers, OnEnd
from duly.engine.executors.process.frames import CapturedLine
from duly.engine.journal_writer import JournalWriter
from duly.engine.loop import Waiter
from duly.errors import Permanent, RetryAfter
from duly.instants import to_us
from duly.model.outcome import Lost, Outcome, Raised
from tests.simulation.knobs import CALM
from tests.simulation.tasks import ITEMS
from tests.simulation.world import Host, World

LOW, IDLE = -50, -100  # priorities from which on work is that


@dataclass(eq=False, slots=True)
class Act:
    """An attempt under way."""

    host: Host
    run: Execution
    bad: bool
    deaf: bool  # it goes on when it is asked to stop
    stop: Waiter = field(default_factory=Waiter)

    @property
    def job(self) -> int:
        return self.run.job.id

    @property
    def fence(self) -> int:
        return self.run.job.fence

    @property
    def believes(self) -> bool:
        """Whether it goes on because nobody has told it that its lease is in doubt."""
        awake = self.host.alive and self.host.has_come_round
        return awake and not self.deaf and self.run.why is None

    def __str__(self) -> str:
        return f"job {self.job} under fence {self.fence} at {self.host.name}"


class Stage(LoopTimers):
    def __init__(
        self, world: World, host: Host, journal: JournalWriter, *, alone: bool = False
    ) -> None:
        self._world = world
        self._host = host
        self._journal = journal
        self._alone = alone  # in a process of its own, which may die instead of the worker

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:  # noqa: ARG002
        world = self._world
        bad = world.chance(world.odds.bad_jobs)
        act = Act(self._host, run, bad, deaf=bad and not self._alone and world.chance(0.25))
        run.is_thread = run.definition.executor == "thread" and not self._alone
        run.stopper = lambda _: act.stop.set()
        self._count(run)
        world.acts.begin(act)
        task = world.loop.create_task(self._play(act, over), name=str(act))
        self._host.own(task)

    def kill(self) -> None:
        """What hears stops when it is told, and what is deaf does not die either."""

    async def close(self) -> None:
        pass

    def _count(self, run: Execution) -> None:
        sometimes, job = self._world.sometimes, run.job
        sometimes["claim adopted"] += (job.id, job.fence) in self._world.unanswered
        sometimes["suspect run"] += job.crashes > 0
        sometimes["low work run"] += IDLE < job.priority <= LOW
        sometimes["idle work run"] += job.priority <= IDLE

    async def _play(self, act: Act, over: OnEnd) -> None:
        try:
            outcome = await self._outcome(act)
        finally:
            self._world.acts.end(act)
        over(act.run, outcome)

    async def _outcome(self, act: Act) -> Outcome:
        await self._take_time(act)
        run = act.run
        if act.deaf and run.why is not None:
            await self._come_back_as_a_zombie(act)
        elif run.why is not None and not (run.is_thread and run.why is StopReason.EXPIRED):
            return Raised("CancelledError", "it was stopped")
        if self._is_poison(act):
            return Lost(reason="the process that ran it was killed")
        await self._harm(act)
        if act.bad and self._world.chance(0.8):
            return raised(self._error(), run.definition.retry)
        return returned(ITEMS if run.job.task == "listing" else "done", run.definition)

    async def _take_time(self, act: Act) -> None:
        world = self._world
        length = world.dice.random() ** 3 * (0.1 if world.odds is CALM else world.knobs.work)
        if world.chance(0.1):
            act.run.progress(world.dice.random() * 100, "on the way", None)
        if act.deaf:
            await sleep(length * 3 + world.knobs.lease)
        else:
            await act.stop.rest(length)
        if world.chance(0.1):
            line = CapturedLine(to_us(self._host.wall()), "info", "nearly there")
            self._journal.lines(act.run.job, [line])

    async def _come_back_as_a_zombie(self, act: Act) -> None:
        await sleep(self._world.knobs.lease * self._world.dice.random() * 2)
        self._world.tell(self._host.name, "is a zombie with", act)
        self._world.sometimes["zombie"] += 1

    def _is_poison(self, act: Act) -> bool:
        """Whether it kills the process that runs it; which may be nobody else's."""
        poisonous = bool(self._world.odds.bad_jobs) and "poison" in json.loads(act.run.job.args)
        if poisonous and not self._alone:
            self._bring_down(act)
        return poisonous

    async def _harm(self, act: Act) -> None:
        """Some jobs bring their node down, or to a stop."""
        world = self._world
        if act.bad and not self._alone and world.chance(0.05):
            self._bring_down(act)
        elif act.bad and world.chance(0.1):
            self._host.freeze(world.knobs.lease * (0.8 + world.dice.random()))
            await sleep(0)

    def _bring_down(self, act: Act) -> None:
        self._world.tell(self._host.name, "is brought down by", act)
        self._host.crash()
        raise asyncio.CancelledError

    def _error(self) -> Exception:
        world = self._world
        if world.chance(0.4):
            return RetryAfter(timedelta(seconds=world.dice.random() * 5), "not now")
        return Permanent("never") if world.chance(0.2) else ValueError("as it goes")
