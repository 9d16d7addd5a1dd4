"""Runs side by side on one axis of time."""

from datetime import timedelta

from duly import Duly
from duly.clock import now
from duly.model.worker import Profile
from duly.store.store import Store
from duly.store.values import ClaimRequest, JobDone
from duly.views.timeline import Timeline, timeline

HOUR = timedelta(hours=1)


def begun(app: Duly, *, ended: bool) -> None:
    """Somebody takes whatever is ready, and perhaps ends it."""

    async def work(store: Store) -> None:
        tasks = {"report": "", "other": ""}
        profile = Profile(name="web-1", queues=("default",), signatures=tasks, slots=10)
        worker = await store.work.register(profile, lease=HOUR)
        for queue, shelf, _ in await store.work.ready(["default"], [*tasks]):
            request = ClaimRequest(
                worker=worker.id, queue=queue, shelf=shelf, tasks=[*tasks], limit=10
            )
            await store.work.claim(request)
        held = await store.work.claimed_by(worker.id) if ended else []
        await store.work.finish_and_claim([JobDone(one.id, one.fence) for one in held])

    app._lazy.call(work, async_name="")


def drawn(app: Duly, schedule: str | None = None) -> Timeline:
    return app._lazy.call(
        lambda store: timeline(store, span=HOUR, now=now(), schedule=schedule), async_name=""
    )


def test_what_runs_is_in_the_lane_of_its_schedule_and_in_no_other(url: str) -> None:
    app = Duly(url)

    @app.task
    def report() -> None: ...

    @app.task
    def other() -> None: ...

    app.schedules.add("2099-01-01T00:00Z", report, name="a")
    app.schedules.add("2099-01-01T00:00Z", other, name="b")
    jobs = {name: app.schedules.run(name).job_id for name in ("a", "b")}
    begun(app, ended=False)
    every = {lane.name: [bar.job_id for bar in lane.bars] for lane in drawn(app).lanes}
    assert every == {name: [number] for name, number in jobs.items()}
    [lane] = drawn(app, "a").lanes
    assert [(bar.job_id, bar.state) for bar in lane.bars] == [(jobs["a"], "running")]
    app.close()


def test_runs_of_one_schedule_that_overlap_collide(url: str) -> None:
    app = Duly(url)

    @app.task
    def report() -> None: ...

    app.schedules.add("2099-01-01T00:00Z", report, name="a", overlap="allow")
    app.schedules.run("a")
    begun(app, ended=True)
    assert drawn(app).collisions == 0
    for _ in range(2):
        app.schedules.run("a")
    begun(app, ended=False)
    found = drawn(app)
    assert found.collisions == 1
    assert [bar.collides for bar in found.lanes[0].bars] == [False, False, True]
    app.close()
