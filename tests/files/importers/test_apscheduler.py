"""What becomes of APScheduler's jobs, as the real APScheduler describes them."""

import io
import json
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from duly.errors import InvalidValue, ZoneMissing
from duly.files import ScheduleEntry
from duly.files.file_text import read, write
from duly.files.importers.apscheduler import (
    OPEN_STORE,
    PRINT_JOBS,
    from_printed,
    from_rows,
    job_store_refused,
)
from duly.rules import Rule, parse

NOVEMBER = datetime(2026, 11, 13, 7, 20, tzinfo=UTC)


def tick(**_: object) -> None:
    """What the jobs call."""


def printed(trigger: object, *, started: bool = True, **options: object) -> str:
    """What the snippet prints in a program with one such job."""
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(tick, trigger, **{"id": "job", "kwargs": {}} | options)
    if started:
        scheduler.start(paused=True)
    try:
        with redirect_stdout(io.StringIO()) as out:
            exec(PRINT_JOBS, {"scheduler": scheduler})  # noqa: S102 - shown to users to be run
        return out.getvalue()
    finally:
        if started:
            scheduler.shutdown()


def only(text: str, **options: str) -> ScheduleEntry:
    [entry] = from_printed(text, **options).sheet.schedules.values()
    return entry


def row(trigger: str, **more: object) -> dict[str, Any]:
    return {
        "id": "job",
        "func_ref": "shop.tasks:tick",
        "trigger": trigger,
        "timezone": "UTC",
    } | more


@pytest.mark.parametrize(
    "fields",
    [
        {"hour": 2, "minute": 30},
        {"minute": "*/5"},
        {"second": "*/10"},
        {"hour": "8-18/2", "minute": "0,30"},
        {"day_of_week": "mon-fri", "hour": 9},
        {"day_of_week": "0", "hour": 9},
        {"day_of_week": "sun", "day": "1-7"},
        {"day": "last", "hour": 23},
        {"day": "3rd fri", "hour": 12},
        {"day": "last mon"},
        {"day": "1st mon, 3rd mon, 28", "hour": 4},
        {"day": "5th wed"},
        {"month": "jan,jul"},
        {"month": "*/3", "day": "*/10", "hour": 1},
        {"month": 6, "day": 15},
        {"year": "2027-2030", "month": 2, "day": 29},
        {"hour": "5/6"},
        {"minute": "10-50/20", "day_of_week": "tue,thu"},
    ],
)
def test_a_cron_trigger_and_its_rule_have_the_same_moments(fields: dict[str, Any]) -> None:
    trigger = CronTrigger(timezone="UTC", **fields)
    entry = only(printed(trigger))
    rule = parse(entry.rule, zone=entry.zone)
    assert isinstance(rule, Rule)
    moment = NOVEMBER
    for _ in range(50):
        expected = trigger.get_next_fire_time(None, moment + timedelta(microseconds=1))
        assert rule.after(moment) == expected
        if expected is None:
            break
        moment = expected


