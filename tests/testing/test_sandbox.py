"""A user's own test of a schedule takes no time, and says what would happen."""

from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from duly import Duly, clock, current
from duly.errors import InvalidValue, NotFound
from duly.model.states import State
from duly.testing import Sandbox

duly = Duly()
NIGHT = "2027-01-03T23:00+01:00"
NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


@duly.task
def remind(class_id: int, *, urgent: bool = False) -> str:
    return f"{class_id}{'!' if urgent else ''}"


@duly.schedule("02:00 Europe/Berlin")
@duly.task
def nightly_report() -> str:
    remind.enqueue(42)
    return f"{current().due_at:%Y-%m-%d %H:%M}"


def test_a_night_down_makes_up_one_report() -> None:
    with Sandbox(duly, now="2027-01-03T23:00+01:00") as box:
        box.travel("6h", down=True)  # nobody was running 23:00-05:00
        [fire] = box.travel("1s")
        assert (fire.due_at.hour, fire.outcome) == (1, "queued")  # 02:00 Berlin = 01:00 UTC
        box.run()
        box.assert_enqueued(remind.bind(42))


def test_a_journey_fires_every_moment_when_it_is_due() -> None:
    with Sandbox(duly, now=NIGHT) as box:
        fires = box.travel("3d")
        assert [fire.decided_at for fire in fires] == [fire.due_at for fire in fires]
        assert [(fire.due_at.day, fire.outcome) for fire in fires] == [
            (4, "queued"),
            (5, "skipped"),  # nobody has run the one before
            (6, "skipped"),
        ]
        assert box.fires("nightly_report") == fires
        assert box.now == datetime(2027, 1, 6, 22, tzinfo=UTC)


def test_a_task_knows_the_moment_it_is_for_and_its_result_is_kept() -> None:
    with Sandbox(duly, now=NIGHT) as box:
        box.travel("5h")
        report, reminder = box.run()
        assert (report.task, report.state, report.result()) == (
            "nightly_report",
            "succeeded",
            "2027-01-04 01:00",
        )
        assert (reminder.task, reminder.result()) == ("remind", "42")


def test_a_reminder_becomes_ready_to_the_second() -> None:
    with Sandbox(duly, now=NEW_YEAR) as box:
        job = remind.using(run_after="30m").enqueue(7)
        assert (job.due_at, job.state) == (NEW_YEAR + timedelta(minutes=30), "scheduled")
        box.travel(timedelta(minutes=30, seconds=-1))
        assert box.run() == []
        box.travel("1s")
        [done] = box.run()
        assert (done.id, done.state) == (job.id, "succeeded")


def test_a_job_that_is_not_started_in_time_expires() -> None:
    with Sandbox(duly, now=NEW_YEAR) as box:
        job = remind.using(start_within="30m").enqueue(1)
        box.travel("30m")
        assert job.refresh().state == "ready"
        box.travel("1s")
        assert (job.refresh().state, box.run()) == ("expired", [])


def test_one_travels_to_a_moment_too_and_never_back() -> None:
    with Sandbox(duly, now=NEW_YEAR) as box:
        box.travel(datetime(2027, 1, 2, tzinfo=UTC))
        box.travel("2027-01-03T00:00+00:00")
        assert box.now == datetime(2027, 1, 3, tzinfo=UTC)
        with pytest.raises(InvalidValue, match="time goes forward"):
            box.travel(NEW_YEAR)
        with pytest.raises(InvalidValue, match='write "90s" or "90m"'):
            box.travel("90")
        with pytest.raises(InvalidValue, match="naive"):
            Sandbox(duly, now="2027-01-04T00:00")
        with pytest.raises(InvalidValue, match="a time with its zone"):
            Sandbox(duly, now="tomorrow")


def test_schedules_are_steered_inside_as_outside() -> None:
    app = Duly(zone="Europe/Berlin")

    @app.task
    def sweep(room: str) -> None: ...

    with Sandbox(app, now=NEW_YEAR) as box:
        app.schedules.add("daily", sweep.bind("hall"), name="hall")
        app.schedules.pause("hall", until="36h", note="holidays")
        assert [fire.outcome for fire in box.travel("3d")] == ["skipped", "queued", "skipped"]
        box.assert_enqueued(sweep.bind("hall"), at="2027-01-03T00:00+01:00")
        assert app.schedules.run("hall").manual
        assert box.travel("1s") == []  # what others decided is no part of a journey


def test_jobs_are_found_by_words() -> None:
    with Sandbox(duly, now=NEW_YEAR) as box:
        remind.enqueue(1)
        box.run()
        remind.using(run_after="1h", queue="mail").enqueue(2)
        assert [job.state for job in box.jobs()] == ["succeeded", "scheduled"]
        assert [job.queue for job in box.jobs("task:remind state:scheduled")] == ["mail"]
        with pytest.raises(InvalidValue, match="did you mean"):
            box.jobs("stat:failed")


