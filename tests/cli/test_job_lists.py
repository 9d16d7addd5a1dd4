"""``duly jobs`` among many jobs: it looks at so many, says how far, and what failed alike."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from duly import Duly
from duly.app.job import Job
from duly.cli import jobs, main
from duly.errors import JobFailed
from duly.store import job_search
from tests.app import shop

pytestmark = pytest.mark.usefixtures("at_work")


@pytest.fixture(autouse=True)
def on_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def at_work(shop_is_open: None) -> Iterator[None]:
    with shop.duly.running(scheduler=False):
        yield


@pytest.fixture
def looks_at_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page looks at thousands; with two, a test has pages enough."""
    monkeypatch.setattr(job_search, "MOST_EXAMINED", 2)


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["jobs", *words])


def failed(text: str) -> Job[int]:
    job = shop.fail.enqueue(text)
    with pytest.raises(JobFailed):
        job.result("9s")
    return job


def succeeded(count: int) -> list[int]:
    ended = [shop.add.enqueue(number) for number in range(count)]
    for job in ended:
        job.result("9s")
    return [job.id for job in ended]


@pytest.mark.usefixtures("looks_at_two")
def test_a_list_goes_on_until_it_has_found_what_there_is() -> None:
    rare = failed("no")
    succeeded(9)
    done = command("task:fail", "-o", "name")
    assert done.stdout.split() == [str(rare.id)]
    assert "--after" not in done.stderr
    assert [job.id for job in shop.duly.jobs.list("task:fail")] == [rare.id]


@pytest.mark.usefixtures("looks_at_two")
def test_a_list_that_has_looked_at_enough_says_how_far_and_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "MOST_PAGES", 1)
    rare = failed("no")
    succeeded(9)
    told, found = command("task:fail", "-o", "name"), ""
    assert "no job matches" in told.stderr
    assert "there are many: searched back to " in told.stderr
    for _ in range(9):
        if "--after" not in told.stderr:
            break
        told = command("task:fail", "-o", "name", "--after", told.stderr.split()[-1])
        found += told.stdout
    assert found.split() == [str(rare.id)]
    assert "--after" not in told.stderr


@pytest.mark.usefixtures("looks_at_two")
def test_what_is_done_to_all_that_match_reaches_all_of_them() -> None:
    failing = [failed(f"no {number}").id for number in range(3)]
    ended = succeeded(7)
    later = [shop.add.using(run_after="1h").enqueue(number).id for number in range(7)]
    last = shop.order.using(run_after="1h").enqueue(1)
    assert shop.duly.jobs.cancel("task:add") == later[::-1]
    assert last.refresh().state == "scheduled"
    assert sorted(shop.duly.jobs.remove("task:add state:succeeded")) == ended
    assert shop.duly.jobs.retry("task:fail", first=2) == failing[:2]
    assert shop.duly.jobs.remove("task:nothing") == []


def test_an_app_turns_the_pages(url: str) -> None:
    ended = succeeded(4)
    waiting = shop.add.using(run_after="1h").enqueue(1)
    app = Duly(url)
    page = app.jobs.page(limit=2)
    seen, sizes = list(page.jobs), [len(page.jobs)]
    while page.after is not None:
        assert page.searched_to is not None
        page = app.jobs.page(after=page.after, limit=2)
        seen += page.jobs
        sizes.append(len(page.jobs))
    app.close()
    assert seen[0].id == waiting.id
    assert sorted(job.id for job in seen[1:]) == sorted(ended)
    assert (sizes, page.searched_to) == ([2, 2, 1], None)


def test_what_failed_alike_is_one_kind_and_its_words_find_it(url: str) -> None:
    late = [failed(f"read timed out after {seconds} s").id for seconds in (1, 20, 300)]
    other = failed("no account 'ada', password=hunter2")
    done = command("failures", "-o", "json")
    first, second = json.loads(done.stdout)
    assert (first["jobs"], first["task"], first["job_id"]) == (3, "fail", late[2])
    assert first["error"] == "ValueError: read timed out after 300 s"
    assert first["job_ids"] == late[::-1]
    assert (second["jobs"], second["job_id"]) == (1, other.id)
    assert "hunter2" not in done.output
    assert "password=***" in second["error"]
    for kind in (first, second):
        found = command(kind["filter"], "-o", "name")
        assert [int(number) for number in found.stdout.split()] == kind["job_ids"]


def test_kinds_of_failures_are_a_table_with_what_can_be_done() -> None:
    job = failed("no")
    done = command("failures", "task:fa*")
    head, row = done.stdout.splitlines()
    assert head.split() == ["JOBS", "TASK", "LAST", "NEWEST", "ERROR"]
    assert row.split()[:2] == ["1", "fail"]
    assert row.split()[-3:] == [str(job.id), "ValueError:", "no"]
    these = "'state:failed task:fail error:\"ValueError: no\"'"
    assert f"duly jobs retry {these} --first 5" in done.stderr
    wide = command("failures", "-o", "wide").stdout
    assert wide.splitlines()[0].split()[-2:] == ["FIRST", "FILTER"]
    nothing = command("failures", "task:add")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "no failed job matches" in nothing.stderr
