"""``duly jobs``: found by words, looked at closely, given another chance or called off."""

import importlib
import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly import Duly, Job
from duly.cli import main
from duly.errors import JobFailed
from duly.model.states import State
from tests.app import shop
from tests.app.programs import Programs
from tests.app.shop import is_up, put_up
from tests.app.waiting import eventually
from tests.cli import office

pytestmark = pytest.mark.usefixtures("shop_is_open")


@pytest.fixture(autouse=True)
def on_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def at_work(shop_is_open: None) -> Iterator[None]:
    with shop.duly.running(scheduler=False):
        yield


@pytest.fixture
def office_is_open(shop_is_open: None) -> Iterator[None]:
    importlib.reload(office)
    yield
    office.duly.close()


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["jobs", *words])


def listed(*words: str) -> list[int]:
    done = command(*words, "-o", "name")
    assert done.exit_code == 0, done.output
    return [int(line) for line in done.stdout.split()]


def failed(text: str) -> Job[int]:
    job = shop.fail.enqueue(text)
    with pytest.raises(JobFailed):
        job.result("9s")
    return job


def test_a_bare_noun_lists_the_newest_first() -> None:
    jobs = [shop.add.enqueue(n) for n in range(3)]
    done = command("--utc")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["ID", "STATE", "TASK", "TITLE", "QUEUE", "DUE", "AGE/TOOK", "REASON"]
    assert [int(row.split()[0]) for row in rows] == [job.id for job in reversed(jobs)]
    assert [row.split()[1:4] for row in rows] == [["ready", "add", "default"]] * 3


def test_wide_has_more_columns_and_json_is_for_programs(url: str) -> None:
    job = shop.add.using(tenant="acme", key="k", tags=["nightly"]).enqueue(1)
    head = command("-o", "wide").stdout.splitlines()[0]
    assert head.split()[-4:] == ["TENANT", "KEY", "ATTEMPT", "WORKER"]
    [told] = json.loads(command("-o", "json").stdout)
    assert (told["id"], told["state"], told["tenant"], told["key"], told["tags"]) == (
        job.id, "ready", "acme", "k", ["nightly"],
    )  # fmt: skip
    assert command("-o", "json").stderr.startswith("database: ")


def test_jobs_are_found_by_words_behind_the_noun_and_behind_list() -> None:
    plain = shop.add.enqueue(1)
    mail = shop.add.using(queue="mail", key="order:7").enqueue(2)
    later = shop.bill.using(run_after="1h", tags=["nightly"]).enqueue(7, date(2026, 3, 5))
    assert listed() == [later.id, mail.id, plain.id]
    assert listed("queue:mail") == listed("list", "queue:mail") == [mail.id]
    assert listed("key:order:7", "state:ready") == [mail.id]
    assert listed("state:scheduled") == listed("tag:nightly") == listed("task:bill") == [later.id]
    assert listed("invoice of 7") == listed("text:INVOICE") == [later.id]
    assert listed("since:1h", "before:30m") == []
    assert listed("state:ready queue:mail") == [mail.id]


def test_nothing_found_is_said_beside_the_output() -> None:
    shop.add.enqueue(1)
    done = command("queue:mail")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no job matches" in done.stderr


