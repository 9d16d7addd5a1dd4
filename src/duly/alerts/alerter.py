"""The alerter: finds problems, tells them, and pings watches from outside. One node at a time.

Every node with the table ``[alerts]`` runs one; the one that holds the turn works, and another
takes over when it is gone. What is to be told is written to the outbox first, in one transaction
with the alerts that it is about. Then it is sent, and marked as sent: a node that dies in between
has sent it at least once, and the next one sends it again with the same key. While the clock is not
trusted, only that is told: by a wrong clock every queue is old and every run late.

A watch from outside (Healthchecks and the like) notices silence. It is pinged while the store
answers and nothing is overdue, and for a schedule whenever a run has ended.
"""

import asyncio
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from duly.alerts.delivery import PING as PING_TO
from duly.alerts.delivery import Courier, content_of
from duly.alerts.problems import Examination, clock_problem
from duly.clock import boottime
from duly.engine.timekeeper import NO_REST, ORDINARY, Timekeeper
from duly.errors import InvalidValue, Permanent, RetryAfter
from duly.events import AlertFailed, AlertSent, Emit, ignore_event
from duly.model.alert import (
    KINDS,
    PING,
    AlertChanges,
    AlertContent,
    AlertMessage,
    AlertTurn,
    LastRun,
    OpenAlert,
    Problem,
)
from duly.policy.alerting import WINDOW, AlertPace, Examined, decide_alerts
from duly.settings.tables import AlertSettings, filled
from duly.store.store import Store

EVERY: Final = timedelta(seconds=5)
# Longer than a tick may take, so that the turn does not end while something is sent.
TURN: Final = timedelta(seconds=60)
FIRST_PAUSE: Final = timedelta(seconds=5)
LONGEST_PAUSE: Final = timedelta(minutes=10)
GIVE_UP: Final = timedelta(days=3)
# An examination may cost a twentieth of the time.
SHARE: Final = 20
JUMP_SHOWN: Final = 300.0  # seconds for which a jump of the clock is a problem


