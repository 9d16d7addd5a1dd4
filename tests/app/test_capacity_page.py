"""The sentence about who runs how much, and what waits."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.model.limit import Queue
from duly.model.worker import Order, Profile, WorkerInfo
from duly.store.activity import MOST_COUNTED, Depth
from duly.views.capacity import CapacityView, QueueLine, WorkerLine, many
from duly.views.charts import Percentiles, QueueRates, Series

NOW = datetime(2027, 1, 4, 10, 0, tzinfo=UTC)
NOTHING = Series(
    step=timedelta(minutes=1),
    starts=(),
    succeeded=(),
    failed=(),
    others=(),
    waiting=Percentiles(),
    running=Percentiles(),
    lateness=Percentiles(),
    complete=True,
)


def queue(name: str, ready: int, *, waits: float | None = None, paused: bool = False) -> QueueLine:
    since = None if waits is None else NOW - timedelta(seconds=waits)
    depth = Depth(queue=name, ready=ready, oldest_ready_at=since)
    return QueueLine(
        queue=Queue(name=name, paused=paused), depth=depth, flow=QueueRates(), heard=True
    )


def worker(running: int, *, gone: bool = False, order: Order = "run") -> WorkerLine:
    profile = Profile(name="web-1", queues=("mail",), signatures={}, slots=10)
    info = WorkerInfo(
        id=1, profile=profile, started_at=NOW, lease_until=NOW, beat_at=NOW, order=order
    )
    return WorkerLine(info=info, running=running, gone=gone)


def sentence(*queues: QueueLine, workers: tuple[WorkerLine, ...] = ()) -> str:
    view = CapacityView(
        now=NOW, queues=queues, limits=(), workers=workers, unable=(), series=NOTHING
    )
    return view.headline()


def test_two_workers_and_what_has_waited_longest_of_all_queues() -> None:
    queues = (queue("mail", 10, waits=1.2), queue("slow", 4, waits=3.9))
    said = "2 workers run 7 of 20 jobs; 14 wait, the oldest for 3 s."
    assert sentence(*queues, workers=(worker(7), worker(0))) == said


def test_what_has_just_come_has_no_age() -> None:
    said = "1 worker runs 1 of 10 jobs; 1 waits."
    assert sentence(queue("mail", 1, waits=0.4), workers=(worker(1),)) == said


def test_a_worker_whose_process_is_gone_runs_nothing() -> None:
    said = "No worker is connected. 14 jobs wait."
    assert sentence(queue("mail", 14), workers=(worker(3, gone=True),)) == said


def test_queues_that_are_paused_are_named_or_counted() -> None:
    one, other = queue("mail", 0, paused=True), queue("slow", 0, paused=True)
    idle = "1 worker is idle, with room for 10 jobs; nothing waits."
    assert sentence(one, workers=(worker(0),)) == f"{idle} The queue mail is paused."
    assert sentence(one, other, workers=(worker(0),)) == f"{idle} 2 queues are paused."


def test_what_was_not_counted_to_the_end_is_more() -> None:
    assert many(MOST_COUNTED) == "10,000"
    assert many(MOST_COUNTED + 1) == "10,000+"


@pytest.mark.parametrize(
    ("order", "doing"),
    [("run", "working"), ("drain", "draining"), ("stop", "stopping"), ("kill", "stopping now")],
)
def test_what_a_worker_was_told_is_a_word(order: Order, doing: str) -> None:
    assert worker(0, order=order).doing == doing
    assert worker(0, order=order, gone=True).doing == "gone"
