"""What becomes of Celery Beat's schedules. Celery itself is not there, only what looks like it."""

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.errors import InvalidValue, ZoneMissing
from duly.files import ScheduleEntry
from duly.files.file_text import read, write
from duly.files.importers.celery_beat import TABLES, from_dump, from_schedule, from_tables
from duly.rules import Rule, parse


class Crontab:
    """As celery.schedules.crontab keeps what it was given."""

    def __init__(self, **fields: object) -> None:
        for name in ("minute", "hour", "day_of_month", "month_of_year", "day_of_week"):
            setattr(self, f"_orig_{name}", fields.get(name, "*"))
        if "tz" in fields:
            self.tz = fields["tz"]


@dataclass
class Schedule:
    """As celery.schedules.schedule."""

    run_every: timedelta


@dataclass
class Solar:
    """As celery.schedules.solar."""

    event: str
    lat: float
    lon: float


def only(schedule: object, **row: object) -> ScheduleEntry:
    found = from_schedule({"a": {"task": "shop.tasks.a", "schedule": schedule, **row}}, zone="UTC")
    [entry] = found.sheet.schedules.values()
    return entry


def notes(schedule: object, **row: object) -> list[str]:
    """Those about the schedule, without the ones about all."""
    found = from_schedule({"a": {"task": "shop.tasks.a", "schedule": schedule, **row}}, zone="UTC")
    return [note for note in found.notes if not note.startswith("every ")]


@pytest.mark.parametrize(
    ("schedule", "rule", "zone"),
    [
        (30.0, "every 30s", None),
        (timedelta(days=1), "every 24h", None),
        (Schedule(timedelta(minutes=5)), "every 5m", None),
        (Crontab(), "* * * * *", "UTC"),
        (Crontab(minute=0, hour="*/3"), "0 */3 * * *", "UTC"),
        (Crontab(minute="0, 30", hour={8, 12}), "0,30 8,12 * * *", "UTC"),
        (Crontab(minute=30, hour=7, day_of_week="mon"), "30 7 * * mon", "UTC"),
        (Crontab(minute=0, hour=0, day_of_month="1", tz="Asia/Tokyo"), "0 0 1 * *", "Asia/Tokyo"),
        ({"minute": "15", "hour": "4"}, "15 4 * * *", "UTC"),
        (
            Crontab(minute=0, hour=9, day_of_month="1-7", day_of_week="mon,fri"),
            "Mon,Fri *-*-01..07 09:00",
            "UTC",
        ),
        (
            Crontab(minute="*/15", hour="8-18/2", day_of_month="1,15", day_of_week="sat-sun"),
            "Sat,Sun *-*-01,15 08..18/2:00/15",
            "UTC",
        ),
    ],
)
def test_a_schedule_becomes_a_rule(schedule: object, rule: str, zone: str | None) -> None:
    entry = only(schedule)
    assert (entry.rule, entry.zone) == (rule, zone)


def test_in_celery_the_day_and_the_weekday_must_both_hold() -> None:
    entry = only(Crontab(minute=0, hour=9, day_of_month="1-7", day_of_week="1"))
    rule = parse(entry.rule, zone=entry.zone)
    assert isinstance(rule, Rule)
    found = rule.between(datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 4, 1, tzinfo=UTC))
    assert [f"{moment:%a %d %b}" for moment in found] == ["Mon 04 Jan", "Mon 01 Feb", "Mon 01 Mar"]


def test_a_crontab_needs_a_zone_and_an_interval_none() -> None:
    rows = {"a": {"task": "t", "schedule": 30}}
    assert from_schedule(rows).sheet.schedules["a"].zone is None
    with pytest.raises(ZoneMissing, match=r"^a beat_schedule has no zone: pass what app\.conf"):
        from_schedule({"a": {"task": "t", "schedule": Crontab()}})


def test_a_task_keeps_its_name_its_arguments_its_queue_and_its_expiry() -> None:
    options = {"queue": "mail", "expires": 90}
    entry = only(30, kwargs={"to": "ada", "copies": [1, 2]}, options=options)
    assert entry == ScheduleEntry(
        name="a",
        rule="every 30s",
        task="shop.tasks.a",
        args={"to": "ada", "copies": [1, 2]},
        queue="mail",
        start_within="1m30s",
    )


def test_a_moment_of_expiry_is_the_end() -> None:
    moment = datetime(2027, 1, 1, tzinfo=UTC)
    entry = only(30, options={"expires": moment})
    assert (entry.end, entry.start_within) == (moment, None)


def test_arguments_without_names_pause_the_schedule() -> None:
    entry = only(30, args=(16, 16))
    assert entry.paused
    assert notes(30, args=(16, 16)) == [
        "a: its arguments (16, 16) have no names: write args = { name = … } with those of the "
        "task's parameters; until then it is paused"
    ]


@pytest.mark.parametrize("found", [None, {1, 2}, datetime(2027, 1, 1, tzinfo=UTC), [None]])
def test_an_argument_that_no_file_can_hold_pauses_the_schedule(found: object) -> None:
    entry = only(30, kwargs={"x": found, "y": 1})
    assert (entry.args, entry.paused) == ({"y": 1}, True)


