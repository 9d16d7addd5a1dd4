"""Answers, from evidence made by hand: what real stores show rarely, word by word."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.job import Attempt, StoredJob
from duly.model.limit import LimitInfo, Queue, Rate
from duly.model.schedule import Pause, ScheduleChange, StoredSchedule
from duly.model.states import State
from duly.model.terms import Terms
from duly.model.worker import Profile, WorkerInfo
from duly.policy.retry import Retry
from duly.policy.why import (
    AbsenceEvidence,
    AskedTime,
    Explanation,
    JobEvidence,
    MomentEvidence,
    SuggestedCommand,
    explain_absence,
    explain_job,
    explain_moment,
    read_time,
)
from tests.policy.deciding import at, schedule

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
NOW = at("2026-11-13 05:00")  # 06:00 in Berlin
DUE = at("2026-11-13 01:00")
NIGHTLY = replace(
    schedule("0 2 * * *", "2026-11-01 00:00", zone="Europe/Berlin"), cursor=NOW, next_at=None
)


def job(state: State = State.READY, **changes: Any) -> StoredJob:
    known: dict[str, Any] = {
        "id": 7,
        "task": "work",
        "state": state,
        "created_at": DUE,
        "due_at": DUE,
        "ready_at": DUE,
    }
    return StoredJob(**{**known, **changes})


def worker(name: str = "web-1", **changes: Any) -> WorkerInfo:
    known: dict[str, Any] = {
        "id": 3,
        "profile": Profile(name=name, queues=("default",), signatures={"work": ""}, slots=2),
        "started_at": DUE,
        "lease_until": NOW + MINUTE,
        "beat_at": NOW,
    }
    return WorkerInfo(**{**known, **changes})


def of_job(found: StoredJob, **changes: Any) -> str:
    return explain_job(JobEvidence(job=found, now=NOW, **changes)).sentence


def fire(
    outcome: Outcome = Outcome.QUEUED, cause: Cause | None = None, **changes: Any
) -> StoredFire:
    known: dict[str, Any] = {
        "id": 5,
        "schedule_id": 1,
        "due_at": DUE,
        "covers_from": DUE,
        "count": 1,
        "reason": "queued on time",
        "decided_at": DUE,
    }
    return StoredFire(**{**known, **changes}, outcome=outcome, cause=cause)


def of_moment(found: StoredFire, **changes: Any) -> Explanation:
    known: dict[str, Any] = {"schedule": NIGHTLY, "moment": found.due_at, "now": NOW}
    return explain_moment(MomentEvidence(fire=found, **{**known, **changes}))


def of_absence(there: StoredSchedule, asked: str | None = "02:00", **changes: Any) -> Explanation:
    read = None if asked is None else read_time(asked, zone="Europe/Berlin", now=NOW)
    return explain_absence(AbsenceEvidence(schedule=there, now=NOW, asked=read, **changes))


# How an answer is laid out.


def test_an_answer_is_the_sentence_the_evidence_and_the_steps() -> None:
    steps = (
        SuggestedCommand("see it", "duly jobs show 7"),
        SuggestedCommand("run it now", "duly schedules run x"),
    )
    answer = Explanation(sentence="It was so.", evidence=("because",), commands=steps)
    assert str(answer).splitlines() == [
        "It was so.",
        "  because",
        "  see it       duly jobs show 7",
        "  run it now   duly schedules run x",
    ]
    assert str(Explanation(sentence="It was so.")) == "It was so."


def test_what_is_to_be_typed_can_be_typed() -> None:
    named = replace(NIGHTLY, plan=replace(NIGHTLY.plan, name="it's here"))
    found = of_moment(
        fire(Outcome.SKIPPED, Cause.MISSED, reason="nobody was there"), schedule=named
    )
    assert found.commands[0].line == """duly schedules run 'it'"'"'s here'"""


# Jobs that wait.


@pytest.mark.parametrize(
    ("queue", "changes", "said"),
    [
        (
            Queue(name="default", rate=Rate.parse("100/m")),
            {},
            'queue "default" has a rate of 100/m',
        ),
        (
            Queue(name="default", concurrency=2),
            {"running_in_queue": 2, "ahead": 1},
            'queue "default" is full: 2 of 2 run, and 1 job is before it in queue "default" '
            "(its priority is 0)",
        ),
        (
            None,
            {"ahead": 10_001},
            'more than 10,000 jobs are before it in queue "default" (its priority is 0)',
        ),
    ],
)
def test_a_ready_job_says_what_it_waits_for(
    queue: Queue | None, changes: dict[str, Any], said: str
) -> None:
    found = of_job(job(), queue=queue, living=[worker()], **changes)
    assert found == f"job 7 (work) was due 01:00 UTC and waits: {said}."


def test_a_ready_job_with_room_everywhere_begins_any_moment() -> None:
    assert of_job(job(), living=[worker()]) == (
        "job 7 (work) was due 01:00 UTC and is ready: a worker will begin it any moment."
    )


def test_who_knows_the_task_and_who_listens_must_be_the_same_worker() -> None:
    elsewhere = Profile(name="mail-1", queues=("mail",), signatures={"work": ""})
    stranger = Profile(name="web-1", queues=("default",), signatures={"other": ""})
    living = [worker(profile=elsewhere, id=1), worker(profile=stranger, id=2)]
    assert of_job(job(), living=living).endswith(
        'waits for a worker: no worker that knows the task listens to queue "default" '
        "(mail-1: mail)."
    )


def test_a_job_at_a_limit_says_how_it_stands_there() -> None:
    waiting = job(State.BLOCKED, waits="limit", waits_for="crm", reason="as it was then")
    limit = LimitInfo(
        name="crm", template="", concurrency=2, rate=Rate.parse("5/s"), running=1, waiting=4
    )
    assert of_job(waiting, limit=limit).endswith(
        'and waits: limit "crm" has a rate of 5/s, 4 jobs wait there.'
    )
    assert of_job(waiting, limit=replace(limit, running=2)).endswith(
        'and waits: limit "crm" is full: 2 of 2 run, 4 jobs wait there.'
    )
    assert of_job(waiting).endswith("and waits: as it was then.")


def test_a_job_whose_worker_is_there_again_is_about_to_be_set_free() -> None:
    waiting = job(State.BLOCKED, waits="worker", waits_for="work")
    assert of_job(waiting, living=[worker()]).endswith(
        "and waits to be unblocked: a worker knows the task now."
    )


def test_a_blocked_job_whose_predecessor_is_gone_says_what_was_written() -> None:
    assert of_job(job(State.BLOCKED, reason="waits for the run of Thu")).endswith(
        "and waits for the run of Thu."
    )


def test_many_workers_are_named_by_the_first() -> None:
    busy = [worker(f"web-{n}", id=n, running=2) for n in range(5)]
    assert of_job(job(), living=busy).endswith(
        "waits for a free slot: all 10 of web-0, web-1, web-2 and 2 more are taken."
    )


# Jobs that run, and that have ended.


def test_a_running_job_says_what_is_usual() -> None:
    running = job(State.RUNNING, claimed_at=DUE + SECOND, attempt=2, worker=3)
    assert of_job(running, usual=40 * MINUTE, runner=worker()) == (
        "job 7 (work) was due 01:00 UTC and is running since 01:00:01 "
        "(3 h 59 min, usually 40 min), attempt 2 of 3, on web-1."
    )


def test_a_running_job_without_a_worker_will_be_run_again() -> None:
    running = job(State.RUNNING, claimed_at=DUE, attempt=1, worker=3)
    answer = explain_job(JobEvidence(job=running, now=NOW, living=[worker()]))
    assert answer.sentence.endswith("attempt 1 of 3, on worker 3.")
    again = "its worker is gone: the job will be reclaimed and run again"
    assert answer.evidence == (again,)
    alone = explain_job(JobEvidence(job=running, now=NOW))
    assert alone.evidence == (f"{again} by the next worker: none is running",)
    assert alone.commands[-1] == SuggestedCommand("start one", "duly up")


def test_a_job_whose_workers_process_is_gone_need_not_wait_for_its_lease_to_say_so() -> None:
    running = job(State.RUNNING, claimed_at=DUE, attempt=1, worker=3)
    runner = worker(lease_until=NOW + 11 * SECOND)
    answer = explain_job(JobEvidence(job=running, now=NOW, runner=runner, is_gone=True))
    assert answer.sentence == (
        "job 7 (work) was due 01:00 UTC and was running since 01:00 (4 h), attempt 1 of 3, "
        "on web-1, which is gone."
    )
    assert answer.evidence == (
        "the process of web-1 is gone; its lease ends in 11 s: the job will be reclaimed and run "
        "again by the next worker: none is running",
    )
    assert [command.line for command in answer.commands] == ["duly jobs logs 7 -f", "duly up"]


def test_what_was_asked_to_stop_is_not_offered_to_be_stopped() -> None:
    running = job(State.RUNNING, claimed_at=DUE, attempt=1, worker=3)
    found = JobEvidence(job=running, now=NOW, runner=worker(), stopping="sent by hand")
    assert [one.what for one in explain_job(found).commands] == ["see it"]
    answer = of_moment(fire(Outcome.SKIPPED, Cause.OVERLAP), in_the_way=found)
    assert answer.sentence.endswith("is still running: 4 h, no timeout set; it was asked to stop.")
    assert "stop it" not in [one.what for one in answer.commands]


def test_crashes_are_not_counted_as_tries() -> None:
    running = job(State.RUNNING, claimed_at=DUE, attempt=3, crashes=2, worker=3)
    assert "attempt 3 (2 were lost with workers: try 1 of 3), on web-1" in of_job(
        running, runner=worker()
    )
    once = replace(running, attempt=2, crashes=1)
    assert "attempt 2 (1 was lost with its worker: try 1 of 3)" in of_job(once, runner=worker())


def test_a_rescued_job_is_as_late_as_the_run_that_counted() -> None:
    began = DUE + 23 * SECOND
    done = job(State.SUCCEEDED, claimed_at=began, ended_at=began + SECOND, attempt=2, crashes=1)
    lost = Attempt(
        job_id=7, number=1, worker=3, fence=1, started_at=DUE, ended_at=began,
        outcome="lost", reason="its worker is gone",
    )  # fmt: skip
    assert "ran 23 s late (started 01:00:23, took 1 s)" in of_job(done, attempts=(lost,))


def test_a_job_that_failed_at_once_says_so_and_why_it_was_not_retried() -> None:
    failed = job(
        State.FAILED,
        attempt=1,
        error="ValueError: no\n\nTraceback",
        reason="not retried: ValueError is not in on=",
        ended_at=DUE + SECOND,
    )
    answer = explain_job(JobEvidence(job=failed, now=NOW))
    assert answer.sentence == (
        "job 7 (work) was due 01:00 UTC and failed at its first attempt: ValueError: no."
    )
    assert answer.evidence == ("ended 01:00:01: not retried: ValueError is not in on=",)


def test_a_retry_says_which_attempt_came_before() -> None:
    tried = Attempt(
        job_id=7,
        number=2,
        worker=3,
        fence=1,
        started_at=NOW - MINUTE,
        ended_at=NOW,
        outcome="timedout",
        reason="attempt 2 of 5 ran longer than 1m; next try in 3m",
        error="TimedOut: ran longer than 1m",
    )
    waiting = job(
        State.SCHEDULED,
        attempt=2,
        ready_at=NOW + 3 * MINUTE,
        retry=Retry(attempts=5).as_json(),
    )
    assert of_job(waiting, attempts=[tried]) == (
        "job 7 (work) was due 01:00 UTC and is tried again 05:03 (in 3 min): "
        "attempt 2 of 5 ended with TimedOut: ran longer than 1m."
    )
    answer = explain_job(JobEvidence(job=waiting, now=NOW, attempts=[tried]))
    line = "attempt 2, 04:59 to 05:00: TimedOut: ran longer than 1m"
    assert (answer.evidence, answer.attempts) == ((), (line,))  # a page lists attempts elsewhere
    assert str(answer).splitlines()[1] == f"  {line}"


def test_a_job_that_was_called_off_before_its_moment_is_not_due_any_more() -> None:
    later = job(State.SCHEDULED, due_at=NOW + HOUR, ready_at=NOW + HOUR)
    assert of_job(later) == "job 7 (work) is due 06:00 UTC, in 1 h."
    off = replace(later, state=State.CANCELLED, ended_at=NOW, reason="cancelled by ada")
    assert of_job(off) == "job 7 (work) was due 06:00 UTC and was cancelled by ada (05:00)."
    again = replace(later, state=State.READY, ready_at=NOW)  # retried
    assert of_job(again, living=[worker()]) == (
        "job 7 (work) was due 06:00 UTC and is ready: a worker will begin it any moment."
    )


def test_a_job_that_could_not_be_handed_over_says_why_it_waits() -> None:
    down = "main (celery) cannot be reached: OperationalError: Connection refused."
    waiting = job(State.SCHEDULED, ready_at=NOW + 3 * MINUTE, reason=down)
    assert of_job(waiting) == (
        "job 7 (work) was due 01:00 UTC and is to start 05:03 (in 3 min): "
        "main (celery) cannot be reached: OperationalError: Connection refused."
    )


def test_a_job_whose_outcome_was_reported_is_not_said_to_have_a_worker() -> None:
    ended = job(State.SUCCEEDED, claimed_at=DUE, ended_at=DUE + MINUTE)
    assert explain_job(JobEvidence(job=ended, now=NOW)).evidence == ("job 7",)
    by_worker = replace(ended, worker=3)
    assert explain_job(JobEvidence(job=by_worker, now=NOW)).evidence == ("job 7 on worker 3",)


# Moments that the ledger knows.


def test_a_moment_that_waited_for_its_decision_beside_others_says_how_long() -> None:
    late = fire(Outcome.SKIPPED, Cause.MISSED, reason="nobody was there", decided_at=DUE + HOUR)
    assert of_moment(late, last_decision=DUE + MINUTE).evidence == (
        "it was decided 03:00, 1 h after it was due",
    )
    assert of_moment(late, last_decision=DUE - MINUTE).evidence == (
        "no scheduler was running: nothing was decided from 01:59 to 03:00",
    )
    assert of_moment(late).evidence == (
        "no scheduler was running: nothing was decided before 03:00",
    )


def test_what_was_chosen_has_no_gap_to_tell() -> None:
    chosen = fire(Outcome.SKIPPED, Cause.PAUSED, reason="it was paused", decided_at=DUE + HOUR)
    assert of_moment(chosen).evidence == ()


def test_a_stretch_that_cannot_be_counted_says_so() -> None:
    many = fire(Outcome.MERGED, count=None, covers_from=DUE - HOUR, reason="merged into another")
    answer = of_moment(many)
    assert answer.sentence == (
        "report was due Fri 2026-11-13 02:00 Europe/Berlin and was merged into another."
    )
    assert answer.evidence == ("the same is true of too many runs to count, from 01:00 to 02:00",)


def test_a_merged_moment_whose_run_is_forgotten_names_its_job() -> None:
    into = fire(due_at=DUE + HOUR, job_id=9)
    assert of_moment(fire(Outcome.MERGED), into=into).sentence == (
        "report was due Fri 2026-11-13 02:00 Europe/Berlin and was merged into the run of 03:00, "
        "whose job (9) has ended and been deleted."
    )


def test_an_overlap_whose_run_is_forgotten_says_what_was_written_then() -> None:
    skipped = fire(Outcome.SKIPPED, Cause.OVERLAP, reason='overlap="skip", and job 4 ran')
    assert of_moment(skipped).sentence.endswith(
        'was skipped at 02:00: overlap="skip", and job 4 ran.'
    )


def test_a_run_in_the_way_with_a_timeout_names_it() -> None:
    running = job(
        State.RUNNING,
        due_at=DUE - 24 * HOUR,
        claimed_at=DUE - 24 * HOUR,
        terms=Terms(timeout=48 * HOUR),
    )
    answer = of_moment(
        fire(Outcome.SKIPPED, Cause.OVERLAP), in_the_way=JobEvidence(job=running, now=NOW)
    )
    assert answer.sentence.endswith(
        "and the run of Thu 02:00 (job 7) is still running: 28 h, timeout 48h."
    )
    assert answer.commands[-1].line == 'overlap="queue_one" on the schedule: the newest waits'


def test_what_was_kept_by_a_paused_schedule_says_that_it_is_paused_now() -> None:
    done = job(State.SUCCEEDED, claimed_at=DUE, ended_at=DUE + SECOND, attempt=1, worker=3)
    paused = replace(NIGHTLY, pause=Pause(since=NOW))
    answer = of_moment(fire(job_id=7), schedule=paused, job=JobEvidence(job=done, now=NOW))
    assert answer.sentence.endswith("ran on time (0 ms late, took 1 s). It is paused now.")


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (1, " Next: Sat 02:00; 2 of 3 runs left."),
        (3, " It has made all its runs (max_runs=3) and is finished."),
    ],
)
def test_a_schedule_with_a_number_of_runs_says_how_many_are_left(runs: int, said: str) -> None:
    done = job(State.SUCCEEDED, claimed_at=DUE, ended_at=DUE + SECOND, attempt=1, worker=3)
    policies = replace(NIGHTLY.plan.policies, max_runs=3)
    counted = replace(
        NIGHTLY,
        plan=replace(NIGHTLY.plan, policies=policies),
        runs=runs,
        next_at=DUE + 24 * HOUR,
    )
    answer = of_moment(fire(job_id=7), schedule=counted, job=JobEvidence(job=done, now=NOW))
    assert answer.sentence.endswith(f"took 1 s).{said}")


# Moments that it does not know.


def test_a_rule_without_moments_to_come_says_so() -> None:
    assert of_absence(NIGHTLY, None).sentence == (
        "report has not been due yet, and its rule has no later time."
    )


def test_a_schedule_that_was_paused_before_its_first_moment_says_until_when() -> None:
    pause = Pause(since=NOW - HOUR, until=NOW + HOUR, by="ada", note="not yet")
    assert of_absence(replace(NIGHTLY, pause=pause), None).sentence == (
        "report has not been due yet: it is paused by ada since 05:00 until 07:00: not yet."
    )


def test_a_schedule_that_stands_still_before_its_first_moment_says_why() -> None:
    assert of_absence(replace(NIGHTLY, fault="no such zone"), None).sentence == (
        "report has not been due yet, and cannot be fired: no such zone."
    )


def test_a_pause_that_catches_up_says_who_decides() -> None:
    paused = replace(NIGHTLY, cursor=DUE - HOUR, pause=Pause(since=DUE - HOUR, catch_up=True))
    assert of_absence(paused, moment=DUE).sentence == (
        "report was due Fri 2026-11-13 02:00 Europe/Berlin: it is paused since 01:00; "
        "missed= decides about it when it is resumed."
    )


def test_a_moment_of_a_second_ago_is_about_to_be_fired() -> None:
    waiting = replace(NIGHTLY, cursor=NOW - HOUR)
    asked = AskedTime(start=NOW - SECOND, until=NOW, text="")
    found = AbsenceEvidence(schedule=waiting, now=NOW, asked=asked, moment=NOW - SECOND)
    assert explain_absence(found).sentence.endswith("and is about to be fired.")


def test_without_any_decision_it_is_told_that_there_was_none() -> None:
    waiting = replace(NIGHTLY, cursor=DUE - HOUR)
    assert of_absence(waiting, moment=DUE).sentence == (
        "report was due Fri 2026-11-13 02:00 Europe/Berlin and has not been fired: "
        "no scheduler is running. Nothing was ever fired."
    )


def test_what_is_long_forgotten_says_how_long_is_kept() -> None:
    assert of_absence(NIGHTLY, moment=DUE).sentence == (
        "report was due Fri 2026-11-13 02:00 Europe/Berlin, and its ledger row is gone: "
        "the ledger keeps 90 days, unless configured otherwise (keep_fires)."
    )


def test_a_change_that_did_not_take_the_moment_away_is_only_evidence() -> None:
    change = ScheduleChange(
        DUE - HOUR, "ada", "rule: 0 3 * * * → 0 2 * * *; zone: None → Europe/Berlin"
    )
    answer = of_absence(NIGHTLY, "05:00", changes=(change,), before=DUE)
    assert answer.sentence == (
        "report was not due Fri 2026-11-13 05:00 Europe/Berlin: "
        'that is not a time of its rule, "0 2 * * *".'
    )
    assert answer.evidence == (
        "nearest: Fri 2026-11-13 02:00 Europe/Berlin",
        "it was changed 01:00 by ada (rule: 0 3 * * * → 0 2 * * *; zone: None → Europe/Berlin)",
    )


def test_a_change_that_took_the_moment_away_is_the_answer() -> None:
    change = ScheduleChange(DUE - HOUR, "", "rule: 0 5 * * * → 0 2 * * *; queue: a → b")
    assert of_absence(NIGHTLY, "05:00", changes=(change,)).sentence == (
        "report was not due Fri 2026-11-13 05:00 Europe/Berlin: "
        "it was changed 01:00 (rule: 0 5 * * * → 0 2 * * *; queue: a → b)."
    )


def test_a_day_without_a_moment_is_answered_as_a_day() -> None:
    assert of_absence(NIGHTLY, "2026-11-12").sentence.startswith(
        "report was not due on Thu 2026-11-12 (Europe/Berlin): that is not a time of its rule"
    )


def test_a_time_to_come_that_is_no_moment_says_so() -> None:
    assert of_absence(NIGHTLY, "2026-11-20 05:00").sentence.startswith(
        "report is not due Fri 2026-11-20 05:00 Europe/Berlin: that is not a time of its rule"
    )