def test_what_is_kept_is_gone_with_the_sandbox(tmp_path: Path) -> None:
    app = Duly(str(tmp_path / "real.db"))

    @app.task
    def work() -> str:
        return "done"

    def sandboxed() -> list[str]:
        with Sandbox(app, now=NEW_YEAR) as box:
            work.enqueue()
            box.run()
            return [job.task for job in box.jobs()]

    assert sandboxed() == ["work"]
    assert sandboxed() == ["work"]
    with Sandbox(app, now=NEW_YEAR) as box:
        assert box.jobs() == []
        job = work.enqueue()
    with pytest.raises(InvalidValue, match="this sandbox is over"):
        job.result()
    assert list(tmp_path.iterdir()) == []


def test_the_app_is_as_it_was_also_after_an_error(tmp_path: Path) -> None:
    app = Duly(str(tmp_path / "real.db"))

    @app.task
    def work() -> None: ...

    schedules, before = app.schedules, work.enqueue()

    def fail() -> None:
        with Sandbox(app, now=NEW_YEAR):
            schedules.add("every 1h", work)  # asked for outside, and means the app all the same
            assert app.url == ":memory:"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [schedule.name for schedule in app.schedules.list()] == []
    assert app.jobs.get(before.id).state == "ready"
    assert app.jobs.get(work.enqueue().id).state == "ready"
    assert app.url == str(tmp_path / "real.db")
    assert clock.choose(None) is None
    app.close()


def test_a_context_that_outlives_the_sandbox_is_told_the_real_time() -> None:
    box, context = Sandbox(duly, now=NEW_YEAR), copy_context()
    context.run(box.__enter__)  # as where a fixture is a task of its own
    assert context.run(clock.now) == NEW_YEAR
    assert clock.now() != NEW_YEAR
    box.__exit__(None, None, None)
    assert abs(context.run(clock.now) - clock.now()) < timedelta(minutes=5)


def test_a_sandbox_that_cannot_be_made_leaves_nothing_behind() -> None:
    app = Duly()

    @app.task
    def greet(name: str) -> None: ...

    app.schedule("every 1h", greet.bind(7))  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="name"), Sandbox(app, now=NEW_YEAR):
        pass
    with Sandbox(duly, now=NEW_YEAR) as box:
        assert box.jobs() == []


def test_there_is_one_sandbox_at_a_time() -> None:
    with Sandbox(duly, now=NEW_YEAR) as box:
        for app in (duly, Duly()):
            with (
                pytest.raises(InvalidValue, match="a sandbox is open already"),
                Sandbox(app, now=NEW_YEAR),
            ):
                pass
        remind.enqueue(1)
        assert len(box.jobs()) == 1
    with pytest.raises(InvalidValue, match="your app"):
        Sandbox("duly", now=NEW_YEAR)  # type: ignore[arg-type]


def test_nothing_runs_by_itself_in_a_sandbox() -> None:
    app = Duly()
    with (
        Sandbox(app, now=NEW_YEAR),
        pytest.raises(InvalidValue, match="nothing runs on its own"),
        app.running(),
    ):
        pass


def test_an_application_is_asked_in_a_sandbox_as_its_users_ask_it() -> None:
    """Its lifespan starts no worker there: ``box.run()`` runs what it has enqueued."""
    app = Duly()
    double = app.task(name="double")(_double)

    async def enqueue(request: Request) -> Response:
        return PlainTextResponse(str((await double.aenqueue(4)).id))

    def enqueue_plainly(request: Request) -> Response:
        return PlainTextResponse(str(double.enqueue(5).id))

    routes = [Route("/", enqueue), Route("/plain", enqueue_plainly)]
    site = Starlette(routes=routes, lifespan=app.lifespan)
    with Sandbox(app, now=NEW_YEAR) as box, TestClient(site) as client:
        numbers = [int(client.get(path).text) for path in ("/", "/plain")]
        assert [job.id for job in box.jobs()] == numbers
        assert [job.state for job in box.jobs()] == [State.READY, State.READY]
        assert [job.result() for job in box.run()] == [8, 10]


def _double(number: int) -> int:
    return number * 2


def test_a_sandbox_begins_now_unless_it_is_told_when() -> None:
    before = clock.now()
    with Sandbox(Duly()) as box:
        assert before <= box.now <= clock.now()
        began = box.now
        box.travel("6h")
        assert box.now - began == timedelta(hours=6)


def test_what_rules_cannot_say_is_refused_here_too() -> None:
    with Sandbox(duly, now=NEW_YEAR) as box, pytest.raises(NotFound, match="nightly_report"):
        box.fires("nightly_raport")
