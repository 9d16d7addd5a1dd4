"""Two witnesses of what became of due moments: the ledger, and the file outside the system."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from duly.model.fire import Outcome, StoredFire
from duly.model.payload import encode
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan, StoredSchedule
from duly.model.states import State
from duly.rules import Rule
from duly.store.store import Store
from tests.acceptance.fleet import Fleet, Span, idle
from tests.acceptance.report import Report, percentile

MANY = 1_000_000


def every_second(count: int, *, end: datetime, everything: bool) -> list[Plan]:
    """Schedules with short jobs until a moment, which all must run, or with the defaults."""
    missed = Missed("all", at_most=1_000)
    policies = (
        Policies(overlap="allow", missed=missed, end=end) if everything else Policies(end=end)
    )
    args = encode({"seconds": 0.3}, what="the arguments")
    return [
        Plan(name=f"second {number:04}", rule="every 1s", task="nap", args=args, policies=policies)
        for number in range(count)
    ]


async def over(store: Store) -> bool:
    """Whether every moment of every schedule was dealt with, and every job."""
    schedules = await store.schedules.page(limit=MANY)
    return all(schedule.next_at is None for schedule in schedules) and await idle(store)


async def judge_every_moment(
    store: Store,
    added: Sequence[StoredSchedule],
    there: Fleet,
    *,
    report: Report,
    restored: bool = False,
) -> None:
    """One fire for each moment, one job for each fire, and every job is done.

    In a database that was ``restored``, moments may have run before, in jobs that are gone.
    """
    ran = defaultdict(set)
    for line in there.lines("end"):
        ran[line.schedule, line.due].add(line.job)
    succeeded = {job.id for job in await store.jobs.ended(State.SUCCEEDED, limit=MANY)}
    due, fired, lost, doubled = set(), set(), [], []
    for schedule in added:
        fires = await _fires(store, schedule)
        fired |= {(schedule.id, fire.due_at) for fire in fires}
        for moment in _moments(schedule):
            due.add((schedule.id, moment))
            rows = [fire for fire in fires if fire.due_at == moment]
            jobs = {fire.job_id for fire in rows if fire.outcome is Outcome.QUEUED}
            found = ran[schedule.id, moment]
            where = f"{schedule.plan.name} at {moment:%H:%M:%S}: ledger {rows}, file {found}"
            if not jobs or not jobs <= succeeded & found:
                lost.append(where)
            if len(rows) > 1 or (len(jobs | found) > 1 and not restored):
                doubled.append(where)
    begun = [line for line in there.lines("begin") if line.schedule]
    phantoms = (fired | {(line.schedule, line.due) for line in begun}) - due
    early = [line for line in begun if line.at < line.due]
    twice = [] if restored else there.completed_twice()
    report.say(f"{len(due)} moments due, {len(lost)} lost, {len(doubled)} doubled")
    report.say(f"{len(phantoms)} phantoms, {len(early)} early, {len(twice)} completed twice")
    failed = await store.jobs.ended(State.FAILED, limit=MANY)
    if failed:
        crashes = sorted({job.crashes for job in failed})
        report.say(f"{len(failed)} jobs failed, whose workers had died {crashes} times")
    report.must(len(due) > len(added), "next to nothing was due")
    report.must(not lost, f"lost: {lost[:3]}")
    report.must(not doubled, f"doubled: {doubled[:3]}")
    report.must(not phantoms, f"ran and was never due: {sorted(phantoms)[:3]}")
    report.must(not early, f"ran before its time: {early[:3]}")
    report.must(not twice, f"completed twice: {twice[:3]}")


def judge_by_the_file(added: Sequence[StoredSchedule], there: Fleet, *, report: Report) -> None:
    """Every moment ran, in one job, also where the ledger has forgotten it."""
    ran = defaultdict[tuple[int, datetime], set[int]](set)
    for line in there.lines("end"):
        if line.schedule:
            ran[line.schedule, line.due].add(line.job)
    due = {(schedule.id, moment) for schedule in added for moment in _moments(schedule)}
    lost, phantoms = due - ran.keys(), ran.keys() - due
    doubled = [moment for moment, jobs in ran.items() if len(jobs) > 1]
    report.say(f"{len(due)} moments due, {len(lost)} lost, {len(doubled)} doubled")
    report.must(not lost, f"lost: {sorted(lost)[:3]}")
    report.must(not doubled, f"doubled: {doubled[:3]}")
    report.must(not phantoms, f"ran and was never due: {sorted(phantoms)[:3]}")


async def judge_accounts(
    store: Store, added: Sequence[StoredSchedule], there: Fleet, *, report: Report
) -> None:
    """Every moment is covered by one row, and no schedule runs twice at once."""
    due, unaccounted, ran = 0, [], 0
    for schedule in added:
        fires = await _fires(store, schedule)
        ran += sum(fire.outcome is Outcome.QUEUED for fire in fires)
        for moment in _moments(schedule):
            due += 1
            rows = [fire for fire in fires if fire.covers_from <= moment <= fire.due_at]
            if len(rows) != 1:
                unaccounted.append(f"{schedule.plan.name} at {moment:%H:%M:%S}: {rows}")
    failed = await store.jobs.ended(State.FAILED, limit=MANY)
    overlaps = _overlaps(there)
    report.say(f"{due} moments due, {len(unaccounted)} of them not accounted for, {ran} ran")
    report.say(f"{len(overlaps)} overlapped")
    report.must(due > len(added) and ran > len(added), "next to nothing ran")
    report.must(not unaccounted, f"not accounted for: {unaccounted[:3]}")
    report.must(not failed, f"failed: {failed[:3]}")
    report.must(not overlaps, f"two runs of one schedule at once: {overlaps[:3]}")


def lateness(there: Fleet) -> list[timedelta]:
    """From each due moment to the beginning of the run that completed, if it said when it began."""
    begun = {(line.job, line.fence): line for line in there.lines("begin") if line.schedule}
    ends = [(line.job, line.fence) for line in there.lines("end")]
    ended = {job: begun[job, fence] for job, fence in ends if (job, fence) in begun}
    return [line.at - line.due for line in ended.values()]


def say_lateness(there: Fleet, report: Report, *, most: float) -> None:
    lengths = lateness(there)
    again = there.count("begin") - len({line.job for line in there.lines("begin")})
    report.say(f"{again} runs repeated")
    report.say(f"late p50 {percentile(lengths, 0.5):.3f} s")
    report.within(percentile(lengths, 0.99), most, "p99")
    report.say(f"worst {percentile(lengths, 1):.2f} s")


def _overlaps(there: Fleet) -> list[str]:
    return overlapping(there, lambda span: span.schedule)


def overlapping(there: Fleet, subject: Callable[[Span], int]) -> list[str]:
    """Return the runs of one subject, as a job, that took place at the same time."""
    spans = defaultdict(list)
    for span in there.spans():
        spans[subject(span)].append(span)
    return [
        f"{first} and {second}"
        for found in spans.values()
        for first, second in pairwise(sorted(found, key=lambda span: span.begin))
        if second.begin < first.end
    ]


async def _fires(store: Store, schedule: StoredSchedule) -> list[StoredFire]:
    return await store.ledger.fires(schedule.plan.name, limit=MANY)


def _moments(schedule: StoredSchedule) -> list[datetime]:
    rule, end = schedule.plan.kept, schedule.plan.policies.end
    assert isinstance(rule, Rule)
    assert end is not None
    return list(rule.between(schedule.created_at, end, MANY))
