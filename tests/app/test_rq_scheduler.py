"""The keys of rq-scheduler in a real Redis, read without unpickling anything.

Jobs are RQ's own. rq-scheduler itself is not installed: one of its dependencies has the module name
of one of django-celery-beat's. ``Scheduler`` writes the same keys as its release 0.14.
"""

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from redis import Redis
from rq.job import Job, JobStatus

from duly.app.import_sources import read_rq_scheduler
from duly.errors import NotFound, StoreUnavailable, ZoneMissing
from duly.files.importers.rq_scheduler import ScheduledJob, from_redis, plain_value
from tests.targets.servers import RedisServer

FAR = datetime(2099, 1, 5, 10, tzinfo=UTC)
BERLIN = "Europe/Berlin"


class Opened:
    """An argument that does something when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.place,)


class Scheduler:
    """Keeps jobs as rq-scheduler does."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis

    def schedule(
        self,
        at: datetime,
        *args: object,
        queue: str = "low",
        timeout: int | None = None,
        meta: dict[str, object] | None = None,
        at_front: bool = False,
        **kwargs: object,
    ) -> None:
        job = Job.create(
            report,
            args=args,
            kwargs=kwargs,
            connection=self.redis,
            timeout=timeout,
            meta=meta or {},
            origin=queue,
            status=JobStatus.SCHEDULED,
        )
        job.enqueue_at_front = at_front or None
        job.save()
        self.redis.zadd("rq:scheduler:scheduled_jobs", {job.id: at.timestamp()})

    def cron(self, text: str, *args: object, at_front: bool = False) -> None:
        meta: dict[str, object] = {"cron_string": text, "use_local_timezone": True}
        self.schedule(FAR, *args, meta=meta, at_front=at_front)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server.url
    server.kill()


@pytest.fixture
def scheduler(redis_url: str) -> Iterator[Scheduler]:
    redis = Redis.from_url(redis_url)
    redis.flushall()
    yield Scheduler(redis)
    redis.close()


def report(*args: object, **kwargs: object) -> None:
    """Is scheduled."""


REPORT = f"{__name__}.report"


def test_jobs_become_schedules(scheduler: Scheduler, redis_url: str) -> None:
    scheduler.schedule(FAR, name="Ada", deep={"list": [1, 2.5, True], "big": 10**12})
    repeated: dict[str, object] = {"interval": 90, "repeat": 3}
    scheduler.schedule(FAR, meta=repeated, timeout=60, queue="mail")
    scheduler.cron("0 7 * * 1-5")
    scheduler.cron("0 7 * * * *", 7, at_front=True)
    before = Redis.from_url(redis_url).dbsize()
    found = read_rq_scheduler(redis_url, zone=BERLIN, machine_zone=None)
    entries = sorted(found.sheet.schedules.values(), key=lambda entry: (entry.rule, entry.paused))
    assert [(one.rule, one.zone, one.queue, one.max_runs, one.args) for one in entries] == [
        ("0 7 * * *", BERLIN, "low", None, {}),
        ("0 7 * * 1-5", BERLIN, "low", None, {}),
        (
            FAR.isoformat(),
            None,
            "low",
            None,
            {"name": "Ada", "deep": {"list": [1, 2.5, True], "big": 10**12}},
        ),
        (f"every 90s from {FAR.isoformat()}", None, "mail", 3, {}),
    ]
    assert {one.task for one in entries} == {REPORT}
    assert (entries[0].priority, entries[0].paused) == ("high", True)
    assert "its arguments [7] have no names" in entries[0].note
    assert "timeout=60 cannot be carried" in "\n".join(found.notes)
    assert Redis.from_url(redis_url).dbsize() == before


def test_nothing_is_unpickled(scheduler: Scheduler, redis_url: str, tmp_path: Path) -> None:
    scheduler.schedule(FAR, Opened(tmp_path / "opened"))
    [entry] = read_rq_scheduler(redis_url, zone=None, machine_zone=None).sheet.schedules.values()
    assert (entry.task, entry.args, entry.paused) == (REPORT, {}, True)
    assert "objects of Python, which only running code can make" in entry.note
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value",
    [
        *[None, True, 0, -1, 255, 70_000, 2**40, -(2**70), 1.5, "ü" * 300, ["same"] * 300],
        *[[], {}, (), [1], (1,), (1, 2), [[], [[]]], {"a": [(1, 2, 3, 4)], "b": ["x", "x"]}],
    ],
)
def test_plain_pickles_of_every_protocol_are_read(value: object) -> None:
    for protocol in (2, 3, 4, 5):
        assert plain_value(pickle.dumps(value, protocol=protocol)) == value


@pytest.mark.parametrize("data", [b"", b"junk", b"\x80\x04N", b"\x80\x04tN.", pickle.dumps(FAR)])
def test_any_other_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"its pickle is damaged|objects of Python"):
        plain_value(data)


def test_data_that_is_not_compressed_is_read_and_damaged_data_is_left_out() -> None:
    plain = pickle.dumps(("shop.report", None, (), {"day": 1}))
    jobs = [
        ScheduledJob("1", FAR.timestamp(), {"data": plain}),
        ScheduledJob("2", FAR.timestamp(), {"data": b"\xff damaged"}),
    ]
    found = from_redis(jobs)
    [entry] = found.sheet.schedules.values()
    assert (entry.task, entry.args) == ("shop.report", {"day": 1})
    assert "job 2: its pickle is damaged" in str(found.unread)


def test_a_redis_without_the_keys_and_one_that_is_away_are_told_apart(
    scheduler: Scheduler, redis_url: str
) -> None:
    with pytest.raises(NotFound, match="has no key rq:scheduler:scheduled_jobs"):
        read_rq_scheduler(redis_url, zone=None, machine_zone=None)
    with pytest.raises(StoreUnavailable, match=r"redis://127\.0\.0\.1:1/0 cannot be read") as away:
        read_rq_scheduler("redis://ada:secret@127.0.0.1:1/0", zone=None, machine_zone=None)
    assert "secret" not in str(away.value)
    scheduler.cron("0 7 * * *")
    with pytest.raises(ZoneMissing, match="a cron string of rq-scheduler has no zone"):
        read_rq_scheduler(redis_url, zone=None, machine_zone=None)
