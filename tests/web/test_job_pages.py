"""The pages about jobs: what they show, to whom, and that all of it is text.

On SQLite, unless ``url`` is another one.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser

import pytest

from duly import Duly, JobFailed, Retry, current
from duly.app import Job, Task
from duly.model.access import Role
from duly.views.job import LOG_LINES as LINES
from tests.infrastructure.web import Site, site

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
NAME = f'{SCRIPT}\u202e"'
SAID = f"{SCRIPT}\u202egnp\x07\x1b[31mred\x1b[0m"


@dataclass(frozen=True, slots=True)
class Shop:
    site: Site
    greet: Task[..., str]
    refuse: Task[..., None]
    stumble: Task[[], int]
    shout: Task[[int], None]

    def run(self, *jobs: Job[object], concurrency: int = 10) -> int:
        """Until they have ended, however they did; the number of the first."""
        with self.site.app.running(concurrency=concurrency):
            for job in jobs:
                with suppress(JobFailed):
                    job.result("30s")
        return jobs[0].id

    def headers(self, role: Role = "operator", tenant: str | None = None) -> dict[str, str]:
        return self.site.bearer(f"who {len(self.site.app.tokens.list())}", role, tenant)

    def page(
        self, path: str, *, role: Role = "operator", tenant: str | None = None, status: int = 200
    ) -> str:
        answer = self.site.client.get(path, headers=self.headers(role, tenant))
        assert answer.status_code == status, answer.text
        return answer.text

    def live(self, path: str) -> str:
        """The first of what is sent to somebody who looks on."""
        with self.site.client.stream("GET", path, headers=self.headers()) as answer:
            found = ""
            for line in answer.iter_lines():
                if found and not line:
                    break
                if line.startswith("data: "):
                    found += line.removeprefix("data: ") + "\n"
        return found


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    app = Duly(url)

    @app.task(title="greets {whom}", retry=None)
    def greet(whom: str, password: str = "") -> str:
        current().log.warning("hello %s", whom)
        return f"hello {whom}"

    @app.task(retry=None)
    def refuse(order: int, why: str = "no address") -> None:
        current().log.error("%s token=hunter2", why)
        raise ValueError(f"order {order}: {why}")

    @app.task(retry=Retry(attempts=2, backoff=["1s"], jitter=False))
    def stumble() -> int:
        if current().attempt == 1:
            raise ConnectionError("the bank did not answer")
        return 42

    @app.task
    def shout(lines: int) -> None:
        for number in range(lines):
            current().log.info("line %s", number)

    with site(app) as found:
        yield Shop(found, greet, refuse, stumble, shout)


class _Seen(HTMLParser):
    """What a browser would make of a page: its elements, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(page: str) -> _Seen:
    found = _Seen()
    found.feed(page)
    return found