@pytest.mark.parametrize(
    ("row", "note"),
    [
        ({"options": {"priority": 9}}, "a: priority=9 is not converted, because brokers disagree"),
        ({"options": {"exchange": "x"}}, "a: options.exchange cannot be carried"),
        ({"relative": True}, "a: relative cannot be carried"),
    ],
)
def test_what_is_lost_is_noted(row: dict[str, object], note: str) -> None:
    [said] = notes(30, **row)
    assert said.startswith(note)


@pytest.mark.parametrize(
    ("schedule", "note"),
    [
        (Solar("sunset", 52.5, 13.4), "a: the sun decides when it runs (sunset)"),
        (object(), "a: <object object at"),
        (Crontab(minute="61"), "a: minute 61 is out of range"),
        (Crontab(day_of_month="1", day_of_week="funday"), 'a: "funday" is not a weekday'),
        (0, "a: every 0ms is too often"),
    ],
)
def test_what_cannot_be_a_rule_is_left_out(schedule: object, note: str) -> None:
    found = from_schedule({"a": {"task": "t", "schedule": schedule}}, zone="UTC")
    assert dict(found.sheet.schedules) == {}
    assert len(found.notes) == 1
    assert found.notes[0].startswith(note)
    assert found.notes[0].endswith("; it is left out")


def test_celerys_own_housekeeping_is_left_out() -> None:
    rows = {"celery.backend_cleanup": {"task": "celery.backend_cleanup", "schedule": 60}}
    assert dict(from_schedule(rows).sheet.schedules) == {}


def test_the_notes_about_all_say_how_tasks_are_called() -> None:
    *_, names, overlap = from_schedule({"a": {"task": "shop.a", "schedule": 60}}).notes
    assert names.endswith('give yours the same name, as @duly.task(name="shop.a")')
    assert 'overlap = "allow"' in overlap


NOVEMBER = datetime(2026, 11, 13, 7, 20, tzinfo=UTC)
SCRIPT = """
create table django_celery_beat_intervalschedule (id integer, every integer, period text);
create table django_celery_beat_crontabschedule (id integer, minute text, hour text,
    day_of_week text, day_of_month text, month_of_year text, timezone text);
create table django_celery_beat_solarschedule (id integer, event text, latitude, longitude);
create table django_celery_beat_clockedschedule (id integer, clocked_time text);
create table django_celery_beat_periodictask (id integer, name text, task text, args text,
    kwargs text, queue text, exchange text, routing_key text, expires text, enabled bool,
    last_run_at text, total_run_count integer, date_changed text, description text,
    crontab_id integer, interval_id integer, solar_id integer, one_off bool, start_time text,
    priority integer, headers text, clocked_id integer, expire_seconds integer);
insert into django_celery_beat_intervalschedule values (1, 10, 'minutes');
insert into django_celery_beat_crontabschedule
    values (1, '30', '2', '*', '*', '*', 'Europe/Berlin'), (2, '0', '9', '1', '1-7', '*', 'UTC');
insert into django_celery_beat_solarschedule values (1, 'sunset', 52.5, 13.4);
insert into django_celery_beat_clockedschedule values (1, '2027-01-01 10:00:00');
insert into django_celery_beat_periodictask
    (name, task, args, kwargs, enabled, description, one_off,
     interval_id, crontab_id, solar_id, clocked_id, queue, expire_seconds, start_time)
values
    ('poll', 'shop.poll', '[]', '{"deep": true}', 1, 'Looks for news', 0,
     1, null, null, null, 'slow', 600, null),
    ('nightly', 'shop.nightly', '[]', '{}', 0, '', 0, null, 1, null, null, null, null, null),
    ('monday', 'shop.monday', '[1]', '{}', 1, '', 1,
     null, 2, null, null, null, null, '2027-01-01 00:00:00'),
    ('dusk', 'shop.dusk', '[]', '{}', 1, '', 0, null, null, 1, null, null, null, null),
    ('once', 'shop.once', '[]', '{}', 1, '', 1, null, null, null, 1, null, null, null);
"""


@pytest.fixture(name="tables")
def stored_tables() -> dict[str, list[dict[str, Any]]]:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    try:
        connection.executescript(SCRIPT)
        return {
            table: list(map(dict, connection.execute(f"select * from django_celery_beat_{table}")))
            for table in TABLES
        }
    finally:
        connection.close()


Tables = dict[str, list[dict[str, Any]]]


