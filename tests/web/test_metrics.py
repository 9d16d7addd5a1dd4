"""Metrics can be read by the parser of Prometheus, are what the page says, and are true."""

import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from duly.model.outcome import Raised
from duly.store.connect import connect
from duly.store.migrate import migrate
from duly.store.store import SqlStore
from duly.testing.clock import VirtualClock
from duly.version import __version__
from duly.views.metrics import metrics
from tests.conformance.world import MINUTE, START, World
from tests.factories import call, plan

PAGE = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
ROW = re.compile(r"^\| `(duly_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
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


async def read(world: World) -> dict[str, Metric]:
    world.wait(10 * SECOND)
    await world.store.maintenance.count()
    families = text_string_to_metric_families(await metrics(world.store))  # type: ignore[no-untyped-call]
    return {one.name: one for one in families}


def values(family: Metric, suffix: str = "") -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for sample in family.samples
        if sample.name == f"{family.name}{suffix}"
    }


async def busy(world: World) -> None:
    """Leave at least one sample of everything that SQLite has."""
    await world.store.maintenance.count()
    await world.add(plan(queue="default"))
    await world.fire_after(MINUTE)
    world.wait(3 * SECOND)
    job = await world.begin()
    world.wait(SECOND / 2)
    await world.end(job)
    await world.enqueue(call(title="fails"), call(queue='odd "name"\n\\'))
    await world.end(await world.begin(), REFUSED)


async def test_they_are_true(world: World) -> None:
    await busy(world)
    found = await read(world)
    outcomes = values(found["duly_job_outcomes"], "_total")
    assert outcomes == {("work", "default", "succeeded"): 1, ("work", "default", "failed"): 1}
    assert values(found["duly_fires"], "_total") == {("queued", ""): 1}
    lateness = values(found["duly_job_lateness_seconds"], "_bucket")
    assert [lateness["default", bound] for bound in ("2.0", "5.0", "+Inf")] == [0, 1, 1]
    assert values(found["duly_job_run_seconds"], "_sum") == {("work",): 0.5}
    assert values(found["duly_job_run_seconds"], "_count") == {("work",): 2}
    assert values(found["duly_jobs"])['odd "name"\n\\', "ready"] == 1
    assert values(found["duly"], "_info") == {(__version__,): 1}
    assert values(found["duly_workers"]) == {(): 1}


async def test_a_queue_with_a_worker_and_no_jobs_has_zeros(world: World) -> None:
    await world.new_worker(queues=("mail",))
    found = await read(world)
    states = ("ready", "scheduled", "blocked", "running")
    assert values(found["duly_jobs"]) == {("mail", state): 0 for state in states}
    assert values(found["duly_oldest_ready_seconds"]) == {("mail",): 0}


async def test_the_fullest_of_many_queues_are_named_and_the_others_are_counted_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.views.metrics.MOST_NAMES", 2)
    await world.enqueue(call(queue="d"), call(queue="c"))
    world.wait(5 * SECOND)
    await world.enqueue(call(queue="b"), *[call(queue="a")] * 3, *[call(queue="z")] * 2)
    found = await read(world)
    ready = {key[0]: n for key, n in values(found["duly_jobs"]).items() if key[1] == "ready"}
    assert ready == {"a": 3, "z": 2, "(other)": 3}
    oldest = values(found["duly_oldest_ready_seconds"])
    assert oldest["(other)",] - oldest["a",] == 5


async def test_the_clock_of_the_database_is_compared_with_ours(world: World) -> None:
    before = values((await read(world))["duly_clock_skew_seconds"])[()]
    world.wait(MINUTE - 10 * SECOND)  # and ten seconds more when it is read
    after = values((await read(world))["duly_clock_skew_seconds"])[()]
    assert after - before == pytest.approx(60, abs=5)


async def test_the_page_lists_them_with_their_type_and_labels(world: World) -> None:
    await busy(world)
    suffix: dict[str, Callable[[str], str]] = {
        "counter": lambda name: f"{name}_total",
        "info": lambda name: f"{name}_info",
    }
    shown = {
        suffix.get(one.type, str)(one.name): (
            one.type,
            {label for sample in one.samples for label in sample.labels} - {"le"},
        )
        for one in (await read(world)).values()
    }
    shown["duly_dead_tuples"] = ("gauge", {"table"})  # of which SQLite has none
    listed = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in ROW.findall(PAGE)
    }
    assert listed == shown