@pytest.mark.parametrize(
    ("trigger", "rule", "zone"),
    [
        (CronTrigger(hour=2, timezone=ZoneInfo("Asia/Tokyo")), "*-*-* 02:00:00", "Asia/Tokyo"),
        (
            IntervalTrigger(minutes=5, start_date="2026-01-01 00:00:30", timezone="UTC"),
            "every 5m from 2026-01-01T00:00:30+00:00",
            None,
        ),
        (
            IntervalTrigger(days=1, hours=6, start_date="2026-01-01", timezone="Europe/Berlin"),
            "every 30h from 2026-01-01T00:00:00+01:00",
            None,
        ),
        (
            DateTrigger("2027-01-01 10:00:00", timezone="Europe/Berlin"),
            "2027-01-01T10:00:00+01:00",
            None,
        ),
        (
            CalendarIntervalTrigger(weeks=2, hour=9, start_date="2026-01-05", timezone="UTC"),
            "every 2 weeks at 09:00:00 from 2026-01-05",
            "UTC",
        ),
        (
            OrTrigger(
                [
                    CronTrigger(hour=2, timezone="Asia/Tokyo"),
                    CronTrigger(day_of_week="sun,mon", hour=3, timezone="Asia/Tokyo"),
                ]
            ),
            "*-*-* 02:00:00 | Mon,Sun *-*-* 03:00:00",
            "Asia/Tokyo",
        ),
        (
            OrTrigger(
                [
                    CronTrigger(hour=2, timezone="Asia/Tokyo", start_date="2027-01-01"),
                    CronTrigger(hour=3, timezone="Europe/Berlin"),
                    IntervalTrigger(
                        minutes=5, start_date="2026-01-01", end_date="2026-02-01", timezone="UTC"
                    ),
                ]
            ),
            "*-*-* 02:00:00 Asia/Tokyo start=2027-01-01T00:00:00+09:00 | "
            "*-*-* 03:00:00 Europe/Berlin | "
            "every 5m from 2026-01-01T00:00:00+00:00 end=2026-02-01T00:00:00+00:00",
            None,
        ),
    ],
)
def test_a_trigger_becomes_a_rule(trigger: object, rule: str, zone: str | None) -> None:
    entry = only(printed(trigger), zone="Europe/Paris")
    assert (entry.rule, entry.zone, entry.start) == (rule, zone, None)


def test_triggers_that_were_not_described_are_read_in_the_zone_that_was_given() -> None:
    text = "or[cron[hour='2'], cron[day_of_week='sun,mon', hour='3']]"
    [entry] = from_rows([row(text, timezone="")], zone="Europe/Paris").sheet.schedules.values()
    assert (entry.rule, entry.zone) == ("*-*-* 02:00:00 | Mon,Sun *-*-* 03:00:00", "Europe/Paris")


def test_the_jitter_of_one_of_several_triggers_is_noted() -> None:
    trigger = OrTrigger([CronTrigger(hour=2, jitter=9, timezone="UTC"), IntervalTrigger(hours=1)])
    found = from_printed(printed(trigger))
    assert found.notes[0] == "job: the jitter of its triggers cannot be carried"


@pytest.mark.parametrize(
    "step", [{"days": 3}, {"weeks": 2}, {"months": 1}, {"months": 5}, {"years": 1}]
)
def test_a_calendar_interval_and_its_rule_have_the_same_moments(step: dict[str, int]) -> None:
    trigger = CalendarIntervalTrigger(
        **step, hour=9, start_date="2026-01-31", end_date="2031-01-31", timezone="Asia/Tokyo"
    )
    entry = only(printed(trigger))
    rule = parse(entry.rule, zone=entry.zone)
    assert isinstance(rule, Rule)
    assert entry.end is not None
    expected: list[datetime] = []
    while moment := trigger.get_next_fire_time(expected[-1] if expected else None, NOVEMBER):
        expected.append(moment)
    assert list(rule.between(datetime(2026, 1, 1, tzinfo=UTC), entry.end, limit=999)) == expected


def test_the_last_day_of_a_calendar_interval_is_whole() -> None:
    trigger = CalendarIntervalTrigger(
        days=1, hour=23, start_date="2026-01-01", end_date="2026-01-31", timezone="Asia/Tokyo"
    )
    assert only(printed(trigger)).end == datetime(2026, 1, 31, 14, 59, 59, tzinfo=UTC)


def test_a_text_that_names_a_moment_is_read_in_the_zone_that_was_given() -> None:
    [berlin] = from_rows(
        [row("date[2027-01-01 10:00:00 CET]", timezone="")], zone="Europe/Berlin"
    ).sheet.schedules.values()
    assert (berlin.rule, berlin.zone) == ("2027-01-01T10:00:00", "Europe/Berlin")
    [utc] = from_rows([row("date[2027-01-01 10:00:00 UTC]")]).sheet.schedules.values()
    assert (utc.rule, utc.zone) == ("2027-01-01T10:00:00Z", None)


