"""The real Celery: its schedules and the rules they become have the same moments."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, schedule

from duly.files import ScheduleEntry
from duly.files.importers.celery_beat import from_schedule
from duly.rules import Rule, parse

NOVEMBER = datetime(2026, 11, 13, 7, 20, 30, tzinfo=UTC)


def moments(fields: dict[str, Any], count: int) -> list[datetime]:
    """When Beat would send it, one after the other."""
    found, moment = [], NOVEMBER
    for _ in range(count):
        kept = crontab(**fields, nowfun=lambda at=moment: at, app=Celery(set_as_current=False))
        start, delta, _ = kept.remaining_delta(moment)
        moment = (start + delta).astimezone(UTC)
        found.append(moment)
    return found


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"minute": 0, "hour": "*/3"},
        {"minute": "*/7,3", "hour": "22-2"},
        {"minute": "10-50/20", "hour": "8,20"},
        {"minute": 0, "hour": 0, "day_of_week": "monday"},
        {"minute": 0, "hour": 0, "day_of_week": "fri-mon"},
        {"minute": 0, "hour": 0, "day_of_week": "0,6"},
        {"minute": 0, "hour": 0, "day_of_week": "5-1/2"},
        {"minute": 0, "hour": 0, "day_of_week": "*/2"},
        {"minute": 0, "hour": 0, "day_of_month": "*/10"},
        {"minute": 0, "hour": 0, "day_of_month": "2-10/3", "month_of_year": "*/4"},
        {"minute": 0, "hour": 9, "day_of_month": "1-7", "day_of_week": "mon"},
        {"minute": 0, "hour": 9, "day_of_month": "1-7", "day_of_week": "sat-sun"},
        {"minute": 0, "hour": 9, "day_of_month": "*/2", "day_of_week": "thursday"},
        {"minute": 0, "hour": 9, "day_of_month": "13", "day_of_week": "*/5"},
        {"minute": {5, 50}, "hour": range(3), "month_of_year": [2, 7]},
    ],
)
def test_a_crontab_and_its_rule_have_the_same_moments(fields: dict[str, Any]) -> None:
    rows = {"a": {"task": "t", "schedule": crontab(**fields)}}
    [entry] = from_schedule(rows, zone="UTC").sheet.schedules.values()
    rule = parse(entry.rule, zone=entry.zone)
    assert isinstance(rule, Rule)
    expected = moments(fields, 30)
    assert list(rule.between(NOVEMBER, expected[-1])) == expected


def test_the_schedule_of_an_app_is_read() -> None:
    app = Celery(set_as_current=False)
    app.conf.timezone = "Europe/Berlin"
    app.conf.beat_schedule = {
        "rate": {"task": "shop.rate", "schedule": schedule(timedelta(minutes=5))},
        "night": {
            "task": "shop.night",
            "schedule": crontab(minute=30, hour=2),
            "kwargs": {"full": True},
            "options": {"queue": "slow", "expires": 3600},
        },
    }
    found = from_schedule(app.conf.beat_schedule, zone=str(app.conf.timezone))
    assert list(found.sheet.schedules.values()) == [
        ScheduleEntry(name="rate", rule="every 5m", task="shop.rate"),
        ScheduleEntry(
            name="night",
            rule="30 2 * * *",
            zone="Europe/Berlin",
            task="shop.night",
            args={"full": True},
            queue="slow",
            start_within="1h",
        ),
    ]
