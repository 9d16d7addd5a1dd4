"""A real SDK in a real worker sends errors and check-ins to a server that takes envelopes."""

import asyncio
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from duly.model.schedule import Plan
from duly.sentry import monitor_of, slug_of
from tests.builtin.server import Asked, Server, answered, serving
from tests.infrastructure.tables import with_tables

PROGRAM = """
import os
import sentry_sdk
from duly import Duly, Retry
from duly.sentry import instrument

sentry_sdk.init(dsn=os.environ["DSN"], default_integrations=False, include_local_variables=False)
duly = Duly("duly.db", zone="UTC")
instrument(duly)

@duly.schedule("every 1s", name="Every second", max_runs=1)
@duly.task
def tick() -> None: ...

@duly.schedule("every 1s", name="broken", max_runs=1)
@duly.task(queue="default", retry=Retry(attempts=2, first="10ms", jitter=False))
async def broken() -> None:
    raise ValueError("on purpose")
"""


def items(asked: list[Asked]) -> list[dict[str, Any]]:
    """The payloads of all envelopes, with the type of each."""
    found = []
    for one in asked:
        assert one.path == "/api/1/envelope/"
        body = (
            gzip.decompress(one.body) if one.headers.get("content-encoding") == "gzip" else one.body
        )
        _, *lines = body.splitlines()
        for head, payload in zip(lines[::2], lines[1::2], strict=True):
            found.append({**json.loads(payload), "type": json.loads(head)["type"]})
    return found


async def ran(folder: Path, server: Server) -> list[dict[str, Any]]:
    with_tables(folder / "duly.db")
    (folder / "tasks.py").write_text(PROGRAM)
    both_ended = asyncio.Event()

    def answer(_: Asked) -> bytes:
        ended = {one.get("status") for one in items(server.asked)} & {"ok", "error"}
        if len(ended) == 2:
            both_ended.set()
        # This server takes one request per connection; the SDK drops what it sends on a closed one.
        return answered(200, Connection="close")

    server.answers["/api/1/envelope/"] = answer
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "duly", "up", "tasks.py", cwd=folder,
        env={**os.environ, "DSN": f"http://key@127.0.0.1:{server.port}/1"},
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await asyncio.wait_for(both_ended.wait(), 60)
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 30) == 0
    return items(server.asked)


async def test_errors_have_their_job_and_schedules_check_in(tmp_path: Path) -> None:
    async with serving() as server:
        found = await ran(tmp_path, server)
    [error] = [one for one in found if one["type"] == "event"]
    assert error["exception"]["values"][-1]["value"] == "on purpose"
    assert error["tags"] == {"duly.task": "broken", "duly.queue": "default"}
    assert (error["contexts"]["duly"]["attempt"], error["contexts"]["duly"]["schedule"]) == (
        2,
        "broken",
    )
    checks = [one for one in found if one["type"] == "check_in"]
    told = {slug: [one["status"] for one in checks if one["monitor_slug"] == slug]
            for slug in ("every-second", "broken")}  # fmt: skip
    assert told == {
        "every-second": ["in_progress", "ok"],
        "broken": ["in_progress", "in_progress", "error"],  # the first attempt is not the last
    }
    assert len({one["check_in_id"] for one in checks}) == 2


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("30 2 * * 1-5 Europe/Berlin", ("crontab", "30 2 * * 1-5", "Europe/Berlin")),
        ("30 2 * * * UTC", ("crontab", "30 2 * * *", "UTC")),
        ("every 5m", ("interval", 5, None)),
        ("every 90s", None),
        ("Mon..Fri 02:30 Europe/Berlin", None),
        ("0 30 2 * * * UTC", None),
    ],
)  # fmt: skip
def test_a_monitor_has_the_rule_where_sentry_knows_it(rule: str, wanted: object) -> None:
    found: Any = monitor_of(Plan(name="x", task="work", rule=rule))
    shown = found and (*list(found["schedule"].values())[:2], found.get("timezone"))
    assert shown == wanted


def test_a_slug_is_what_sentry_allows() -> None:
    assert slug_of("Every second (EU)") == "every-second-eu"
    assert len(slug_of("x" * 200)) == 50