class Alerter:
    name = "alerts"
    topics: frozenset[str] = frozenset()

    def __init__(
        self,
        store: Store,
        settings: AlertSettings,
        *,
        timekeeper: Timekeeper | None = None,
        emit: Emit = ignore_event,
        zone: str = "UTC",
        turn: timedelta = TURN,
        every: timedelta = EVERY,
        courier: Courier | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._timekeeper = timekeeper or Timekeeper(store, emit=emit)
        self._emit = emit
        self._zone = zone
        self._turn_length = turn
        self._every = every
        self._courier = courier or Courier(settings)
        self._holder = uuid.uuid4().hex
        self._examine_at = float("-inf")
        self._ping_at = float("-inf")
        self._pace = AlertPace(group=settings.group, every=settings.every, repeat=settings.repeat)

    async def tick(self) -> timedelta:
        turn = await self._store.alerts.turn(self._holder, self._turn_length)
        if turn is None:
            return self._every
        if boottime() >= self._examine_at:
            began = boottime()
            await self._examine(turn)
            self._examine_at = boottime() + SHARE * (boottime() - began)
        due = await self._store.alerts.due(self._courier.destinations, longest=LONGEST_PAUSE)
        # Side by side: a slow receiver does not keep the others waiting.
        await asyncio.gather(*(self._deliver(message) for message in due), self._ping())
        return NO_REST if due else self._every

    async def _examine(self, turn: AlertTurn) -> None:
        """Compare the problems with the alerts that were sent, and write the changes."""
        examination = Examination(self._store, self._settings, zone=self._zone)
        judge = self._timekeeper.ask(ORDINARY)
        progress = await self._store.maintenance.progress()
        if judge(progress.now):
            found = await examination.look(progress)
        else:
            found = Examined(problems={}, unsure=set(KINDS) - {"clock"})
        found = self._with_clock(found, progress.now)
        known = await self._store.alerts.open()
        decided = decide_alerts(
            known, found, now=progress.now, told_at=turn.told_at, pace=self._pace
        )
        told = {}
        for alert in decided.firing:
            problem = await examination.explain(alert.problem)
            told[problem.key] = replace(alert, problem=problem)
        changes = AlertChanges(
            alerts=tuple(told.get(one.problem.key, one) for one in decided.changed),
            closed=tuple(decided.closed),
            messages=self._messages(
                [told[one.problem.key].problem for one in decided.firing],
                [one.problem for one in decided.resolved],
            ),
            tells=bool(decided.firing or decided.resolved),
        )
        if changes:
            await self._store.alerts.change(self._holder, changes)
        await self._watch_runs(known, progress.now)

    def _with_clock(self, found: Examined, now: datetime) -> Examined:
        jumped = self._timekeeper.jumped
        recent = jumped is not None and boottime() - jumped[1] < JUMP_SHOWN
        if jumped is None or not recent or "clock" not in self._settings.on:
            return found
        problem = clock_problem(timedelta(seconds=jumped[0]), now)
        return replace(found, problems={**found.problems, problem.key: problem})

    def _messages(
        self, firing: list[Problem], resolved: list[Problem]
    ) -> tuple[tuple[str, AlertContent], ...]:
        """Return a message for each destination that wants to hear of any of these."""
        made = []
        for to in self._settings.to:
            wanted = to.on or tuple(KINDS)
            mine = [one for one in firing if one.kind in wanted]
            over = [one for one in resolved if one.kind in wanted]
            if mine or over:
                made.append((to.name, content_of(self._settings.name, mine, over)))
        return tuple(made)

    async def _watch_runs(self, known: list[OpenAlert], now: datetime) -> None:
        """Put a ping into the outbox for each watched schedule with a run that has ended since."""
        names = list(self._settings.pings)
        if not names:
            return
        told = {one.problem.name: one for one in known if one.problem.kind == PING}
        runs = await self._store.alerts.last_runs(names, since=now - WINDOW)
        for run in runs:
            before = told.get(run.schedule)
            if before is not None and before.problem.job_id == run.job_id:
                continue
            mark = OpenAlert(problem=_mark(run), found_at=now)
            content = _ping(run)
            # The first look at an old run only remembers it.
            is_old = before is None and run.ended_at < now - max(self._every * 12, TURN)
            messages = () if is_old else ((f"{PING_TO}{run.schedule}", content),)
            await self._store.alerts.change(
                self._holder, AlertChanges(alerts=(mark,), messages=messages)
            )

    async def _ping(self) -> None:
        """Ping the watch of the whole system, unless something is overdue."""
        if not self._settings.ping or boottime() < self._ping_at:
            return
        progress = await self._store.maintenance.progress()
        if progress.problem is not None:
            return  # silence is the alarm
        self._ping_at = boottime() + self._settings.ping_every.total_seconds()
        try:
            await self._courier.ping(filled(self._settings.ping))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next ping may succeed
            self._emit(AlertFailed(destination="ping", error=str(error) or type(error).__name__))

    async def _deliver(self, message: AlertMessage) -> None:
        try:
            await self._courier.deliver(message)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is retried
            said = " ".join(str(error).split())[:500] or type(error).__name__
            await self._store.alerts.failed(message.id, said, pause=_pause(message, error))
            self._emit(AlertFailed(destination=message.destination, error=said))
            return
        await self._store.alerts.sent(message.id)
        self._emit(AlertSent(destination=message.destination, title=message.content.title))


def _pause(message: AlertMessage, error: Exception) -> timedelta | None:
    """Return how long to wait for the next attempt; None to give up."""
    pause = min(FIRST_PAUSE * 2 ** min(message.attempts, 10), LONGEST_PAUSE)
    if isinstance(error, Permanent | InvalidValue):
        pause = LONGEST_PAUSE  # the settings may be mended, and the receiver too
    if isinstance(error, RetryAfter) and isinstance(error.delay, timedelta):
        pause = min(max(error.delay, pause), LONGEST_PAUSE)
    # By age: messages that have waited behind an unsent one are given up soon after it.
    age = timedelta() if message.next_at is None else message.next_at - message.made_at
    return None if age >= GIVE_UP else pause


def _mark(run: LastRun) -> Problem:
    return Problem(
        kind=PING,
        subject=f"schedule:{run.schedule}",
        name=run.schedule,
        sentence=run.state,
        since=run.ended_at,
        last=run.ended_at,
        job_id=run.job_id,
    )


def _ping(run: LastRun) -> AlertContent:
    outcome = "succeeded" if run.state == "succeeded" else "failed"
    said = f"{run.schedule}: job {run.job_id} {run.state}"
    return AlertContent(title=said, outcome=outcome, text=said)
