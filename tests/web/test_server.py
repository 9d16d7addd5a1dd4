"""The web side as a server: who it listens to, and how it stops."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly import Duly
from tests.infrastructure.served import LAUNCH, Served, served

EVERYWHERE = "0.0.0.0"  # noqa: S104 - that it is refused is what is tested
DULY = [sys.executable, "-m", "duly"]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "duly.db") as found:
        yield found


def test_it_answers_to_names_of_its_own_machine_only(here: Served) -> None:
    assert here.ask("GET", "/healthz").status == 200
    assert (
        here.ask("GET", "/healthz", host=f"localhost:{here.url.rpartition(':')[2]}").status == 200
    )
    rebound = here.ask("GET", "/healthz", host="evil.example")
    assert rebound.status == 421
    assert b"only answers to local host names" in rebound.body


def test_it_stops_at_once_whoever_looks_on(here: Served) -> None:
    with here.stream("/api/v1/stream") as events, here.stream("/?live=1") as page:
        assert (events.status, page.status) == (200, 200)
        assert events.readline().startswith(b"retry:")
        assert page.readline().startswith(b"retry:")
        here.process.send_signal(signal.SIGTERM)
        # Without its streams being ended first, it would wait for them: for an hour.
        assert here.process.wait(5) == 0


def test_where_others_can_reach_it_somebody_must_be_able_to_sign_in(tmp_path: Path) -> None:
    store = str(tmp_path / "duly.db")
    command = [*DULY, "web", "--store", store, "--host", EVERYWHERE, "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 2
    assert "other machines can reach 0.0.0.0, but nobody could sign in" in refused.stderr
    app = Duly(store)
    secret = app.tokens.create("ada", role="viewer").secret
    app.close()
    with served(store, "--host", EVERYWHERE) as found:
        near = Served(found.process, found.url.replace(EVERYWHERE, "127.0.0.1"))
        assert near.ask("GET", "/api/v1/store").status == 401  # the printed secret is for loopback
        known = near.ask("GET", "/api/v1/store", authorization=f"Bearer {secret}")
        assert known.status == 200


def test_readiness_is_progress(here: Served) -> None:
    answer = here.ask("GET", "/readyz", authorization="")
    assert (answer.status, json.loads(answer.body)["ready"]) == (200, True)


def test_metrics_end_as_they_should(here: Served) -> None:
    answer = here.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")
    assert here.ask("GET", "/metrics", authorization="").status == 401


TASKS = """
from duly import Duly
duly = Duly("duly.db")

@duly.schedule("every 1s")
@duly.task
def tick() -> None: ...
"""


def test_it_stands_beside_up_and_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    environment = {**os.environ, "DULY_LAUNCH": LAUNCH}
    command = [*DULY, "up", "--web", "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as process:
        assert process.stderr is not None
        url = next(line.split()[1] for line in process.stderr if line.startswith("dashboard:"))
        beside = Served(process, url.partition("/login")[0])
        kinds: set[str] = set()
        with beside.stream("/api/v1/stream") as stream:
            while kinds < {"moment", "ended"}:
                line = stream.readline().decode()
                if line.startswith("event:"):
                    kinds.add(line.split()[1])
        process.terminate()
        assert process.wait(15) == 0
    with pytest.raises(ConnectionRefusedError):
        beside.ask("GET", "/healthz")


def test_a_taken_port_keeps_nobody_from_working(here: Served, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "tasks.py").write_text(TASKS)
    port = here.url.rpartition(":")[2]
    command = [*DULY, "up", "--web", "--port", port, "-v"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "dashboard did not start" in said and "tick: succeeded" in said:
                break
        process.terminate()
        assert process.wait(15) == 0
    free = re.search(r"cannot listen on .*; --port (\d+) is free", said)
    assert free is not None
    assert int(free[1]) > int(port)
