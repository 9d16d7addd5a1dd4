"""Schedules that code declares, and those that a program adds, changes and asks about."""

import inspect
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly import Duly, Missed, RuleError
from duly.app.job import Job
from duly.app.jobs import Jobs
from duly.app.schedules import Schedules
from duly.errors import InvalidValue, JobFailed, NotFound, ScheduleExists


@pytest.fixture
def app(tmp_path: Path) -> Duly:
    duly = Duly(str(tmp_path / "duly.db"))

    @duly.task
    def report() -> None:
        pass

    @duly.task
    def greet(name: str, loud: bool = False) -> None:
        pass

    return duly


def task(app: Duly, name: str) -> Any:  # noqa: ANN401 - as its author holds it
    from duly.app.tasks import Task  # noqa: PLC0415

    return Task(app._enqueuer, app.registry.get(name), {})


def test_a_schedule_is_added_with_the_words_of_the_decorator(app: Duly) -> None:
    added = app.schedules.add(
        "Mon..Fri 02:00",
        task(app, "greet").using(queue="mail", tags=["nightly"]).bind("ada"),
        name="greet ada",
        zone="Europe/Berlin",
        start_within="4h",
        missed=Missed("all", at_most=3, spacing="1m"),
    )
    assert (added.name, added.owner, added.paused) == ("greet ada", "api", False)
    assert (added.queue, added.tags, added.args) == ("mail", ("nightly",), '{"name":"ada"}')
    policies = added.plan.policies
    assert policies.start_within == timedelta(hours=4)
    assert (policies.missed.policy, policies.missed.spacing) == ("all", timedelta(minutes=1))
    assert added == app.schedules.get("greet ada")
    assert [one.name for one in app.schedules.list()] == ["greet ada"]


def test_schedules_are_listed_by_what_they_have_in_common(app: Duly) -> None:
    report, greet = task(app, "report"), task(app, "greet")
    app.schedules.add("every 1h", report.using(queue="mail", tags=["nightly"]), name="a report")
    app.schedules.add("every 1h", greet.bind("ada"), name="greet ada")
    app.schedules.add("every 1h", greet.bind("bob"), name="greet bob")
    app.schedules.pause("greet bob")

    def found(words: str, **page: Any) -> list[str]:
        return [schedule.name for schedule in app.schedules.list(words, **page)]

    assert found("task:greet") == ["greet ada", "greet bob"]
    assert found("state:paused") == ["greet bob"]
    assert found("queue:mail tag:nightly owner:api REPORT") == ["a report"]
    assert found("owner:code") == []
    assert found("task:greet", limit=1) == ["greet ada"]
    assert found("task:greet", after="greet ada") == ["greet bob"]
    with pytest.raises(InvalidValue, match="did you mean state:paused"):
        app.schedules.list("paused")


