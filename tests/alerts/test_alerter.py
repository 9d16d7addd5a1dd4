"""Problems are told to a real web server and a real mail server, once, and again if need be."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from duly.alerts.alerter import Alerter
from duly.alerts.delivery import Courier
from duly.clock import Timeout, sleep
from duly.model.alert import AlertMessage
from duly.model.job import JobRequest
from duly.model.outcome import SEND, HandedOff, Raised
from duly.policy.retry import Retry
from duly.settings.tables import AlertSettings, AlertTable
from duly.store.connect import connect
from duly.store.migrate import migrate
from duly.store.store import SqlStore, Store
from duly.testing.clock import VirtualClock
from tests.builtin.server import SILENCE, Asked, Server, answered, serving
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan, profile

ROOT = Path(__file__).parents[2]
OK = answered(200)
SECOND = timedelta(seconds=1)
REFUSED = Raised(error="ConnectionError", message="refused")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = VirtualClock(START)
    tables = connect(":memory:", clock=clock).database
    await tables.open()
    await migrate(tables)
    yield World(SqlStore(tables), clock)
    await tables.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        found.answers["/hook"] = OK
        yield found


class Mailbox:
    def __init__(self) -> None:
        self.letters: list[tuple[list[str], str]] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: ANN401, N802
        self.letters.append((envelope.rcpt_tos, envelope.content.decode()))
        return "250 OK"


@pytest.fixture
def mail() -> Iterator[Controller]:
    controller = Controller(Mailbox(), hostname="127.0.0.1", port=0)
    # It asks the port it was given whether it listens: that must not be zero.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        controller.port = free.getsockname()[1]
    controller.start()
    yield controller
    controller.stop()


def told_to(server: Server, **words: object) -> AlertSettings:
    to = [{"name": "hook", "webhook": server.url("/hook")}]
    return AlertTable().read({"to": to, "group": "0s", "every": "0s", **words})


def bodies(server: Server, path: str = "/hook") -> list[dict[str, Any]]:
    return [json.loads(asked.body) for asked in server.asked if asked.path == path]


def alerter(world: World, settings: AlertSettings, **words: Any) -> Alerter:
    return Alerter(world.store, settings, **words)


async def looks(service: Alerter, times: int = 2) -> None:
    """Let it examine and deliver; the cost of an examination does not postpone the next one."""
    for _ in range(times):
        service._examine_at = float("-inf")
        await service.tick()


async def fail(world: World, *calls: JobRequest) -> None:
    wanted = calls or (call(),)
    await world.enqueue(*wanted)
    for job in await world.claim(len(wanted), tasks=[one.task for one in wanted]):
        await world.end(job, REFUSED)


async def test_a_failed_job_is_told_with_its_reason_and_a_key(world: World, server: Server) -> None:
    await fail(world)
    await looks(alerter(world, told_to(server)))
    [body] = bodies(server)
    [item] = body["firing"]
    assert (item["kind"], item["name"], item["count"]) == ("failed", "work", 1)
    assert "refused" in item["sentence"]
    assert item["command"] == f"duly why {item['job_id']}"
    assert server.asked[0].headers["idempotency-key"] == body["id"]
    [message] = await world.store.alerts.messages()
    assert (message.state, message.attempts, message.key) == ("sent", 1, body["id"])


async def test_a_target_that_reports_no_outcome_in_time_is_told(
    world: World, server: Server
) -> None:
    await world.enqueue(call(SEND, retry=Retry(attempts=1).as_json()))
    [job] = await world.claim(1, tasks=[SEND])
    await world.end(job, HandedOff("main (celery)", HOUR))
    world.wait(HOUR + MINUTE)
    await world.dispatch()
    await looks(alerter(world, told_to(server)))
    [body] = bodies(server)
    [item] = body["firing"]
    assert (item["kind"], item["name"]) == ("failed", SEND)
    assert "main (celery): no outcome within 1h" in item["sentence"]


async def test_a_flood_of_failures_is_one_message(world: World, server: Server) -> None:
    tasks = [f"task {number}" for number in range(60)]
    service = alerter(world, told_to(server, group="30s"))
    for half in (tasks[:30], tasks[30:]):
        await world.enqueue(*[call(task) for task in half * 2])
        for job in await world.claim(100, tasks=half):
            await world.end(job, REFUSED)
        await looks(service, 1)
        world.wait(20 * SECOND)
    assert bodies(server) == []
    await looks(service)
    await looks(service)
    [body] = bodies(server)
    assert body["title"].startswith("[duly] 60 problems: ")
    assert ({item["count"] for item in body["firing"]}, len(body["firing"])) == ({2}, 20)
    assert body["more"] == 40


async def test_a_schedule_that_failed_is_explained_and_resolved_by_its_next_run(
    world: World, server: Server
) -> None:
    await world.add(plan())
    await world.fire_after(MINUTE)
    await world.end(await world.begin(), REFUSED)
    service = alerter(world, told_to(server))
    await looks(service)
    [first] = bodies(server)
    [item] = first["firing"]
    assert (item["kind"], item["name"]) == ("failed", "report")
    assert "failed" in item["sentence"]
    assert "refused" in item["sentence"]
    await world.fire_after(MINUTE)
    await world.end(await world.begin())
    await looks(service)
    [_, second] = bodies(server)
    assert [one["name"] for one in second["resolved"]] == ["report"]
    assert second["firing"] == []
    await looks(service)
    assert len(bodies(server)) == 2


async def test_a_deep_queue_a_late_run_and_a_dead_worker_are_told_and_resolved(
    world: World, server: Server
) -> None:
    await world.add(plan(rule="every 1h"))
    await world.fire_after(HOUR)
    await world.enqueue(*[call() for _ in range(5)])
    died = await world.store.work.register(profile("box-7"), lease=MINUTE)
    await world.store.work.end_lease(died.id, died=True)
    world.wait(6 * MINUTE)
    service = alerter(world, told_to(server, queue_depth=3, queue_age="5m"))
    await looks(service)
    [body] = bodies(server)
    kinds = {item["kind"]: item["sentence"] for item in body["firing"]}
    assert set(kinds) == {"queue", "late", "no-worker", "node"}
    assert "more than 3" in kinds["queue"]
    assert "longer than 5 min" in kinds["queue"]
    world.wait(SECOND)
    await world.store.work.register(profile("box-7"), lease=24 * HOUR)
    for job in await world.claim(100):
        await world.end(job)
    await looks(service)
    over = {item["kind"] for body in bodies(server)[1:] for item in body["resolved"]}
    assert over == {"queue", "late", "no-worker", "node"}


@pytest.mark.parametrize("answer", [answered(500, b"no"), None], ids=["answers 500", "is down"])
async def test_a_receiver_that_fails_gets_it_later_with_the_same_key(
    world: World, answer: bytes | None
) -> None:
    async with serving() as server:
        settings = told_to(server)
        if answer is None:
            settings = replace(
                settings, to=(replace(settings.to[0], url="http://127.0.0.1:9/hook"),)
            )
        else:
            server.answers["/hook"] = answer
        await fail(world)
        await looks(alerter(world, settings), 3)
        [pending] = await world.store.alerts.messages()
        assert (pending.state, pending.attempts) == ("pending", 1)
        assert pending.error
        server.answers["/hook"] = OK
        world.wait(MINUTE)
        service = alerter(world, told_to(server), turn=MINUTE)
        await looks(service)
        assert {body["id"] for body in bodies(server)} == {pending.key}
        assert [one.state for one in await world.store.alerts.messages()] == ["sent"]


async def test_what_cannot_be_sent_for_three_days_is_given_up(world: World, server: Server) -> None:
    server.answers["/hook"] = answered(500)
    await fail(world)
    await looks(alerter(world, told_to(server)))
    world.wait(4 * 24 * HOUR)
    for state in ("pending", "given up"):
        await looks(alerter(world, told_to(server)))
        assert [one.state for one in await world.store.alerts.messages()] == [state]
        world.wait(HOUR)
    assert len(bodies(server)) == 3


async def test_a_slow_receiver_keeps_no_other_waiting(world: World, server: Server) -> None:
    server.answers["/slow"] = SILENCE
    to = [
        {"name": "a slow one", "webhook": server.url("/slow")},
        {"name": "hook", "webhook": server.url("/hook")},
    ]
    settings = AlertTable().read({"to": to, "group": "0s", "every": "0s"})
    await fail(world)
    service = alerter(world, settings, courier=Courier(settings, patience=HOUR))
    tick = asyncio.create_task(looks(service, 1))
    async with Timeout(20):
        while await states(world.store) != {"hook": "sent", "a slow one": "pending"}:
            await sleep(0.01)
    assert not tick.done()
    tick.cancel()
    await asyncio.wait([tick])


async def states(store: Store) -> dict[str, str]:
    return {one.destination: one.state for one in await store.alerts.messages()}


async def test_a_receiver_that_does_not_answer_is_given_up_for_now(
    world: World, server: Server
) -> None:
    server.answers["/hook"] = SILENCE
    settings = told_to(server)
    await fail(world)
    await looks(alerter(world, settings, courier=Courier(settings, patience=SECOND / 5)), 1)
    [message] = await world.store.alerts.messages()
    assert (message.state, "no answer within" in message.error) == ("pending", True)


async def test_a_message_is_sent_by_mail(world: World, mail: Controller) -> None:
    to = {
        "email": ["ops@example.com", "ada@example.com"],
        "smtp": f"smtp://127.0.0.1:{mail.port}",
        "from": "duly@example.com",
    }
    settings = AlertTable().read({"to": [to], "group": "0s", "name": "shop"})
    await fail(world)
    await looks(alerter(world, settings))
    [(people, letter)] = mail.handler.letters
    assert people == ["ops@example.com", "ada@example.com"]
    [message] = await world.store.alerts.messages()
    assert f"Message-ID: <{message.key}@example.com>" in letter
    assert "Subject: [shop] 1 problem: work (failed)" in letter
    assert message.state == "sent"


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # one of its plugins imports it
async def test_a_message_is_sent_by_apprise_until_it_is_accepted(
    world: World, server: Server
) -> None:
    server.answers["/hook"] = answered(500, b"no")
    to = [{"apprise": server.url("/hook?+token=hunter2two").replace("http", "json")}]
    settings = AlertTable().read({"to": to, "group": "0s", "every": "0s", "name": "shop"})
    await fail(world)
    await looks(alerter(world, settings))
    [message] = await world.store.alerts.messages()
    assert (message.destination, message.state) == ("apprise json", "pending")
    assert "error=500" in message.error
    server.answers["/hook"] = OK
    world.wait(MINUTE)
    await looks(alerter(world, settings))
    [message] = await world.store.alerts.messages()
    assert (message.state, message.attempts) == ("sent", 2)
    body = bodies(server)[-1]
    assert body["title"] == "[shop] 1 problem: work (failed)"
    assert f"duly why {message.content.firing[0].job_id}" in body["message"]


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
async def test_an_address_that_apprise_does_not_know_is_not_sent_to(world: World) -> None:
    settings = AlertTable().read({"to": [{"apprise": "nothing"}], "group": "0s"})
    await fail(world)
    await looks(alerter(world, settings))
    [message] = await world.store.alerts.messages()
    assert message.error == "the address is none that Apprise knows"


async def test_one_node_delivers_at_a_time(world: World, server: Server) -> None:
    await fail(world)
    first, second = (alerter(world, told_to(server)) for _ in range(2))
    await asyncio.gather(looks(first), looks(second))
    assert len(bodies(server)) == 1
    world.wait(2 * MINUTE)
    await fail(world, call("other"))
    await looks(second)
    await looks(first)
    assert len(bodies(server)) == 2


async def test_while_the_clock_is_distrusted_only_that_is_told(
    world: World, server: Server
) -> None:
    service = alerter(world, told_to(server))
    await looks(service)
    world.wait(2 * HOUR)
    await fail(world)
    await looks(service)
    [body] = bodies(server)
    [item] = body["firing"]
    assert (item["kind"], "forward by 2 h" in item["sentence"]) == ("clock", True)


async def test_a_receiver_hears_only_of_the_kinds_it_wants(world: World, server: Server) -> None:
    to = [{"name": "hook", "webhook": server.url("/hook"), "on": ["queue"]}]
    await fail(world)
    await looks(alerter(world, AlertTable().read({"to": to, "group": "0s"})))
    assert bodies(server) == []


async def test_a_watch_is_pinged_for_each_run_and_hears_of_a_failure(
    world: World, server: Server
) -> None:
    server.answers |= {"/report": OK, "/report/fail": OK, "/all": OK}
    settings = AlertTable().read(
        {"pings": {"report": server.url("/report")}, "ping": server.url("/all")}
    )
    service = alerter(world, settings)
    await world.add(plan())
    await world.fire_after(MINUTE)
    await world.end(await world.begin())
    await looks(service)
    await looks(service)
    await world.fire_after(MINUTE)
    await world.end(await world.begin(), REFUSED)
    await looks(service)
    paths = [asked.path for asked in server.asked]
    assert sorted(paths) == ["/all", "/report", "/report/fail"]
    assert paths.index("/report") < paths.index("/report/fail")


async def test_the_watch_of_the_system_hears_nothing_while_runs_are_overdue(
    world: World, server: Server
) -> None:
    server.answers["/all"] = OK
    await world.add(plan())
    world.wait(HOUR)
    await looks(alerter(world, AlertTable().read({"ping": server.url("/all")})))
    assert server.asked == []


async def test_a_node_that_is_killed_after_sending_leaves_it_to_the_next_one(
    tmp_path: Path,
) -> None:
    """At least once: the receiver sees the same key twice, and knows that it has the message."""
    path = tmp_path / "duly.db"
    tables = connect(str(path)).database
    await tables.open()
    await migrate(tables)
    world = World(SqlStore(tables), VirtualClock(START))
    async with serving() as server:
        process: list[asyncio.subprocess.Process] = []

        def kill(_: Asked) -> bytes:
            process[0].send_signal(signal.SIGKILL)
            return OK

        server.answers["/hook"] = kill
        await world.store.jobs.enqueue([call()])
        worker = await world.store.work.register(profile(), lease=HOUR)
        world.worker = worker.id
        [job] = await world.claim(1)
        await world.end(job, REFUSED)
        command = [sys.executable, "-m", "tests.alerts.node", str(path), server.url("/hook")]
        process.append(await asyncio.create_subprocess_exec(*command, cwd=ROOT))
        assert await process[0].wait() == -signal.SIGKILL
        [pending] = await world.store.alerts.messages()
        assert pending.state == "pending", "it was sent, and not marked"
        server.answers["/hook"] = OK
        second = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
        try:
            while not await is_sent(world.store):
                await sleep(0.05)
        finally:
            second.kill()
            await second.wait()
    assert [body["id"] for body in bodies(server)] == [pending.key] * 2
    await tables.close()


async def is_sent(store: Store) -> bool:
    found: list[AlertMessage] = await store.alerts.messages()
    return all(one.state == "sent" for one in found)