def rows(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<tr id="job-(\d+)"', page)]


def test_the_list_shows_jobs_by_their_titles_the_newest_first(shop: Shop) -> None:
    first, second = shop.greet.enqueue("ada"), shop.greet.enqueue("bob")
    page = shop.page("/jobs")
    assert rows(page) == [second.id, first.id]
    assert f'<a href="/jobs/{first.id}">greets ada</a>' in page
    assert "ready" in page


def test_what_is_typed_narrows_the_list_and_stays_in_the_box(shop: Shop) -> None:
    shop.greet.enqueue("ada")
    other = shop.shout.enqueue(1)
    page = shop.page("/jobs?filter=task:shout")
    assert rows(page) == [other.id]
    assert 'value="task:shout"' in page
    assert 'href="/api/v1/jobs?filter=task%3Ashout"' in page


def test_what_is_no_filter_is_said_in_the_words_of_the_language(shop: Shop) -> None:
    found = seen(shop.page("/jobs?filter=stat:failed"))
    assert "a filter has no key stat:; did you mean state:" in found.text
    assert ("input", "filter-said") in [
        (tag, said.get("aria-describedby")) for tag, said in found.elements
    ]


def test_names_that_are_known_are_offered_to_be_completed(shop: Shop) -> None:
    shop.site.app.schedules.add("every 1h", shop.stumble, name="hourly")
    with shop.site.app.running():
        shop.shout.enqueue(1).result("30s")
        found = seen(shop.page("/jobs"))
    offered = {said.get("value") for tag, said in found.elements if tag == "option"}
    assert {"state:failed", "queue:default", "task:shout", "schedule:hourly", "tag:"} <= offered


def test_a_list_without_jobs_says_how_to_get_some(shop: Shop) -> None:
    assert "hello.enqueue()" in shop.page("/jobs")
    found = seen(shop.page("/jobs?filter=state:failed"))
    assert "No job matches state:failed. Clear the filter" in found.text


def test_a_long_list_goes_on_where_it_ended(shop: Shop) -> None:
    made = [job.id for job in shop.site.app.enqueue_many([shop.shout.bind(1)] * 60)]
    first = shop.page("/jobs?filter=task:shout")
    older = re.search(r'href="([^"]*)" rel="next">Older', first)
    assert older is not None
    second = shop.page(older[1].replace("&amp;", "&"))
    assert sorted(rows(first) + rows(second)) == sorted(made)
    assert 'rel="next"' not in second


def test_what_failed_alike_is_one_line_with_the_number_of_jobs(shop: Shop) -> None:
    jobs = [shop.refuse.enqueue(number) for number in range(7)]
    shop.run(*jobs, concurrency=1)  # the newest is the one that failed last
    page = shop.page("/jobs?filter=state:failed&group=error")
    found = seen(page)
    assert '<td class="number">7</td>' in page
    assert "ValueError: order 6: no address" in found.text
    assert f'href="/jobs/{jobs[-1].id}">Open newest' in page
    again = [said for _, said in found.elements if said.get("hx-post") == "/api/v1/jobs/retry"]
    assert '"first": 5' in str(again[0]["hx-vals"])
    assert "Retry all…" in page


def test_before_something_is_done_to_many_it_is_said_to_how_many(shop: Shop) -> None:
    failed = [shop.refuse.enqueue(number) for number in range(7)]
    shop.run(*failed)
    waiting = shop.greet.enqueue("ada")
    retry = shop.page("/jobs/bulk?do=retry&filter=")
    assert "Retry 7 jobs?" in retry
    assert "Retry the first five" in retry
    assert 'value="state:failed"' in retry
    assert "Cancel 1 job?" in shop.page("/jobs/bulk?do=cancel&filter=task:greet")
    assert "Nothing to delete." in shop.page("/jobs/bulk?do=remove&filter=task:greet")
    chosen = shop.page(f"/jobs/bulk?do=remove&ids={failed[0].id},{waiting.id},x")
    assert "Delete 2 jobs?" in chosen
    assert f'name="ids" value="{failed[0].id}"' in chosen


def test_a_job_opens_with_the_sentence(shop: Shop) -> None:
    number = shop.run(shop.refuse.enqueue(4711))
    found = seen(shop.page(f"/jobs/{number}"))
    text = re.sub(r"\s+", " ", found.text)
    assert f"Job {number} (refuse) was due" in text
    assert "failed at its first attempt: ValueError: order 4711: no address." in text
    assert "Traceback (most recent call last)" in text
    assert '"order": 4711' in text


def test_every_attempt_is_drawn_and_listed(shop: Shop) -> None:
    number = shop.run(shop.stumble.enqueue())
    page = shop.page(f"/jobs/{number}")
    assert 'aria-label="attempt 1 raised, attempt 2 succeeded"' in page
    assert len(re.findall(r'<rect class="(?:failed|succeeded)"', page)) == 2
    assert 'class="pause"' in page
    assert "next try in 1s" in page
    assert "ConnectionError: the bank did not answer" in page


def test_a_job_of_a_schedule_leads_to_it(shop: Shop) -> None:
    shop.site.app.schedules.add("every 1h", shop.shout.bind(1), name="hourly/x")
    fire = shop.site.app.schedules.run("hourly/x")
    page = shop.page(f"/jobs/{fire.job_id}")
    assert 'href="/schedules/hourly%2Fx">hourly/x</a>, due <time' in page


def test_secrets_are_shown_nowhere(shop: Shop) -> None:
    number = shop.run(shop.refuse.enqueue(1, "password=hunter2"))
    secret = shop.run(shop.greet.enqueue("ada", "hunter2"))
    paths = ["/jobs", "/jobs?filter=state:failed&group=error"]
    for job in (number, secret):
        paths += [f"/jobs/{job}{part}" for part in ("", "/log", "/log.txt", "/run-again")]
    for path in paths:
        assert "hunter2" not in shop.page(path), path
    assert "are hidden. If you change anything" in shop.page(f"/jobs/{secret}/run-again")
    assert "are hidden. If you change" not in shop.page(
        f"/jobs/{shop.shout.enqueue(1).id}/run-again"
    )


def test_whatever_a_job_is_called_or_says_is_text(shop: Shop) -> None:
    waiting = shop.refuse.using(title=NAME, tags=[NAME], queue=NAME).enqueue(1, SAID)
    ended = shop.run(shop.refuse.using(title=NAME, key=NAME, tags=[NAME]).enqueue(1, SAID))
    paths = ["/jobs", f"/jobs?filter={SCRIPT}", "/jobs?filter=state:failed&group=error"]
    paths += [f"/jobs/bulk?do=retry&filter={SCRIPT}"]
    for job in (waiting.id, ended):
        paths += [f"/jobs/{job}{part}" for part in ("", "/log", "/run-again")]
    for path in paths:
        page = shop.page(path)
        found = seen(page)
        scripts = [said.get("src") for tag, said in found.elements if tag == "script"]
        assert all(scripts), path
        assert not [said for tag, said in found.elements if "onerror" in said], path
        assert not re.search("[\u202e\x07\x1b\x00]", page), path
    assert SCRIPT in seen(shop.page(f"/jobs/{ended}")).text
    assert "⟨U+202E⟩" in shop.page(f"/jobs/{ended}")
    typed = re.search(
        r"<textarea[^>]*>(.*?)</textarea>", shop.page(f"/jobs/{ended}/run-again"), re.DOTALL
    )
    assert typed is not None
    assert json.loads(unescape(typed[1])) == {"order": 1, "why": SAID}


def test_the_log_comes_line_by_line_with_its_colours_as_classes(shop: Shop) -> None:
    number = shop.run(shop.refuse.enqueue(1, SAID))
    page = shop.page(f"/jobs/{number}/log")
    found = seen(page)
    assert SCRIPT in found.text
    assert "⟨U+202E⟩gnp⟨U+0007⟩" in found.text
    assert ("div", "level-error") in [(tag, said.get("class")) for tag, said in found.elements]
    clean = shop.run(shop.greet.enqueue("\x1b[1;32mgreen\x1b[0m ada"))
    assert '<span class="ansi-green ansi-bold">green</span> ada' in shop.page(f"/jobs/{clean}/log")


def test_a_log_is_asked_for_from_where_it_was_read(shop: Shop) -> None:
    number = shop.run(shop.shout.enqueue(LINES + 5))
    first = seen(shop.page(f"/jobs/{number}/log"))
    last = first.elements[-1][1]
    assert (last["data-last"], "data-over" in last) == (str(LINES), False)
    rest = seen(shop.page(f"/jobs/{number}/log?after={LINES}"))
    assert f"line {LINES + 4}" in rest.text
    assert f"line {LINES - 1}\n" not in rest.text
    assert "data-over" in rest.elements[-1][1]
    whole = shop.site.client.get(f"/jobs/{number}/log.txt", headers=shop.headers())
    assert len(whole.text.splitlines()) == LINES + 5
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert f'filename="job-{number}.log"' in whole.headers["content-disposition"]


def test_a_job_that_is_not_there_is_said_to_be_gone(shop: Shop) -> None:
    for number in (99, 2**63, 10**40):
        assert f"no job {number}" in shop.page(f"/jobs/{number}", status=404)
    assert "there is nothing at /jobs/x" in shop.page("/jobs/x", status=404)
    assert "Job 99 is gone." in shop.live("/jobs/99?live=1")


def test_one_tenant_sees_what_is_theirs_and_nothing_else(shop: Shop) -> None:
    ours = shop.greet.using(tenant="acme").enqueue("ada")
    theirs = shop.greet.using(tenant="other").enqueue("bob")
    assert rows(shop.page("/jobs", tenant="acme")) == [ours.id]
    assert (
        "you may see what is acme's"
        in seen(shop.page("/jobs?filter=tenant:other", tenant="acme")).text
    )
    assert "Cancel 1 job?" in shop.page("/jobs/bulk?do=cancel&filter=", tenant="acme")
    assert "greets ada" in shop.page(f"/jobs/{ours.id}", tenant="acme")
    for part in ("", "/log", "/log.txt", "/run-again"):
        shop.page(f"/jobs/{theirs.id}{part}", tenant="acme", status=404)


def test_a_viewer_sees_what_they_may_not_press(shop: Shop) -> None:
    number = shop.run(shop.refuse.enqueue(1))
    page = shop.page(f"/jobs/{number}", role="viewer")
    buttons = [said for tag, said in seen(page).elements if tag == "button" and "disabled" in said]
    assert {said["title"] for said in buttons} == {"needs the operator role"}
    assert "hx-post" not in page
    assert "data-choose" not in shop.page("/jobs", role="viewer")
    shop.page("/jobs/bulk?do=retry&filter=", role="viewer", status=403)


def test_the_list_is_kept_up_to_date_without_what_somebody_types(shop: Shop) -> None:
    shop.greet.enqueue("ada")
    found = shop.live("/jobs?filter=task:greet&live=1")
    assert "greets ada" in found
    assert "csrf" not in found
    assert re.search(r"<form[^>]*id=\"filter\"[^>]*hx-morph-skip", found)


def test_the_page_shows_what_else_a_job_reported_and_the_timeouts_of_its_callbacks(
    shop: Shop,
) -> None:
    app = shop.site.app

    @app.task(timeout="30s")
    async def tell(job: Job[object]) -> None: ...

    @app.task(on_success=tell)
    def count() -> None:
        current().progress(60, rows=4711, password="hunter2")

    number = shop.run(count.enqueue())
    text = seen(shop.page(f"/jobs/{number}")).text
    assert 'reported{"rows":4711,"password":"***"}' in text.replace(" ", "").replace("\n", "")
    assert "tell timeout 30s" in text
    shown = shop.site.client.get(f"/api/v1/jobs/{number}", headers=shop.headers()).json()
    assert shown["on_success"] == {"task": "tell", "timeout": "30s"}
    assert shown["progress"]["meta"] == {"rows": 4711, "password": "***"}