def test_what_is_meant_is_found_behind_any_number_of_others(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.app.schedules.PAGE", 2)
    for number in range(6):
        queue = "mail" if number in (3, 5) else "default"
        app.schedules.add("every 1h", task(app, "report").using(queue=queue), name=f"n{number}")
    assert [one.name for one in app.schedules.list("queue:mail")] == ["n3", "n5"]
    assert [one.name for one in app.schedules.list(limit=5)] == ["n0", "n1", "n2", "n3", "n4"]


def test_a_job_knows_which_moment_of_which_schedule_it_is_for(app: Duly) -> None:
    @app.task(retry=None)
    def told() -> tuple[int, str | None]:
        fire = app.current().fire
        assert fire is not None
        assert fire.due_at == app.current().due_at
        return fire.id, fire.schedule

    app.schedules.add("every 1h", told, name="hourly")
    fire = app.schedules.run("hourly")
    assert fire.job_id is not None
    with app.running():
        assert app.jobs.get(fire.job_id).result(timeout="10s") == (fire.id, "hourly")
        alone = told.enqueue()
        with pytest.raises(JobFailed, match="assert None is not None"):
            alone.result(timeout="10s")


def test_history_tells_when_it_was_begun_and_how_long_it_took(app: Duly) -> None:
    app.schedules.add("every 1h", task(app, "report"))
    fire = app.schedules.run("report")
    [before] = app.schedules.history("report")
    assert (before.state, before.started_at, before.lateness, before.took) == ("ready",) + 3 * (
        None,
    )
    assert fire.job_id is not None
    with app.running():
        app.jobs.get(fire.job_id).result(timeout="10s")
    [after] = app.schedules.history("report")
    assert after.state == "succeeded"
    assert after.lateness is not None
    assert after.took is not None
    assert timedelta() <= after.lateness < timedelta(seconds=10)
    assert timedelta() <= after.took < timedelta(seconds=10)


def test_an_edit_changes_what_is_said_and_nothing_else(app: Duly) -> None:
    app.schedules.add("every 1h", task(app, "report"), overlap="allow", start_within="5m")
    edited = app.schedules.edit("report", start_within=None, late="run")
    assert edited.plan.policies.overlap == "allow"
    assert (edited.plan.policies.start_within, edited.plan.policies.late) == (None, "run")
    assert app.schedules.edit("report", rule="every 2h").rule == "every 2h"


def test_a_name_that_is_taken_is_refused_kept_or_replaced(app: Duly) -> None:
    app.schedules.add("every 1h", task(app, "report"))
    with pytest.raises(ScheduleExists, match='"report": exists already'):
        app.schedules.add("every 2h", task(app, "report"))
    kept = app.schedules.add("every 2h", task(app, "report"), if_exists="keep")
    replaced = app.schedules.add("every 3h", task(app, "report"), if_exists="replace")
    assert (kept.rule, replaced.rule) == ("every 1h", "every 3h")


def test_a_schedule_is_paused_resumed_skipped_run_and_removed(app: Duly) -> None:
    app.schedules.add("every 1h", task(app, "report"))
    paused = app.schedules.pause("report", until="2h", note="the relay is down")
    assert (paused.paused, paused.note) == (True, "the relay is down")
    assert paused.paused_until is not None
    assert not app.schedules.resume("report").paused
    [skipped] = app.schedules.skip_next("report")
    assert skipped not in app.schedules.preview("report", count=2)
    assert app.schedules.unskip("report") == [skipped]
    assert app.schedules.preview("report", count=1) == [skipped]
    ran = app.schedules.run("report")
    assert (ran.outcome, ran.manual, ran.schedule) == ("queued", True, "report")
    assert {fire.id for fire in app.schedules.history("report")} >= {ran.id}
    assert app.schedules.get("report").last == ran
    app.schedules.remove("report")
    with pytest.raises(NotFound, match='there is no schedule "report"'):
        app.schedules.get("report")


def test_moments_are_previewed_across_a_clock_change(app: Duly) -> None:
    app.schedules.add(
        "02:30 Europe/Berlin", task(app, "report"), start=datetime(2027, 3, 27, tzinfo=UTC)
    )
    found = app.schedules.preview("report", count=3)
    assert [f"{moment:%d %H:%M}" for moment in found] == ["27 01:30", "28 01:00", "29 00:30"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"overlapp": "skip"}, "a schedule has no option overlapp=; did you mean overlap=?"),
        ({"overlap": "never"}, "overlap='never': choose one of skip, queue_one"),
        ({"start_within": 30}, 'start_within=30: a unit is missing: write "30s" or "30m"'),
        ({"start": datetime(2027, 1, 1)}, "is naive and needs a zone"),  # noqa: DTZ001
        ({"missed": "none"}, "missed='none': choose one of latest, all, skip"),
    ],
)
def test_what_cannot_be_meant_is_refused(app: Duly, words: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises((InvalidValue, RuleError)) as refused:
        app.schedule("every 1h", task(app, "report"), **words)
    assert message in str(refused.value)
    assert len(app.declarations) == 0


def test_a_rule_that_names_an_hour_needs_a_zone_somewhere(app: Duly) -> None:
    with pytest.raises(RuleError, match="zone"):
        app.schedule("02:00", task(app, "report"))
    app.schedule("02:00", task(app, "report"), zone="Europe/Berlin")
    zoned = Duly(app.url, zone="Europe/Berlin")
    zoned.schedule("02:00", task(app, "report"))
    [declared] = zoned.declarations
    assert declared.plan().zone == "Europe/Berlin"


def test_a_task_that_needs_arguments_is_bound_first(app: Duly) -> None:
    with pytest.raises(InvalidValue) as refused:
        app.schedule("every 1h")(task(app, "greet"))
    assert "greet needs name, but the schedule passes no arguments" in str(refused.value)
    assert "greet.bind(name=…)" in str(refused.value)


def test_decorators_in_the_wrong_order_are_told_to_swap(app: Duly) -> None:
    with pytest.raises(InvalidValue, match=r"@duly\.schedule goes above @duly\.task"):

        @app.task  # type: ignore[type-var]  # an editor says so, too
        @app.schedule("every 1h")
        def hello() -> None: ...


def test_the_result_of_a_task_is_not_a_schedule(app: Duly) -> None:
    report = task(app, "report")
    with pytest.raises(InvalidValue, match=r"pass the task, or task\.bind\(…\), not task\(…\)"):
        app.schedule("every 1h", report())
    with pytest.raises(InvalidValue, match=r"pass the task, or task\.bind\(…\), not task\(…\)"):
        app.on("invoice.paid", report())
    assert list(app.declarations) == []


def test_two_schedules_of_one_name_are_told_apart(app: Duly) -> None:
    report = task(app, "report")
    assert app.schedule("every 1h")(report) is report
    with pytest.raises(InvalidValue, match='two schedules are named "report"'):
        app.schedule("every 2h")(report)
    app.schedule("every 2h", name="often")(report)
    assert [one.name for one in app.declarations] == ["report", "often"]


def test_what_is_said_of_one_job_means_nothing_to_a_schedule(app: Duly) -> None:
    with pytest.raises(InvalidValue, match=r"report.using\(key=…\) is about one job, but"):
        app.schedule("every 1h", task(app, "report").using(key="k"))
    with pytest.raises(InvalidValue, match="pass start_within= to the schedule"):
        app.schedule("every 1h", task(app, "report").using(start_within="5m"))


def test_a_script_that_runs_itself_keeps_what_it_declares(tmp_path: Path) -> None:
    script = tmp_path / "tasks.py"
    script.write_text(
        textwrap.dedent("""
            import os, signal
            from duly import Duly
            duly = Duly()

            @duly.schedule("every 1s")
            @duly.task
            def hello() -> None:
                print("hello")
                os.kill(os.getpid(), signal.SIGINT)

            if __name__ == "__main__":
                duly.run()
        """)
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "hello" in done.stdout) == (0, True), done.stderr
    assert "schedules of tasks:duly: added hello" in done.stderr
    [found] = Duly(str(tmp_path / "duly.db")).schedules.list()
    assert (found.name, found.owner) == ("hello", "code")
    assert found.last is not None
    assert found.last.outcome == "queued"


async def test_everything_can_be_awaited(app: Duly) -> None:
    schedules = app.schedules
    await schedules.aadd("every 1h", task(app, "report"))
    await schedules.aedit("report", late="run")
    await schedules.apause("report")
    await schedules.aresume("report")
    assert len(await schedules.askip_next("report", count=2)) == 2
    ran = await schedules.arun("report")
    assert (await schedules.aget("report")).last == ran
    assert [one.name for one in await schedules.alist()] == ["report"]
    assert ran.id in {fire.id for fire in await schedules.ahistory("report")}
    assert len(await schedules.apreview("report", count=4)) == 4
    await schedules.aremove("report")
    await app.aclose()


@pytest.mark.parametrize("noun", [Schedules, Jobs, Job], ids=lambda noun: noun.__name__)
def test_every_verb_has_a_twin_that_takes_the_same(noun: type) -> None:
    verbs = {
        name: verb
        for name, verb in vars(noun).items()
        if inspect.isfunction(verb) and not name.startswith("_")
    }
    plain = [name for name in verbs if not (name[0] == "a" and name[1:] in verbs)]
    assert plain
    for name in plain:
        twin = verbs[f"a{name}"]
        assert inspect.signature(twin) == inspect.signature(verbs[name]) or name == "logs"
        assert inspect.iscoroutinefunction(twin) or inspect.isasyncgenfunction(twin)