def test_bounds_and_jitter_are_carried() -> None:
    trigger = CronTrigger(
        hour=2, start_date="2027-01-01", end_date="2027-12-31", jitter=90, timezone="UTC"
    )
    entry = only(printed(trigger))
    assert entry.start == datetime(2027, 1, 1, tzinfo=UTC)
    assert entry.end == datetime(2027, 12, 31, tzinfo=UTC)
    assert entry.jitter == "1m30s"


@pytest.mark.parametrize(
    ("options", "overlap", "missed", "start_within"),
    [
        ({}, "skip", "skip", None),  # what APScheduler does unasked
        ({"misfire_grace_time": None}, "skip", "latest", None),
        ({"misfire_grace_time": 3600, "coalesce": True}, "skip", "latest", "1h"),
        ({"misfire_grace_time": 3600, "coalesce": False}, "skip", "all", "1h"),
        ({"misfire_grace_time": None, "max_instances": 3}, "allow", "latest", None),
    ],
)
def test_policies_are_carried(
    options: dict[str, Any], overlap: str, missed: str, start_within: str | None
) -> None:
    row_ = row("cron[hour='2']", coalesce=True, max_instances=1, misfire_grace_time=1) | options
    [entry] = from_rows([row_]).sheet.schedules.values()
    assert (entry.overlap, entry.missed, entry.start_within) == (overlap, missed, start_within)


def test_several_instances_at_once_are_noted() -> None:
    found = from_rows([row("interval[0:05:00]", max_instances=3, misfire_grace_time=None)])
    assert found.notes[0] == (
        'job: max_instances=3 becomes overlap = "allow", which has no upper end: put '
        "Limit(…, concurrency=3) on the task"
    )


def test_a_job_is_called_by_its_id_and_its_task_by_the_function() -> None:
    entry = only(printed(IntervalTrigger(hours=1), id="hourly", kwargs={"x": 1}))
    assert (entry.name, entry.task, entry.args) == ("hourly", "tick", {"x": 1})


def test_an_id_that_a_machine_made_up_is_no_name() -> None:
    entry = only(printed(IntervalTrigger(hours=1), id=None))
    assert (entry.name, entry.title) == ("tick", "")


def test_a_name_that_says_more_is_the_title() -> None:
    entry = only(printed(IntervalTrigger(hours=1), name="Every full hour"))
    assert (entry.name, entry.title) == ("job", "Every full hour")


def test_a_paused_job_stays_paused() -> None:
    entry = only(printed(IntervalTrigger(hours=1), next_run_time=None))
    assert (entry.paused, entry.note) == (True, "it was paused")


def test_a_scheduler_that_was_never_started_can_print_its_jobs_too() -> None:
    trigger = CronTrigger(hour=2, timezone="UTC")
    assert only(printed(trigger, started=False)) == only(printed(trigger))


def test_arguments_that_cannot_be_carried_pause_the_schedule() -> None:
    found = from_printed(printed(IntervalTrigger(hours=1), kwargs={"x": {1}, "y": 2}))
    [entry] = found.sheet.schedules.values()
    assert (entry.args, entry.paused) == ({"y": 2}, True)
    assert found.notes[0] == (
        "job: the argument x = {1} is not plain JSON; until then it is paused"
    )
    [by_place] = from_rows([row("interval[1:00:00]", args=[1])]).sheet.schedules.values()
    assert by_place.paused


def test_two_functions_of_one_name_are_noted() -> None:
    rows = [
        row("interval[1:00:00]", id="one", misfire_grace_time=None),
        row("interval[1:00:00]", id="two", misfire_grace_time=None, func_ref="other:tick"),
    ]
    assert (
        from_rows(rows)
        .notes[0]
        .startswith("two: other:tick and shop.tasks:tick are both called tick: give one of the two")
    )


