"""The command, the pages and the HTTP API show the same of a job, a flow and an event."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import unescape
from typing import Any

import pytest
from click.testing import CliRunner

from duly import Duly, Flow, JobFailed, Step
from duly.app import Job, Task, open_store
from duly.cli.main import main
from duly.store.database import Ask, Operation, Start
from duly.store.transactions import Transactions
from duly.views.job import JobDetail, job_detail
from tests.app.waiting import eventually
from tests.infrastructure.web import Site, site

SECRET = "hunter2"


@dataclass(frozen=True, slots=True)
class Shop:
    site: Site
    send: Task[..., None]
    etl: Flow[[], list[int]]

    @property
    def app(self) -> Duly:
        return self.site.app

    def run(self, job: Job[object]) -> int:
        """Run it until it has ended, however it did."""
        with self.app.running(), suppress(JobFailed):
            job.result("30s")
        return job.id

    def failed(self) -> int:
        return self.run(self.send.enqueue("ada", password=SECRET))

    def get(self, path: str) -> str:
        headers = self.site.bearer(f"reader {len(self.app.tokens.list())}", "viewer")
        answer = self.site.client.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.text

    def api(self, path: str) -> Any:  # noqa: ANN401 - JSON is any of its types
        return json.loads(self.get(f"/api/v1{path}"))

    def command(self, *words: str) -> str:
        done = CliRunner().invoke(main, [*words, "--store", self.app.url])
        assert done.exit_code == 0, done.stderr
        return done.stdout


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    app = Duly(url)

    @app.task(title="mail to {to}, token=hunter2", retry=None)
    def send(to: str, password: str = "") -> None:
        raise ValueError(f"{to}: password=hunter2")

    @app.task
    def extract() -> list[int]:
        return [1, 2]

    @app.task(title="part {item}, token=hunter2")
    def load(item: int) -> int:
        return item

    @app.flow
    def etl() -> Step[list[int]]:
        return load.map(extract.step().result)

    @app.task
    def reindex(doc_id: int = 0) -> None:
        """Do nothing."""

    app.schedules.add("on doc.changed", reindex, name="reindex")
    with site(app) as found:
        yield Shop(found, send, etl)


def test_the_json_of_the_command_and_of_the_api_are_equal_and_hide_the_same(shop: Shop) -> None:
    for number in (shop.failed(), shop.run(shop.etl.enqueue())):
        told = json.loads(shop.command("jobs", "show", str(number), "-o", "json"))
        assert told == shop.api(f"/jobs/{number}")
        assert SECRET not in json.dumps(told)
        why = json.loads(shop.command("why", str(number), "-o", "json"))
        assert why == shop.api(f"/jobs/{number}/why") == told["why"]
    listed = json.loads(shop.command("jobs", "-o", "json"))
    assert listed == shop.api("/jobs")["items"]
    assert SECRET not in json.dumps(listed)
    assert {"mail to ada, token=***"} < {job["title"] for job in listed}
    groups = json.loads(shop.command("jobs", "failures", "-o", "json"))
    assert groups == shop.api("/jobs/failures")["items"]


def test_the_json_of_an_event_is_equal_in_the_command_and_the_api(shop: Shop) -> None:
    number = shop.app.emit("doc.changed", {"doc_id": 7, "token": SECRET})
    with shop.app.running():
        eventually(lambda: bool(shop.app.events.reactions(number)), "a reaction")
    told = json.loads(shop.command("events", "show", number, "-o", "json"))
    assert told == shop.api(f"/events/{number}")
    assert SECRET not in json.dumps(told)


def test_show_why_and_the_page_say_the_same_sentence(shop: Shop) -> None:
    waiting = shop.send.using(run_after="2h").enqueue("bob").id
    for number in (shop.failed(), shop.run(shop.etl.enqueue()), waiting):
        shown, *_ = shop.command("jobs", "show", str(number)).splitlines()
        why, *_ = shop.command("why", str(number)).splitlines()
        [heading] = re.findall(r'<h1 class="sentence">(.*?)</h1>', shop.get(f"/jobs/{number}"))
        said = {text.rstrip(".").casefold() for text in (shown, why, unescape(heading))}
        assert len(said) == 1, said


def test_a_job_that_is_due_tomorrow_has_no_age_anywhere(shop: Shop) -> None:
    number = shop.send.using(run_after="1d").enqueue("bob").id
    [row] = [line for line in shop.command("jobs").splitlines() if line.startswith(str(number))]
    assert re.search(r" \d\d:\d\d(:\d\d)? \w+  -$", row), row
    assert shop.api(f"/jobs/{number}")["took"] is None
    [cell] = re.findall(r'<td class="number">(.*?)</td>', shop.get("/jobs"))
    assert re.search(">in (23 h|24 h)", cell), cell


def test_a_page_of_a_job_asks_the_store_once_and_nothing_twice(shop: Shop) -> None:
    failed, flow = shop.failed(), shop.run(shop.etl.enqueue())
    step = shop.api(f"/jobs?filter=flow:{flow}")["items"][0]["id"]
    ready = shop.send.using(queue="nobody").enqueue("bob").id
    later = shop.send.using(run_after="1d").enqueue("bob").id
    for number in (failed, flow, step, ready, later):
        with counted() as asked:
            shop.get(f"/jobs/{number}")
        of_the_job = [one for one in asked if any(ask.statement == "list_attempts" for ask in one)]
        assert len(of_the_job) == 1
        [statements] = of_the_job
        assert len(statements) == len({(ask.statement, str(ask.values)) for ask in statements})
        with counted() as asked:
            asyncio.run(_detail(shop, number))
        assert len(asked) == 1


def test_a_list_of_jobs_and_a_page_of_an_event_ask_the_store_once(shop: Shop) -> None:
    shop.run(shop.etl.enqueue())
    number = shop.app.emit("doc.changed", {"doc_id": 7})
    for path in ("/jobs", "/events", f"/events/{number}"):
        with counted() as asked:
            shop.api(path)
        others = {"list_tokens", "token_of_hash", "now"}
        assert len([one for one in asked if {ask.statement for ask in one} - others]) == 1, asked


async def _detail(shop: Shop, number: int) -> JobDetail:
    store = await open_store(shop.app.url)
    try:
        return await job_detail(store, number)
    finally:
        await store.close()


@contextmanager
def counted() -> Iterator[list[list[Ask]]]:
    """The operations that are read meanwhile: the statements of each."""
    asked: list[list[Ask]] = []
    read = Transactions.read

    async def watched(room: Transactions, start: Start[Any]) -> Any:  # noqa: ANN401 - of any operation
        def told() -> Operation[Any]:
            operation, statements = start(), list[Ask]()
            asked.append(statements)
            try:
                ask = next(operation)
                while True:
                    statements.append(ask)
                    ask = operation.send((yield ask))
            except StopIteration as end:
                return end.value

        return await read(room, told)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Transactions, "read", watched)
        yield asked
