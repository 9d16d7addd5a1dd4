"""Celery, with a real broker and a real Celery worker: jobs are sent, and outcomes come back."""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from duly.app import Duly, allow_builtin
from duly.settings.tables import TargetSettings
from tests.targets.servers import (
    RabbitServer,
    RedisServer,
    Server,
    eventually,
    process,
    slowly,
    started,
)

SHOP = """
import os
from celery import Celery
from duly import Duly
from duly.targets.celery import report_outcomes

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.task_default_queue = "shop"
app.conf.beat_schedule = {"beat": {"task": "shop.note", "schedule": 1.0, "args": ["beat"]}}
report_outcomes(app, Duly())

@app.task(name="shop.add")
def add(a, b):
    return a + b

@app.task(name="shop.fail")
def fail():
    raise ValueError("no luck")

@app.task(name="shop.note", bind=True)
def note(self, text):
    with open(os.environ["NOTES"], "a") as file:
        file.write(f"{self.request.id} {text}\\n")
"""
BEAT = """
from duly import Duly
from duly.targets.celery import schedule_beat
from shop import app

duly = Duly()
schedule_beat(duly, app, target="main")
"""
TOML = """
app = "beat.py"
allow = ["send"]
lease = "3s"
web = false

[targets.main]
kind = "celery"
app = "shop:app"
"""
CELERY = ("-m", "celery", "-A", "shop", "worker", "-c", "1", "-l", "WARNING", "--without-gossip",
          "--without-mingle")  # fmt: skip

pytestmark = [
    slowly,
    pytest.mark.thorough("a broker and a Celery worker take seconds to start"),
]


@pytest.fixture(params=[RedisServer, RabbitServer])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    kind: type[Server] = request.param
    with started(kind(tmp_path)) as found:
        yield found


@pytest.fixture
def environ(tmp_path: Path, broker: Server) -> dict[str, str]:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "beat.py").write_text(BEAT)
    (tmp_path / "duly.toml").write_text(TOML)
    return {
        "BROKER": broker.url,
        "DULY_URL": str(tmp_path / "duly.db"),
        "NOTES": str(tmp_path / "notes"),
    }


@pytest.fixture
def duly(tmp_path: Path, broker: Server) -> Iterator[Duly]:
    app = Duly(str(tmp_path / "duly.db"), name="test")
    target = TargetSettings(name="main", kind="celery", url=broker.url)
    allow_builtin(app.registry, ["send"], targets=[target])
    yield app
    app.close()


def noted(environ: dict[str, str]) -> list[str]:
    try:
        return Path(environ["NOTES"]).read_text().splitlines()
    except FileNotFoundError:
        return []


def test_results_and_errors_come_back_and_nothing_is_lost_while_the_broker_is_down(
    duly: Duly, broker: Server, environ: dict[str, str], tmp_path: Path
) -> None:
    there = {"queue": "shop"}
    add = duly.external("shop.add", target="main", options=there)
    fail = duly.external("shop.fail", target="main", options=there).using(retry=None)
    with duly.running(lease="3s"):
        waiting = add.enqueue(2, 3)
        eventually(lambda: "handed to main (celery)" in duly.jobs.why(waiting.id), "it is out")
        assert waiting.refresh().state == "running"
        broker.kill()
        late = add.enqueue(4, 5)
        eventually(lambda: "cannot be reached" in late.refresh().reason, "the broker is down")
        assert late.state == "scheduled"
        eventually(lambda: "cannot be reached" in duly.jobs.why(late.id), "why says so, too")
        broker.start()
        with process(*CELERY, folder=tmp_path, environ=environ):
            failing = fail.enqueue()
            assert waiting.result(timeout="90s") == 5
            assert late.result(timeout="90s") == 9
            eventually(lambda: failing.refresh().state == "failed", "its failure is reported")
            assert (failing.error or "").splitlines()[0] == "ValueError: no luck"
            assert (late.attempts, waiting.attempts) == ((), ())


@pytest.mark.parametrize("broker", [RedisServer], indirect=True)
def test_two_nodes_replace_beat_and_one_is_killed(environ: dict[str, str], tmp_path: Path) -> None:
    """Each second is sent once: nothing is lost when a node dies, and its share goes on."""
    with ExitStack() as stack:
        stack.enter_context(process(*CELERY, folder=tmp_path, environ=environ))
        first, _ = (
            stack.enter_context(process("-m", "duly", "up", folder=tmp_path, environ=environ))
            for _ in range(2)
        )
        eventually(lambda: len(noted(environ)) >= 2, "the beat is heard")
        os.killpg(first, 9)
        before = len(noted(environ))
        eventually(lambda: len(noted(environ)) >= before + 6, "the other goes on")
        duly = Duly(environ["DULY_URL"])
        fires = duly.schedules.history("beat", limit=100)
        duly.close()
    ids = [line.split()[0] for line in noted(environ)]
    assert len(set(ids)) == len(ids)
    moments = sorted(fire.due_at for fire in fires)
    assert moments == sorted(set(moments))
    assert {later - earlier for earlier, later in itertools.pairwise(moments)} == {
        moments[1] - moments[0]
    }