@pytest.mark.parametrize(
    ("trigger", "note"),
    [
        ("cron[week='12']", "job: week='12' counts weeks of the year"),
        ("cron[day='1st mon', day_of_week='fri']", "job: day='1st mon' and day_of_week='fri' are"),
        ("cron[year='2500']", 'job: "2500" is not a year'),
        ("moon[full]", 'job: "moon[full]" is no trigger that can be carried'),
        ("interval[soon]", 'job: "interval[soon]" names no length of time'),
        ("date[soon]", 'job: "date[soon]" names no time'),
        (str(AndTrigger([CronTrigger(hour=2), CronTrigger(hour=3)])), 'job: "and[cron[hour='),
    ],
)
def test_what_cannot_be_a_rule_is_left_out(trigger: str, note: str) -> None:
    found = from_rows([row(trigger)])
    assert dict(found.sheet.schedules) == {}
    assert found.notes[0].startswith(note)
    assert found.notes[0].endswith("; it is left out")


@pytest.mark.parametrize(
    "more",
    [
        {"misfire_grace_time": "soon"},
        {"kwargs": [1]},
        {"jitter": "much"},
        {"start_date": "yesterday"},
        {"func_ref": "shop:a\0b"},
    ],
)
def test_a_description_that_makes_no_sense_is_left_out(more: dict[str, object]) -> None:
    found = from_rows([row("cron[hour='2']"), row("cron[hour='3']", id="odd", **more)])
    assert list(found.sheet.schedules) == ["job"]
    assert any(note.startswith("odd: ") and "left out" in note for note in found.notes)


def test_a_trigger_without_a_zone_asks_for_one() -> None:
    with pytest.raises(ZoneMissing, match="this machine is Asia/Tokyo: pass --zone Asia/Tokyo"):
        from_rows([row("cron[hour='2']", timezone="")], machine_zone="Asia/Tokyo")


@pytest.mark.parametrize(
    "found",
    [
        {"id": "a", "job_state": b"\x80\x05."},
        row("interval[1:00:00]", job_state=b"\x80\x05."),
        {"id": "a"},
        [1],
        "x",
    ],
)
def test_a_row_of_a_job_store_is_never_opened(found: object) -> None:
    with pytest.raises(InvalidValue, match="holds pickles, which duly never opens") as refused:
        from_rows([found])
    assert str(refused.value).endswith(PRINT_JOBS)


def test_why_a_job_store_is_not_read_is_said_with_what_to_do() -> None:
    said = str(job_store_refused("/srv/jobs.sqlite"))
    assert said.startswith("/srv/jobs.sqlite is a job store: its jobs are pickles, and to unpickle")
    assert PRINT_JOBS in said
    assert "on a copy of the store: APScheduler deletes each job that it cannot load." in said


def stop(scheduler: BackgroundScheduler) -> None:
    [store] = scheduler._jobstores.values()
    scheduler.shutdown()
    store.engine.dispose()  # the scheduler's thread may have opened a connection meanwhile


def test_a_copy_of_a_job_store_prints_its_jobs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.sqlite'}"
    program = BackgroundScheduler(timezone="UTC")
    program.add_jobstore("sqlalchemy", url=url)
    program.start(paused=True)
    program.add_job(tick, CronTrigger(hour=2, timezone="UTC"), id="night", misfire_grace_time=60)
    stop(program)
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()) as out:
        opened = OPEN_STORE.replace("sqlite:///copy-of-jobs.sqlite", url)
        exec(opened + PRINT_JOBS, names)  # noqa: S102 - shown to users to be run
    stop(names["scheduler"])
    entry = only(out.getvalue())
    assert (entry.name, entry.rule, entry.start_within) == ("night", "*-*-* 02:00:00", "1m")


def test_what_is_not_json_says_how_to_print_the_jobs() -> None:
    with pytest.raises(InvalidValue, match=r"^this is not JSON: "):
        from_printed("Jobstore default:\n    tick (trigger: interval[1:00:00])")


def test_what_was_printed_can_be_written_and_read_again() -> None:
    lines = [
        printed(CronTrigger(hour=2, timezone="UTC"), id="a", kwargs={"x": [1, {"y": "z"}]}),
        printed(IntervalTrigger(minutes=5), id="b"),
        json.dumps(row("date[2027-01-01 10:00:00 UTC]", id="c")),
    ]
    sheet = from_printed("\n".join(lines)).sheet
    assert list(sheet.schedules) == ["a", "b", "c"]
    assert read(write(sheet)).schedules == sheet.schedules
