"""The tables of the real django-celery-beat, made by its own migrations, read as they are."""

import hashlib
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from duly.app.import_sources import is_database, read_beat_dump, read_beat_tables, shown_address
from duly.errors import InvalidValue, NotFound, StoreUnavailable, ZoneMissing
from duly.files import ScheduleEntry
from tests.app.django_beat import FAR

# Before crontabs had zones, before there were clocked schedules, and today.
WITHOUT_ZONES = "0005_add_solarschedule_events_choices"
WITHOUT_CLOCKS = "0010_auto_20190429_0326"
NEWEST = "newest"

NO_JSON = "its kwargs {deep are not a JSON object: write args = { name = … }"
NO_NAMES = (
    "its arguments [1] have no names: write args = { name = … } with those of the task's parameters"
)
POLL = ScheduleEntry(
    name="poll",
    rule="every 10m",
    task="shop.poll",
    args={"deep": True},
    title="Looks for news",
    queue="slow",
    start_within="10m",
)
ALL = [
    ScheduleEntry(name="broken", rule="every 10m", task="shop.broken", paused=True, note=NO_JSON),
    ScheduleEntry(
        name="first monday",
        rule="0 9 * * 1 start=2027-01-01T00:00:00+00:00 count=1",
        zone="UTC",
        task="shop.monday",
        end=FAR,
        paused=True,
        note=NO_NAMES,
    ),
    ScheduleEntry(
        name="nightly",
        rule="30 2 * * *",
        zone="Europe/Berlin",
        task="shop.nightly",
        paused=True,
        note="it was not enabled",
    ),
    ScheduleEntry(name="once", rule="2099-01-01T10:00:00+00:00", task="shop.once"),
    POLL,
    ScheduleEntry(name="routed", rule="every 10m", task="shop.routed"),
]
LEFT_OUT = ["dusk", "passed", "ran"]


def django(database: str, what: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.app.django_beat", database, what],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return done.stdout


def left_out(notes: tuple[str, ...]) -> list[str]:
    return sorted({note.split(": ")[0] for note in notes if note.endswith("it is left out")})


def test_todays_tables_are_read_and_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "db.sqlite3"
    django(str(file), NEWEST)
    before = hashlib.sha256(file.read_bytes()).digest()
    for source in (str(file), f"sqlite:///{file}"):
        found = read_beat_tables(source)
        assert list(found.sheet.schedules.values()) == ALL
        assert left_out(found.notes) == LEFT_OUT
        assert any(note.startswith("every time: it is read in UTC") for note in found.notes)
    assert hashlib.sha256(file.read_bytes()).digest() == before
    assert [path.name for path in tmp_path.iterdir()] == ["db.sqlite3"]
    dumped = read_beat_dump(django(str(file), "dump"))
    assert list(dumped.sheet.schedules.values()) == ALL


def test_tables_without_zones_ask_for_one(tmp_path: Path) -> None:
    file = str(tmp_path / "old.db")
    django(file, WITHOUT_ZONES)
    with pytest.raises(ZoneMissing, match="a crontab in these tables has no zone"):
        read_beat_tables(file)
    found = read_beat_tables(file, zone="Asia/Tokyo")
    assert {entry.name: entry.zone for entry in found.sheet.schedules.values()} == {
        "broken": None,
        "first monday": "Asia/Tokyo",
        "nightly": "Asia/Tokyo",
        "poll": None,
        "ran": None,
        "routed": None,
    }


def test_tables_without_clocked_schedules_are_read(tmp_path: Path) -> None:
    file = str(tmp_path / "old.db")
    django(file, WITHOUT_CLOCKS)
    found = read_beat_tables(file)
    names = ["broken", "first monday", "nightly", "poll", "routed"]
    assert list(found.sheet.schedules) == names
    assert found.sheet.schedules["poll"].start_within is None  # expire_seconds came later


def test_a_postgresql_is_read_in_a_transaction_that_cannot_write(pg_dsn: str) -> None:
    django(pg_dsn, NEWEST)
    table = "django_celery_beat_solarschedule"
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        connection.execute(f"alter table {table} rename to suns")
        connection.execute(
            f"create view {table} as select id, current_setting('transaction_isolation') || "
            "', read only ' || current_setting('transaction_read_only') as event from suns"
        )
    found = read_beat_tables(pg_dsn)
    assert list(found.sheet.schedules.values()) == ALL
    assert left_out(found.notes) == LEFT_OUT
    assert any("runs (repeatable read, read only on)" in note for note in found.notes)
    assert not any(note.startswith("every moment") for note in found.notes)


def test_a_database_without_these_tables_says_so(tmp_path: Path, pg_dsn: str) -> None:
    empty = tmp_path / "empty.sqlite3"
    empty.touch()
    for source in (str(empty), pg_dsn):
        with pytest.raises(NotFound, match="has no table django_celery_beat_periodictask: is it"):
            read_beat_tables(source)


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        read_beat_tables(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []
    noise = tmp_path / "noise.db"
    noise.write_text("all kinds of things\n" * 99)
    with pytest.raises(InvalidValue, match="is not an SQLite database"):
        read_beat_tables(str(noise))


def test_no_password_is_shown() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be read") as away:
        read_beat_tables("postgresql://ada:secret@127.0.0.1:1/shop")
    assert "secret" not in str(away.value)
    with pytest.raises(InvalidValue, match=r"dumpdata django_celery_beat \| duly import") as other:
        read_beat_tables("mysql://ada:secret@host/shop")
    assert "secret" not in str(other.value)
    assert shown_address("redis://:secret@host") == "redis://…"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("sqlite:///db.sqlite3", True),
        ("postgresql://host/shop", True),
        ("db.sqlite3", True),
        ("shop.celery:app", False),
        ("shop/settings.py:SCHEDULE", False),
        ("shop", False),
    ],
)
def test_a_database_is_told_from_a_program(source: str, *, expected: bool) -> None:
    assert is_database(source) == expected