def test_a_page_says_where_the_next_begins() -> None:
    jobs = [shop.add.enqueue(n).id for n in range(5)]
    first = command("-o", "name", "--limit", "2")
    assert first.stdout.split() == [str(jobs[4]), str(jobs[3])]
    assert f"there are more: continue with --after l.{jobs[3]}, or raise --limit" in first.stderr
    last = command("-o", "name", "--limit", "3", "--after", f"l.{jobs[3]}")
    assert last.stdout.split() == [str(job) for job in reversed(jobs[:3])]
    assert "there are more" not in last.stderr
    wrong = command("--after", str(jobs[3]))
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert f"after='{jobs[3]}': not a cursor of jobs" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stat:failed"], "a filter has no key stat:; did you mean state:"),
        (["failed"], "did you mean state:failed?"),
        (["state:dead"], 'no state is called "dead"'),
        (["retyr", "7"], 'did you mean "duly jobs retry 7"?'),
        (["17"], "did you mean duly jobs show 17?"),
        (["retry"], "choose the jobs: ids, or a filter"),
        (["cancel", "17", "queue:mail"], "either ids (17) or a filter, not both"),
        (["retry", "state:running"], "only failed jobs can be retried"),
        (["cancel", "state:failed"], "only scheduled, blocked, ready, running jobs can be"),
        (["--limit", "0"], "not in the range"),
        (["task~send"], "task does not support ~; use task:send"),
        (
            ["--limit", "abc"],
            "Invalid value for '-n' / '--limit': \"abc\" is not a whole number from 1",
        ),
        (["show", "abc"], "Invalid value for 'ID': \"abc\" is not a whole number from 1\n"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_may_be_meant(
    words: list[str], said: str
) -> None:
    done = command(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    "words", [[], ["show", "17"], ["logs", "17"], ["retry", "17"], ["cancel", "x", "--yes"]]
)
def test_asking_never_makes_a_store(tmp_path: Path, words: list[str]) -> None:
    here = tmp_path / "here"
    here.mkdir()
    done = command(*words, "--store", str(here / "other.db"))
    assert (done.exit_code, done.stdout) == (5, "")
    assert "no database at" in done.stderr
    assert list(here.iterdir()) == []


def test_a_schedule_that_is_not_there_and_a_job_that_is_not_there() -> None:
    shop.add.enqueue(1)
    done = command("schedule:nightly")
    assert (done.exit_code, done.stderr.splitlines()[1:]) == (
        3, ['Error: there is no schedule "nightly"'],
    )  # fmt: skip
    for words in (["show", "17"], ["logs", "17"], ["retry", "17"], ["cancel", "17"]):
        done = command(*words)
        assert (done.exit_code, "there is no job 17" in done.stderr) == (3, True)


@pytest.mark.usefixtures("at_work")
def test_show_tells_everything_about_a_failed_job() -> None:
    job = failed("the relay is down")
    done = command("show", str(job.id))
    assert done.exit_code == 0
    sentence, *_ = done.stdout.splitlines()
    assert sentence.startswith(f"job {job.id} (fail) was due ")
    assert sentence.endswith(" and failed at its first attempt: ValueError: the relay is down.")
    assert "attempt 1 of 1 raised ValueError: the relay is down" in done.stdout
    sections = [line for line in done.stdout.splitlines() if line.isupper() and line.isalpha()]
    assert sections == ["ARGUMENTS", "ABOUT", "WHERE", "ATTEMPTS"]
    assert '  text  "the relay is down"' in done.stdout
    assert "Traceback (most recent call last):" in done.stdout
    told = json.loads(command("show", str(job.id), "-o", "json").stdout)
    assert (told["state"], told["args"]) == ("failed", {"text": "the relay is down"})
    assert [attempt["outcome"] for attempt in told["attempts"]] == ["raised"]


@pytest.mark.usefixtures("at_work")
def test_show_has_the_result_and_where_it_ran() -> None:
    job = shop.bill.enqueue(7, date(2026, 3, 5))
    job.result("9s")
    told = command("show", str(job.id)).stdout
    sentence, *_ = told.splitlines()
    assert sentence.startswith(f"job {job.id} (invoice of 7) was due ")
    assert " and ran on time " in sentence
    assert re.search("^  task +bill$", told, re.MULTILINE)
    assert '"customer": 7' in told.split("RESULT")[1]
    assert "  worker  " in told.split("WHERE")[1]
    [_, attempt] = told.split("ATTEMPTS\n")[1].split("\n\n")[0].splitlines()
    [worker] = json.loads(CliRunner().invoke(main, ["workers", "-o", "json"]).stdout)
    assert attempt.split()[0] == "1"
    assert attempt.split()[-2:] == [worker["name"], "succeeded"]


@pytest.mark.usefixtures("office_is_open")
def test_secrets_among_the_arguments_are_not_shown() -> None:
    job = office.keep.enqueue(
        {"token": {"is": "hunter2"}}, password="hunter2", note="token=hunter2"
    )
    for words in ([], ["-o", "json"], ["-o", "json", "--utc"]):
        done = command("show", str(job.id), *words)
        assert (done.exit_code, "hunter2" in done.stdout, "***" in done.stdout) == (0, False, True)


@pytest.mark.usefixtures("at_work")
def test_logs_are_what_a_job_has_said() -> None:
    job = shop.add.enqueue(3)
    job.result("9s")
    done = command("logs", str(job.id))
    assert done.stdout.rstrip().endswith("adding 3 and 2")
    quiet = shop.pid.using(queue="nobody").enqueue()
    done = command("logs", str(quiet.id))
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"job {quiet.id} has no log output" in done.stderr


@pytest.mark.usefixtures("office_is_open")
def test_a_log_is_followed_until_the_job_has_ended(programs: Programs, tmp_path: Path) -> None:
    sign = str(tmp_path / "sign")
    job = office.recite.enqueue(sign)
    follower = programs.start("-m", "duly", "jobs", "logs", str(job.id), "--follow")
    programs.start("-m", "duly", "worker", "tests.cli.office")
    follower.hear("the first line")
    assert follower.is_alive
    put_up(f"{sign}.go")
    follower.hear("the last line")
    assert follower.end() == 0


@pytest.mark.usefixtures("at_work")
def test_failed_jobs_are_retried_by_their_numbers() -> None:
    job, done_well = failed("no"), shop.add.enqueue(1)
    done_well.result("9s")
    done = command("retry", str(job.id), str(done_well.id))
    assert (done.exit_code, done.stdout) == (1, f"{job.id}\n")
    assert f"job {done_well.id} is succeeded: only a failed job can be retried" in done.stderr
    eventually(lambda: len(job.refresh().attempts) == 2, "the second attempt to fail")


def test_many_are_counted_before_they_are_retried() -> None:
    with shop.duly.running(scheduler=False):
        jobs = [failed(f"no {n}") for n in range(3)]
    asked = command("retry", "task:fail")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "this would retry 3 failed jobs: add --yes" in asked.stderr
    assert listed("state:failed") == [job.id for job in reversed(jobs)]
    first = command("retry", "task:fail", "--first", "2", "--yes")
    assert first.stdout.split() == [str(job.id) for job in jobs[:2]]
    assert "retry the first 2 of 3 failed jobs\n" in first.stderr
    assert first.stderr.endswith("retried 2 jobs\n")
    assert listed("state:failed") == [jobs[2].id]
    assert jobs[0].refresh().reason.startswith("retried by ")
    none = command("retry", "error:other", "--yes")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no failed job matches: nothing to retry" in none.stderr


def test_jobs_are_cancelled_by_number_or_all_that_match() -> None:
    first, *others = [shop.add.enqueue(n) for n in range(3)]
    spared = shop.add.using(queue="mail").enqueue(4)
    by_number = command("cancel", str(first.id), "--reason", "by hand")
    assert by_number.stdout == f"{first.id}\n"
    assert by_number.stderr.endswith(f"job {first.id}: cancelled\n")
    assert (first.refresh().state, first.reason) == (State.CANCELLED, "cancelled: by hand")
    asked = command("cancel", "queue:default")
    assert "this would cancel 2 unfinished jobs: add --yes" in asked.stderr
    done = command("cancel", "queue:default", "--yes", "--reason", "enough")
    assert done.stdout.split() == [str(job.id) for job in reversed(others)]
    assert {job.refresh().reason for job in others} == {"cancelled: enough"}
    assert spared.refresh().state is State.READY


@pytest.mark.usefixtures("at_work")
def test_jobs_that_have_ended_are_removed_by_number_or_all_that_match() -> None:
    first, *others = [failed(text) for text in ("one", "two", "three")]
    assert command("remove", str(first.id)).stdout == f"{first.id}\n"
    assert command("show", str(first.id)).exit_code == 3
    asked = command("remove", "state:failed")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "this would remove 2 ended jobs: add --yes" in asked.stderr
    done = command("remove", "state:failed", "--yes")
    assert done.stdout.split() == [str(job.id) for job in reversed(others)]
    assert "removed 2 jobs" in done.stderr
    assert listed() == []


def test_jobs_that_have_not_ended_are_not_removed() -> None:
    living, ended = [shop.add.enqueue(n) for n in range(2)]
    ended.cancel()
    refused = command("remove", str(living.id))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"Error: job {living.id} is ready: cancel it first" in refused.stderr
    assert command("remove", "999999").exit_code == 3
    alive = command("remove", "state:ready", "--yes")
    assert alive.exit_code == 2
    assert "only succeeded, failed, cancelled, expired jobs can be removed" in alive.stderr
    assert command("remove", "task:add", "--yes").stdout == f"{ended.id}\n"
    assert listed() == [living.id]


def test_an_app_removes_what_has_ended(url: str) -> None:
    living, ended = [shop.add.enqueue(n) for n in range(2)]
    ended.cancel()
    assert shop.duly.jobs.remove("task:add") == [ended.id]
    assert [job.id for job in Duly(url).jobs.list()] == [living.id]


async def test_the_twin_removes_what_has_ended() -> None:
    ended = await shop.add.aenqueue(1)
    await ended.acancel()
    assert await shop.duly.jobs.aremove("task:add") == [ended.id]


@pytest.mark.usefixtures("at_work")
def test_a_running_job_is_shown_where_it_runs_and_stopped(tmp_path: Path) -> None:
    sign = str(tmp_path / "sign")
    job = shop.hold.enqueue(sign)
    eventually(lambda: is_up(f"{sign}.began"), "the job to begin")
    assert listed("state:running") == [job.id]
    sentence = command("show", str(job.id)).stdout.splitlines()[0]
    assert sentence.startswith(f"job {job.id} (hold) was due ")
    assert " and is running since " in sentence
    assert ", attempt 1 of " in sentence
    stopped = command("cancel", "state:running", "--yes")
    assert stopped.stdout == f"{job.id}\n"
    assert "cancelled 1 job\n" in stopped.stderr
    eventually(lambda: job.refresh().state is State.CANCELLED, "the job to be cancelled")


def test_what_runs_in_a_thread_is_asked_to_stop_and_may_go_on(url: str, tmp_path: Path) -> None:
    other, sign = Duly(url), str(tmp_path / "sign")

    @other.task
    def stay() -> None:
        put_up(f"{sign}.began")
        eventually(lambda: is_up(f"{sign}.go"), "to be let go")

    with other.running(scheduler=False):
        job = stay.enqueue()
        eventually(lambda: is_up(f"{sign}.began"), "the job to begin")
        asked = "asked to stop; in a thread it may run to its end"
        one = command("cancel", str(job.id), "--yes")
        assert one.stderr.endswith(f"job {job.id}: {asked}\n")
        many = command("cancel", "state:running", "--yes")
        assert many.stderr.endswith(f"cancelled 1 job\n1 of them: {asked}\n")
        put_up(f"{sign}.go")
    other.close()


def test_an_app_finds_jobs_by_the_same_words_and_jobs_of_tasks_that_it_has_not(url: str) -> None:
    known = shop.add.using(tags=["x"]).enqueue(1)
    other = Duly(url)

    @other.task
    def foreign(a: int) -> int:
        return a

    job = foreign.enqueue(7)
    with other.running(scheduler=False):
        job.result("9s")
    other.close()
    assert [one.id for one in shop.duly.jobs.list()] == [known.id, job.id]
    assert [one.id for one in shop.duly.jobs.list("tag:x")] == [known.id]
    assert shop.duly.jobs.count("state:succeeded") == 1
    [found] = shop.duly.jobs.list("task:foreign")
    assert (found.task, found.state) == ("foreign", State.SUCCEEDED)
    with pytest.raises(LookupError, match="it has no task foreign"):
        found.result("1s")
    assert shop.duly.jobs.cancel("tag:x", reason="no") == [known.id]
    assert known.refresh().state is State.CANCELLED
