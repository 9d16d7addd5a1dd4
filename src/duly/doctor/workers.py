"""Checks of the workers: one for every wanted task, their leases, and jobs of dead workers."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from duly.doctor.finding import Finding, Patient, fine, problem, warning
from duly.engine.reaper import MARGIN
from duly.model.worker import WorkerInfo
from duly.policy.why import about, what_is_missing
from duly.policy.why.answer import plural
from duly.store.values import Orphans, WantedTask
from duly.views.workers import present

# A worker renews its lease after a fifth of it, and stops its jobs after two thirds.
SILENT: Final = 1 / 2
# After the margin, any running node takes jobs back within a second or two.
TAKEN_BACK: Final = MARGIN + timedelta(seconds=5)
# The tasks of duly's own, and the word that allows each.
BUILT_IN: Final = {"duly.shell": "shell", "duly.command": "shell", "duly.http": "http"}
MOST_NAMES = 5


async def tasks(patient: Patient) -> Finding:
    around = patient.store.surroundings
    return judge_tasks(await around.wanted(), present(await around.living()))


def judge_tasks(wanted: Sequence[WantedTask], living: Sequence[WorkerInfo]) -> Finding:
    if not living:
        return _without_workers(wanted)
    known = {task for worker in living for task in worker.tasks}
    unknown = [one for one in wanted if one.task not in known]
    if unknown:
        return problem(f"no running worker knows {_listed(unknown)}", _start_for(unknown, living))
    for one in wanted:
        missing = what_is_missing(living, task=one.task, queue=one.queue, needs=one.needs)
        if missing is not None:
            why, command = missing
            fix = command.line if command else "start a worker that has the resources they need"
            return problem(f"{_named(one)}: {why}", fix)
    return fine("every queued task has a worker that can run it")


def _without_workers(wanted: Sequence[WantedTask]) -> Finding:
    if not wanted:
        return fine("no task is queued, and no worker is running")
    found = problem if any(one.jobs for one in wanted) else warning
    allow = _allowing(wanted)
    start = f"duly up{allow}, or duly worker{allow}"
    return found(f"no worker is running for {_listed(wanted)}", start)


def _start_for(unknown: Sequence[WantedTask], living: Sequence[WorkerInfo]) -> str:
    if allow := _allowing(unknown):
        return f"allow it where the worker is started: duly up{allow}"
    names = ", ".join(sorted({worker.name for worker in living})[:MOST_NAMES])
    return (
        f"start a worker with the code of the task: duly worker APP (running: {names}); or, if "
        "the task was removed on purpose, cancel its jobs: duly jobs cancel "
        f"task:{unknown[0].task}"
    )


def _allowing(wanted: Sequence[WantedTask]) -> str:
    words = sorted({BUILT_IN[one.task] for one in wanted if one.task in BUILT_IN})
    return f" --allow {','.join(words)}" if words else ""


async def workers(patient: Patient) -> Finding:
    around = patient.store.surroundings
    now, believed = await around.now(), await around.living()
    living = present(believed)
    gone = [] if living else believed
    orphans = await around.orphans(dead=[one.id for one in gone])
    return (
        judge_gone(gone, orphans, now)
        or judge_orphans(orphans, living, now)
        or judge_leases(living, now)
    )


def judge_orphans(
    orphans: Sequence[Orphans], living: Sequence[WorkerInfo], now: datetime
) -> Finding | None:
    """Report jobs of dead workers, unless they died seconds ago and will be taken back."""
    left = [one for one in orphans if not living or not _is_fresh(one, now)]
    if not left:
        return None
    jobs = sum(one.jobs for one in left)
    names = ", ".join(one.name or f"number {one.worker}" for one in left[:MOST_NAMES])
    return problem(
        f"{plural(jobs, 'job')} held by {names}, whose lease has expired, and no node takes "
        f"{('it' if jobs == 1 else 'them')} back",
        "start any node, which takes them back within seconds: duly up, or duly worker",
    )


def judge_gone(
    gone: Sequence[WorkerInfo], orphans: Sequence[Orphans], now: datetime
) -> Finding | None:
    """Report workers on this machine whose process has ended before their lease."""
    if not gone:
        return None
    left = about(max(max(one.lease_until for one in gone) - now, timedelta()))
    names = ", ".join(one.name for one in gone[:MOST_NAMES])
    jobs = sum(one.jobs for one in orphans)
    its = (
        "its process is gone; its lease expires"
        if len(gone) == 1
        else ("their processes are gone; their leases expire")
    )
    held = f", and {plural(jobs, 'job')} wait{'s' * (jobs == 1)} for that" if jobs else ""
    found = problem if jobs else warning
    return found(f"{names}: {its} in {left}{held}", "start another: duly up, or duly worker")


def judge_leases(living: Sequence[WorkerInfo], now: datetime) -> Finding:
    for worker in living:
        length, silent = worker.lease_until - worker.beat_at, now - worker.beat_at
        if silent > length * SILENT:
            return warning(
                f"{worker.name} has sent no heartbeat for {about(silent)}, and its lease of "
                f"{about(length)} expires in {about(worker.lease_until - now)}",
                "check its machine: it may be suspended, overloaded, or cut off from the database",
            )
    if not living:
        return fine("none is running, and none has left jobs behind")
    return fine(
        f"{plural(len(living), 'worker')} running with recent heartbeats; no job left behind"
    )


def _is_fresh(one: Orphans, now: datetime) -> bool:
    """Return whether the lease ended recently.

    A lease that was ended on purpose has no end time; living workers know of it.
    """
    return one.ended_at is None or now - one.ended_at < TAKEN_BACK


def _listed(wanted: Sequence[WantedTask]) -> str:
    more = f" and {len(wanted) - MOST_NAMES} more" if len(wanted) > MOST_NAMES else ""
    return ", ".join(_named(one) for one in wanted[:MOST_NAMES]) + more


def _named(one: WantedTask) -> str:
    jobs = [plural(one.jobs, "job")] if one.jobs else []
    schedules = [plural(one.schedules, "schedule")] if one.schedules else []
    return f'"{one.task}" ({" and ".join(jobs + schedules)})'
