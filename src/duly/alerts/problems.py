"""The problems of a store, as alerts tell them.

What needs attention is decided by ``views.attention``, as for ``duly status``; here it becomes one
problem for each kind and subject. A failed or missed run is a problem until a later run of its
schedule succeeds, its job is retried, or somebody acknowledges it.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from duly.durations import about
from duly.engine.death_watch import present
from duly.model.alert import Problem
from duly.model.worker import WorkerInfo
from duly.policy.alerting import WINDOW, Examined
from duly.policy.why import LocalClock
from duly.policy.why.answer import plural
from duly.settings.tables import AlertSettings
from duly.store.activity import NotKept
from duly.store.maintenance import StoreProgress
from duly.store.store import Store
from duly.views.attention import MOST_NEEDS, Need, conditions, explained, failed_tasks
from duly.views.overdue import find_overdue
from duly.views.why import answer_job

MOST: Final = 200  # problems of one kind
_KINDS: Final = {
    "overdue": "late",
    "no worker": "no-worker",
    "signature": "no-worker",
    "fault": "fault",
    "ahead": "fault",
}
_CONDITIONS: Final = ("late", "no-worker", "fault")


class Examination:
    """One examination of the store; a missed run is explained only if it is sent."""

    def __init__(self, store: Store, settings: AlertSettings, *, zone: str) -> None:
        self._store = store
        self._settings = settings
        self._zone = zone
        self._problems: dict[tuple[str, str], Problem] = {}
        self._unsure: set[str] = set()
        self._over: set[tuple[str, str]] = set()
        self._missed: dict[tuple[str, str], NotKept] = {}

    async def look(self, progress: StoreProgress) -> Examined:
        now = progress.now
        await self._conditions(progress)
        await self._missed_runs(now)
        await self._failed_tasks(now)
        await self._late_runs(now)
        await self._queues(now)
        await self._nodes(now)
        wanted = set(self._settings.on)
        found = {key: one for key, one in self._problems.items() if key[0] in wanted}
        return Examined(problems=found, unsure=self._unsure, over=self._over)

    async def explain(self, problem: Problem) -> Problem:
        """Return the problem with the sentence of ``duly why``."""
        missed = self._missed.get(problem.key)
        if missed is not None:
            need = await explained(self._store, missed, self._zone)
            return replace(problem, sentence=need.sentence)
        if problem.kind == "late" and problem.job_id is not None:
            view = await answer_job(self._store, problem.job_id)
            return replace(problem, sentence=f"{problem.sentence}: {view.sentence}")
        return problem

    def _add(self, problem: Problem) -> None:
        self._problems.setdefault(problem.key, problem)

    async def _conditions(self, progress: StoreProgress) -> None:
        overdue = await find_overdue(self._store, progress.now)
        found = await conditions(self._store, progress, overdue, zone=self._zone)
        kinds = [_KINDS.get(need.kind) for need in found]
        self._unsure |= {kind for kind in _CONDITIONS if kinds.count(kind) >= MOST_NEEDS}
        for need, kind in zip(found, kinds, strict=True):
            since = need.due_at or progress.now
            is_early = kind == "late" and progress.now - since < self._settings.late_after
            if kind is not None and not is_early:
                self._add(_of_need(kind, need, since))

    async def _missed_runs(self, now: datetime) -> None:
        broken = await self._store.activity.not_kept(now - WINDOW, limit=MOST)
        if len(broken) == MOST:
            self._unsure |= {"failed", "missed"}
        names = sorted({one.schedule for one in broken})
        runs = await self._store.alerts.last_runs(names, since=now - WINDOW)
        well = {run.schedule: run.ended_at for run in runs if run.state == "succeeded"}
        for one in broken:
            if one.schedule in well and well[one.schedule] > one.last:
                continue
            kind = "failed" if one.cause is None and one.state == "failed" else "missed"
            problem = Problem(
                kind=kind,
                subject=f"schedule:{one.schedule}",
                name=one.schedule,
                sentence=one.reason,
                since=one.first,
                last=one.last,
                count=one.moments,
                job_id=one.job_id,
                command=f"duly why {one.schedule}",
            )
            self._add(problem)
            self._missed.setdefault(problem.key, one)

    async def _failed_tasks(self, now: datetime) -> None:
        found = await failed_tasks(self._store, now - WINDOW, limit=MOST)
        if len(found) == MOST:
            self._unsure.add("failed")
        for need in found:
            self._add(_of_need("failed", need, need.due_at or now))

    async def _late_runs(self, now: datetime) -> None:
        for one in await self._store.alerts.not_started(late=self._settings.late_after):
            many = f"{plural(one.runs, 'run')}, the oldest" if one.runs > 1 else "a run"
            self._add(
                Problem(
                    kind="late",
                    subject=f"schedule:{one.schedule}",
                    name=one.schedule,
                    sentence=f"{many} due {LocalClock(self._zone, now).near(one.due_at)} has not "
                    "started",
                    since=one.due_at,
                    last=one.due_at,
                    count=one.runs,
                    job_id=one.job_id,
                    command=f"duly why {one.job_id}",
                )
            )

    async def _queues(self, now: datetime) -> None:
        most, oldest = self._settings.queue_depth, self._settings.queue_age
        if most is None and oldest is None:
            return
        paused = {queue.name for queue in await self._store.work.queues() if queue.paused}
        for depth in await self._store.activity.depths():
            age = timedelta() if depth.oldest_ready_at is None else now - depth.oldest_ready_at
            said = []
            if most is not None and depth.ready > most:
                said.append(f"{depth.ready:,} jobs are ready, more than {most:,}")
            if oldest is not None and age > oldest:
                said.append(f"the oldest has waited {about(age)}, longer than {about(oldest)}")
            if said and depth.queue not in paused:
                since = depth.oldest_ready_at or now
                self._add(
                    Problem(
                        kind="queue",
                        subject=f"queue:{depth.queue}",
                        name=f"queue {depth.queue}",
                        sentence="; ".join(said),
                        since=since,
                        last=since,
                        count=depth.ready,
                        command="duly queues",
                    )
                )

    async def _nodes(self, now: datetime) -> None:
        """Find workers that died, and were not replaced by one of the same name since."""
        self._unsure.add(
            "node"
        )  # its row is deleted after a while, which does not mean that it is back
        living = present(await self._store.work.living())
        started = {_label(one): one.started_at for one in living}
        self._over |= {("node", f"node:{label}") for label in started}
        for gone in await self._store.alerts.gone_workers(since=now - WINDOW):
            label = gone.name.removesuffix(f"-{gone.pid}")
            if label in started and started[label] > gone.beat_at:
                continue
            self._over.discard(("node", f"node:{label}"))
            last = LocalClock(self._zone, now).near(gone.beat_at)
            self._add(
                Problem(
                    kind="node",
                    subject=f"node:{label}",
                    name=f"worker {gone.name}",
                    sentence=f"is gone without having ended; its last heartbeat was {last}",
                    since=gone.beat_at,
                    last=gone.beat_at,
                    command="duly workers",
                )
            )


def _label(worker: WorkerInfo) -> str:
    """Return the name without the process number, which is another after a restart."""
    return worker.name.removesuffix(f"-{worker.profile.host.pid}")


def _of_need(kind: str, need: Need, since: datetime) -> Problem:
    return Problem(
        kind=kind,
        subject=need.matter.subject if need.matter else need.name,
        name=need.name,
        sentence=need.sentence,
        since=since,
        last=since,
        count=need.moments,
        job_id=need.job_id,
        command=need.commands[0].line if need.commands else "duly status",
    )


def clock_problem(jump: timedelta, now: datetime) -> Problem:
    how = "forward" if jump > timedelta() else "back"
    return Problem(
        kind="clock",
        subject="clock",
        name="database clock",
        sentence=f"was set {how} by {about(abs(jump))}: nothing is fired, made ready or deleted "
        "until it has gone steadily again",
        since=now,
        last=now,
        command="duly doctor",
    )