def test_the_tables_of_django_celery_beat_are_read(tables: Tables) -> None:
    found = from_tables(tables, now=NOVEMBER)
    assert list(found.sheet.schedules.values()) == [
        ScheduleEntry(
            name="monday",
            rule="Mon *-*-01..07 09:00 start=2027-01-01T00:00:00+00:00 count=1",
            zone="UTC",
            task="shop.monday",
            paused=True,
            note="its arguments [1] have no names: write args = { name = … } with those of the "
            "task's parameters",
        ),
        ScheduleEntry(
            name="nightly",
            rule="30 2 * * *",
            zone="Europe/Berlin",
            task="shop.nightly",
            paused=True,
            note="it was not enabled",
        ),
        ScheduleEntry(name="once", rule="2027-01-01T10:00:00+00:00", task="shop.once"),
        ScheduleEntry(
            name="poll",
            rule="every 10m",
            task="shop.poll",
            args={"deep": True},
            title="Looks for news",
            queue="slow",
            start_within="10m",
        ),
    ]
    assert [note.split(": ")[0] for note in found.notes] == [
        *("dusk", "monday", "monday", "every task", "every schedule", "every time"),
    ]


def test_what_django_had_can_be_written_and_read_again(tables: Tables) -> None:
    sheet = from_tables(tables, now=NOVEMBER).sheet
    assert read(write(sheet)).schedules == sheet.schedules


def task(tables: Tables, name: str, **columns: object) -> Tables:
    """The tables with one task alone, and other columns."""
    [row] = [row for row in tables["periodictask"] if row["name"] == name]
    return tables | {"periodictask": [row | columns]}


def test_arguments_that_are_no_json_pause_the_schedule(tables: Tables) -> None:
    found = from_tables(task(tables, "poll", kwargs="{deep"), now=NOVEMBER)
    [entry] = found.sheet.schedules.values()
    assert (entry.args, entry.paused) == ({}, True)
    assert found.notes[0].startswith("poll: its kwargs {deep are not a JSON object: write args")
    [by_place] = from_tables(
        task(tables, "poll", args='{"a": 1}'), now=NOVEMBER
    ).sheet.schedules.values()
    assert by_place.paused


def test_what_runs_once_is_due_once(tables: Tables) -> None:
    found = from_tables(task(tables, "poll", one_off=1), now=NOVEMBER)
    [entry] = found.sheet.schedules.values()
    rule = parse(entry.rule)
    assert isinstance(rule, Rule)
    first = datetime(2026, 11, 13, 7, 20, tzinfo=UTC)
    assert list(rule.between(NOVEMBER - timedelta(days=9), NOVEMBER + timedelta(days=9))) == [first]
    assert (
        "poll: one_off becomes count=1: it is due once, at the first time from " in (found.notes[0])
    )


@pytest.mark.parametrize(
    ("name", "columns", "note"),
    [
        ("poll", {"one_off": 1, "total_run_count": 1}, "it is one_off, and has run"),
        ("poll", {"interval_id": 7}, "it has no schedule: choose a rule"),
        ("poll", {"interval_id": None}, "it has no schedule: choose a rule"),
        ("poll", {"start_time": "soon"}, "Invalid isoformat string: 'soon'"),
        ("monday", {"start_time": "2027-13-01"}, "month must be in 1..12"),
    ],
)
def test_a_row_with_nothing_to_do_or_no_sense_is_left_out(
    tables: Tables, name: str, columns: dict[str, object], note: str
) -> None:
    found = from_tables(task(tables, name, **columns), now=NOVEMBER)
    assert dict(found.sheet.schedules) == {}
    assert found.notes[0] == f"{name}: {note}; it is left out"


def test_a_moment_that_has_passed_is_left_out(tables: Tables) -> None:
    later = datetime(2027, 1, 1, 10, 0, 1, tzinfo=UTC)
    found = from_tables(task(tables, "once"), now=later)
    assert dict(found.sheet.schedules) == {}
    assert found.notes[0].startswith("once: its time, 2027-01-01 10:00 UTC, has passed")


def test_what_only_a_broker_understands_is_noted(tables: Tables) -> None:
    columns = {"exchange": "x", "routing_key": "", "headers": '{"a": 1}', "last_run_at": "2026"}
    routed, *_, last_run = from_tables(task(tables, "poll", **columns), now=NOVEMBER).notes
    assert routed == (
        "poll: exchange, headers cannot be carried: there is no broker here; write queue = …, or "
        "pass an argument"
    )
    assert last_run.startswith("every schedule: last_run_at is not converted")


def test_old_tables_have_neither_zones_nor_clocked_schedules(tables: Tables) -> None:
    crontabs = [
        {name: value for name, value in row.items() if name != "timezone"}
        for row in tables["crontabschedule"]
    ]
    old = {"periodictask": tables["periodictask"][1:2], "crontabschedule": crontabs}
    with pytest.raises(ZoneMissing, match=r"^a crontab in these tables has no zone: pass what app"):
        from_tables(old, now=NOVEMBER)
    [entry] = from_tables(old, now=NOVEMBER, zone="Asia/Tokyo").sheet.schedules.values()
    assert entry.zone == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "this is not JSON: "),
        ("[1]", "this is not what Django dumps. Send what this prints: python manage.py dumpdata"),
        ("7", "this is not what Django dumps"),
        (json.dumps([{"model": "auth.user", "pk": 1, "fields": {}}]), "nothing of django_celery_b"),
    ],
)
def test_what_is_no_dump_says_what_to_send(text: str, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        from_dump(text, now=NOVEMBER)
    assert str(refused.value).startswith(said)
