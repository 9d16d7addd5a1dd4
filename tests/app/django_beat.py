"""A program that keeps periodic tasks with Django, as django-celery-beat's own migrations say.

    python -m tests.app.django_beat DATABASE MIGRATION    make the tables of that age, and fill them
    python -m tests.app.django_beat DATABASE dump         print what dumpdata prints

In a process of its own: Django has one configuration per process.
"""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from psycopg.conninfo import conninfo_to_dict

APP = "django_celery_beat"
MOMENT = datetime(2027, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, 10, tzinfo=UTC)
FAR = datetime(2099, 1, 1, 10, tzinfo=UTC)

SCHEDULES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "rate": ("IntervalSchedule", {"every": 10, "period": "minutes"}),
    "night": ("CrontabSchedule", {"minute": "30", "hour": "2", "timezone": "Europe/Berlin"}),
    "monday": ("CrontabSchedule", {"minute": "0", "hour": "9", "day_of_week": "1"}),
    "sun": ("SolarSchedule", {"event": "sunset", "latitude": 52.5, "longitude": 13.4}),
    "far": ("ClockedSchedule", {"clocked_time": FAR}),
    "gone": ("ClockedSchedule", {"clocked_time": LONG_AGO}),
}
TASKS: Mapping[str, dict[str, Any]] = {
    "broken": {"interval": "rate", "kwargs": "{deep"},
    "dusk": {"solar": "sun"},
    "first monday": {
        "crontab": "monday",
        "args": "[1]",
        "one_off": True,
        "start_time": MOMENT,
        "expires": FAR,
    },
    "nightly": {"crontab": "night", "enabled": False},
    "once": {"clocked": "far", "one_off": True},
    "passed": {"clocked": "gone", "one_off": True},
    "poll": {
        "interval": "rate",
        "kwargs": '{"deep": true}',
        "queue": "slow",
        "expire_seconds": 600,
        "description": "Looks for news",
        "last_run_at": LONG_AGO,
    },
    "ran": {"interval": "rate", "one_off": True, "total_run_count": 1},
    "routed": {"interval": "rate", "exchange": "x", "headers": '{"a": 1}', "priority": 5},
}


def main(database: str, what: str) -> None:
    settings.configure(
        DATABASES={"default": {"ATOMIC_REQUESTS": False, **_opened(database)}},
        INSTALLED_APPS=[APP],
        USE_TZ=True,
        TIME_ZONE="UTC",
    )
    django.setup()
    if what == "dump":
        call_command("dumpdata", APP)
    else:
        _fill(what)


def _opened(database: str) -> dict[str, Any]:
    if not database.startswith("postgresql://"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": database}
    given = conninfo_to_dict(database)
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST"}
    named = {name: given.pop(key) for key, name in names.items() if key in given}
    return {"ENGINE": "django.db.backends.postgresql", **named, "OPTIONS": given}


def _fill(migration: str) -> None:
    executor = MigrationExecutor(connection)
    nodes = executor.loader.graph.leaf_nodes(APP) if migration == "newest" else [(APP, migration)]
    executor.migrate(nodes)
    models = MigrationExecutor(connection).loader.project_state(nodes).apps
    kept = {
        name: models.get_model(APP, model).objects.create(
            **_known(models.get_model(APP, model), fields)
        )
        for name, (model, fields) in SCHEDULES.items()
        if model.lower() in models.all_models[APP]
    }
    task = models.get_model(APP, "PeriodicTask")
    for name, fields in TASKS.items():
        pointers = {
            word: kept.get(fields[word])
            for word in ("interval", "crontab", "solar", "clocked")
            if word in fields
        }
        known = _known(task, fields | pointers)
        if any(known.get(word) for word in pointers):
            task.objects.create(name=name, task=f"shop.{name.split()[-1]}", **known)


def _known(model: Any, fields: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - Django's
    """Without what this age of the tables did not have."""
    there = {field.name for field in model._meta.get_fields()}
    return {name: value for name, value in fields.items() if name in there}


if __name__ == "__main__":
    main(*sys.argv[1:3])
