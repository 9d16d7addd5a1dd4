"""The page that shows who runs how much, and what waits. On SQLite, unless ``url`` is another."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from html import unescape

import pytest

from duly import Duly, Job, Limit
from duly.app import Task
from duly.model.access import Role
from duly.model.worker import Profile, WorkerInfo
from duly.store.store import Store
from duly.store.values import ClaimRequest, JobDone
from tests.infrastructure.web import Site, site

HOSTILE = '"><img src=x onerror=alert(1)>'
LEASE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Shop:
    site: Site
    send: Task[[int], None]
    call: Task[[int], None]

    def page(self, path: str = "/capacity", *, role: Role = "admin", status: int = 200) -> str:
        headers = self.site.bearer(f"{role} {len(self.site.app.tokens.list())}", role)
        answer = self.site.client.get(path, headers=headers)
        assert answer.status_code == status, answer.text
        return unescape(answer.text)

    def hire(self, name: str = "web-1", *, version: str = "", take: int = 0) -> WorkerInfo:
        """A worker that the store knows, with as many jobs as it is to take."""

        async def work(store: Store) -> WorkerInfo:
            tasks = {"send": "", "call": ""}
            profile = Profile(
                name=name, queues=("mail",), signatures=tasks, slots=3, version=version
            )
            worker = await store.work.register(profile, lease=LEASE)
            for queue, shelf, _ in await store.work.ready(["mail"], [*tasks]) if take else ():
                request = ClaimRequest(
                    worker=worker.id, queue=queue, shelf=shelf, tasks=[*tasks], limit=take
                )
                await store.work.claim(request)
            return worker

        return self.site.app._lazy.call(work, async_name="")

    def finish(self, worker: WorkerInfo) -> None:
        """What it holds has succeeded."""

        async def work(store: Store) -> None:
            held = await store.work.claimed_by(worker.id)
            await store.work.finish_and_claim([JobDone(one.id, one.fence) for one in held])

        self.site.app._lazy.call(work, async_name="")


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    app = Duly(url)

    @app.task(queue="mail", title="to {customer}")
    def send(customer: int) -> None: ...

    @app.task(queue="mail", limits=[Limit("crm:{customer}", concurrency=1)])
    def call(customer: int) -> None: ...

    with site(app) as found:
        yield Shop(found, send, call)


def test_without_a_worker_the_page_says_what_to_start(shop: Shop) -> None:
    text = shop.page()
    assert "No worker is connected. Nothing waits for one." in text
    assert "<code>duly worker</code>" in text
    shop.send.enqueue(1)
    shop.send.enqueue(2)
    assert "No worker is connected. 2 jobs wait." in shop.page()


def test_the_sentence_counts_workers_their_jobs_and_what_waits(shop: Shop) -> None:
    shop.hire("idle")
    assert "1 worker is idle, with room for 3 jobs; nothing waits." in shop.page()
    for customer in range(4):
        shop.send.enqueue(customer)
    shop.hire("busy", take=2)
    text = shop.page()
    assert "2 workers run 2 of 6 jobs; 2 wait" in text
    shop.site.app.queues.pause("mail")
    assert "The queue mail is paused." in shop.page()


def test_a_worker_is_shown_with_what_it_runs(shop: Shop) -> None:
    job: Job[None] = shop.send.enqueue(7)
    worker = shop.hire("web-1", version="0.0.1", take=1)
    row = part(shop.page(), f'id="worker-{worker.id}"')
    assert "web-1" in row
    assert "1 / 3" in row
    assert f'href="/jobs/{job.id}">to 7</a>' in row
    assert "▲ 0.0.1, not" in row
    assert f"/api/v1/workers/{worker.id}/drain" in row


def test_what_a_worker_was_told_is_said_and_can_be_taken_back(shop: Shop) -> None:
    worker = shop.hire()
    assert "working" in part(shop.page(), f'id="worker-{worker.id}"')
    shop.site.app.workers.drain(worker.id)
    row = part(shop.page(), f'id="worker-{worker.id}"')
    assert "draining" in row
    assert f"/api/v1/workers/{worker.id}/resume" in row


def test_a_queue_shows_its_depth_its_limits_and_why_it_rests(shop: Shop) -> None:
    shop.hire()
    shop.send.enqueue(1)
    shop.send.using(run_after="1h").enqueue(2)
    shop.site.app.queues.set("mail", concurrency=20, rate="100/m", fair=True)
    row = part(shop.page(), 'id="queue-')
    assert "20 concurrent · 100/m · tenants take turns" in row
    assert numbers(row)[:1] == ["1"]
    assert numbers(row)[3:4] == ["1"]
    assert "/capacity/pause?name=mail" in row
    shop.site.app.queues.pause("mail", note="the relay is down")
    row = part(shop.page(), 'id="queue-')
    assert "the relay is down" in row
    assert "/api/v1/queues/mail/resume" in row


def test_a_queue_that_nobody_listens_to_says_so(shop: Shop) -> None:
    shop.send.using(queue="forgotten").enqueue(1)
    assert "no worker listens" in part(shop.page(), 'id="queue-')
    shop.hire()
    rows = shop.page().split('id="queue-')
    assert ["no worker listens" in row for row in rows[1:3]] == [True, False]


def test_a_limit_that_jobs_have_met_is_shown_by_its_name_and_as_in_code(shop: Shop) -> None:
    assert "No job has used a limit yet." in shop.page()
    shop.call.enqueue(7)
    shop.hire(take=1)
    row = part(shop.page(), 'id="limit-')
    assert "crm:7" in row
    assert "<code>crm:{customer}</code>" in row
    assert numbers(row) == ["1", "–", "1", "0"]


def test_what_ended_is_in_the_charts_and_in_the_table(shop: Shop) -> None:
    for customer in range(3):
        shop.send.enqueue(customer)
    shop.finish(shop.hire(take=3))
    text = shop.page()
    assert "succeeded <b>3</b>" in text
    assert "failed <b>0</b>" in text
    assert "succeeded 3, failed 0</title>" in text
    assert "p50" in text
    assert "succeeded 0.2, failed 0</title>" in shop.page("/capacity?span=24h")
    table = shop.page("/capacity?as=table&span=24h")
    while "still being counted" in table:  # a look counts for so long, and goes on at the next
        table = shop.page("/capacity?as=table&span=24h")
    rows = table.split("<tbody>")[-1].split("</tr>")
    assert sum(int(numbers(row)[0]) for row in rows if numbers(row)) == 3


def test_what_has_just_ended_is_the_rate_of_its_queue(shop: Shop) -> None:
    for customer in range(3):
        shop.send.enqueue(customer)
    shop.finish(shop.hire(take=3))
    rate = numbers(part(shop.page(), 'id="queue-'))[6]
    assert 0 < float(rate) <= 3  # a part of it may be of the minute before


def test_another_span_is_refused_with_those_that_there_are(shop: Shop) -> None:
    assert "choose one of 1h, 24h" in shop.page("/capacity?span=7d", status=422)


def test_a_viewer_sees_why_they_may_not_press(shop: Shop) -> None:
    shop.hire()
    text = shop.page(role="viewer")
    assert 'disabled title="needs the operator role">Drain</button>' in text
    assert 'disabled title="needs the operator role">Pause</button>' in text
    assert "hx-post" not in text


def test_the_forms_beside_the_page_are_filled_with_what_is_set(shop: Shop) -> None:
    worker = shop.hire(HOSTILE)
    shop.call.enqueue(7)
    shop.hire(take=1)
    shop.site.app.queues.set("a/b", concurrency=4, rate="5/s")
    form = shop.page("/capacity/queue?name=a%2Fb", role="operator")
    assert 'hx-put="/api/v1/queues/a%2Fb"' in form
    assert 'value="4"' in form
    assert 'value="5/s"' in form
    assert "Pause a/b" in shop.page("/capacity/pause?name=a%2Fb", role="operator")
    assert 'hx-put="/api/v1/limits/crm%3A7"' in shop.page("/capacity/limit?name=crm:7")
    assert 'value="3"' in shop.page(f"/capacity/scale?name={worker.id}")
    assert "stop running jobs too" in shop.page(f"/capacity/stop?name={worker.id}")
    shop.page("/capacity/stop?name=1", status=404)
    shop.page("/capacity/queue", status=422)
    shop.page("/capacity/queue?name=mail", role="viewer", status=403)


def test_names_from_elsewhere_are_text_and_nothing_else(shop: Shop) -> None:
    shop.hire(HOSTILE)
    shop.send.using(queue=HOSTILE).enqueue(1)
    shop.site.app.queues.pause(HOSTILE, note=HOSTILE)
    headers = shop.site.bearer("somebody", "admin")
    text = shop.site.client.get("/capacity", headers=headers).text
    assert "<img src=x" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


def part(text: str, start: str) -> str:
    """The row that begins there."""
    return text[text.index(start) :].partition("</tr>")[0]


def numbers(row: str) -> list[str]:
    cells = row.split('<td class="number">')[1:]
    return [strip_tags(cell.partition("</td>")[0]) for cell in cells]


def strip_tags(text: str) -> str:
    return "".join(piece.partition(">")[2] for piece in f">{text}".split("<")).strip()
