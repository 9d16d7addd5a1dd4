"""Queues, limits and workers, as a program steers them."""

import inspect
import re
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly import Duly, JobFailed, Limit
from duly.app.capacity import Limits, Queues, Workers
from duly.cli.main import main
from duly.clock import sleep
from duly.errors import InvalidValue, NotFound
from duly.model.limit import Rate
from tests.app.waiting import eventually
from tests.infrastructure.web import site


@pytest.fixture
def app(tmp_path: Path) -> Duly:
    return Duly(str(tmp_path / "duly.db"))


def test_a_queue_is_paused_limited_and_set_free(app: Duly) -> None:
    assert app.queues.pause("mail", note="the relay is down").paused
    app.queues.set("mail", concurrency=3, rate="100/m", fair=True)
    [queue] = app.queues.list()
    assert (queue.name, queue.paused, queue.note) == ("mail", True, "the relay is down")
    assert (queue.concurrency, queue.rate, queue.fair) == (3, "100/m", True)
    app.queues.set("mail", rate=None)
    freed = app.queues.resume("mail")
    assert (freed.paused, freed.concurrency, freed.rate, freed.fair) == (False, 3, None, True)


def test_a_queue_without_a_worker_is_listed_with_its_counts_everywhere(app: Duly) -> None:
    @app.task(queue="mail")
    def send() -> None: ...

    @app.task(queue="mail", retry=None)
    def fail() -> None:
        raise ValueError

    with app.running(queues=["mail"]):
        for task in (send, send, fail):
            job = task.enqueue()
            with suppress(JobFailed):
                job.result("9s")
    send.using(run_after="1h").enqueue()
    send.enqueue().cancel()
    send.enqueue()
    counts = {"scheduled": 1, "ready": 1, "running": 0, "succeeded": 2, "failed": 1, "cancelled": 1}
    [queue] = [one for one in app.queues.list() if one.name == "mail"]
    assert {state: getattr(queue, state) for state in counts} == counts
    result = CliRunner().invoke(main, ["queues", "--store", app.url])
    headings, *lines = [line.split() for line in result.stdout.splitlines()]
    [row] = [line for line in lines if line[0] == "mail"]
    assert headings[-6:] == [state.upper() for state in counts]
    assert row[-6:] == [str(count) for count in counts.values()]
    with site(app) as found:
        headers = found.bearer("ada", "viewer")
        answer = found.client.get("/api/v1/queues", headers=headers).json()
        [shown] = [one for one in answer["items"] if one["name"] == "mail"]
        assert {state: shown[state] for state in counts} == counts
        page = found.client.get("/capacity", headers=headers).text
        assert re.findall(r"state%3A(\w+)\+queue%3Amail[^>]*>([^<]*)<", page) == [
            ("succeeded", "2"),
            ("failed", "1"),
            ("cancelled", "1"),
        ]


def test_a_limit_of_the_operator_counts_until_it_is_taken_back(app: Duly) -> None:
    @app.task(limits=[Limit("crm:{customer}", concurrency=1)])
    async def sync(customer: int) -> None: ...

    with app.running(scheduler=False):
        app.limits.set("crm:{customer}", concurrency=5, rate="10/s")
        sync.enqueue(7).result("9s")
        [lane] = app.limits.list()
        assert (lane.name, lane.concurrency, lane.rate) == ("crm:7", 5, Rate.parse("10/s"))
        app.limits.reset("crm:{customer}")
        sync.enqueue(7).result("9s")
        [lane] = app.limits.list()
        assert (lane.concurrency, lane.rate) == (1, None)
    with pytest.raises(InvalidValue, match='write it as "5/s"'):
        app.limits.set("crm:7", rate="often")


def test_a_worker_is_drained_by_its_name(app: Duly) -> None:
    with app.running(scheduler=False, name="left"):
        eventually(app.workers.list, "a worker")
        [worker] = app.workers.list()
        assert worker.name == "left"
        app.workers.drain("left")
        assert [one.order for one in app.workers.list()] == ["drain"]
        app.workers.resume(worker.id)
        assert [one.order for one in app.workers.list()] == ["run"]
        with pytest.raises(NotFound, match='no running worker is named "right"; running: left'):
            app.workers.stop("right")


@pytest.mark.parametrize("noun", [Queues, Limits, Workers], ids=lambda noun: noun.__name__)
def test_every_verb_has_a_twin_that_takes_the_same(noun: type) -> None:
    verbs = {name: verb for name, verb in vars(noun).items() if name[0] != "_"}
    plain = [name for name in verbs if not (name[0] == "a" and name[1:] in verbs)]
    assert plain
    for name in plain:
        assert inspect.signature(verbs[f"a{name}"]) == inspect.signature(verbs[name])
        assert inspect.iscoroutinefunction(verbs[f"a{name}"])


async def test_everything_can_be_awaited(app: Duly) -> None:
    await app.queues.apause("mail")
    await app.queues.aresume("mail")
    await app.queues.aset("mail", concurrency=2)
    await app.limits.aset("crm", concurrency=2)
    await app.limits.areset("crm")
    async with app.running(scheduler=False, name="left"):
        while not await app.workers.alist():
            await sleep(0.01)
        await app.workers.adrain("left")
        await app.workers.aresume("left")
        assert [one.name for one in await app.workers.alist()] == ["left"]
        assert [one.name for one in await app.queues.alist()] == ["default", "mail"]
        assert await app.limits.alist() == []
        await app.workers.astop("left")
    await app.aclose()
