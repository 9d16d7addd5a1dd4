"""Rows of django-tasks-scheduler and django-q2, in tables that their own migrations made."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django_q.models import Schedule
from scheduler.models import Task, TaskArg, TaskKwarg

LONG_AGO = datetime(2020, 1, 1, 10, tzinfo=UTC)
FAR = datetime(2099, 1, 5, 10, tzinfo=UTC)  # a Monday; 11:00 in Berlin


def make(database: Path) -> None:
    """Make the database, a file beside it of what was exported, and one with a bad row in each."""
    call_command("migrate", run_syncdb=True, verbosity=0)
    fill()
    call_command("export", filename=str(database.with_name("export.json")))
    broken = sqlite3.connect(database.with_name("broken.sqlite3"))
    with closing(broken), closing(sqlite3.connect(database)) as whole:
        whole.backup(broken)
        broken.execute("update scheduler_task set cron_string = '0 25 * * *' where name = 'front'")
        broken.execute("update django_q_schedule set args = 'f(1)' where name = 'minutes'")
        broken.commit()


def fill() -> None:
    # Without save(), which would ask Redis.
    Task.objects.bulk_create(
        [
            _task("nightly", "Cron", cron_string="30 2 * * *", timeout=60, result_ttl=600),
            _task("front", "Cron", cron_string="0 5 * * *", at_front=True, queue="mail"),
            _task("off", "Cron", cron_string="0 5 * * *", enabled=False),
            _task("poll", "Repeatable", interval=5, interval_unit="minutes", scheduled_time=FAR),
            _task("thrice", "Repeatable", interval=1, interval_unit="hours", repeat=2,
                  scheduled_time=FAR),
            _task("ended", "Repeatable", interval=1, interval_unit="days", repeat=3,
                  scheduled_time=LONG_AGO),
            _task("later", "Once", scheduled_time=FAR),
            _task("gone", "Once", scheduled_time=LONG_AGO),
        ]
    )  # fmt: skip
    poll = Task.objects.get(name="poll")
    named = {
        "a": ("str", "x"), "b": ("int", "3"), "c": ("float", "1.5"), "d": ("bool", "True"),
        "e": ("datetime", "2027-01-01T00:00:00+00:00"), "f": ("json", '{"deep": [1]}'),
    }  # fmt: skip
    kind = {"content_type": ContentType.objects.get_for_model(Task)}
    for key, (arg_type, val) in named.items():
        TaskKwarg.objects.create(**kind, object_id=poll.id, key=key, arg_type=arg_type, val=val)
    later = Task.objects.get(name="later")
    TaskKwarg.objects.create(
        **kind, object_id=later.id, key="when", arg_type="callable", val="shop.now"
    )
    TaskArg.objects.create(**kind, object_id=later.id, arg_type="int", val="7")
    Schedule.objects.bulk_create(
        [
            _schedule("once", "O"),
            _schedule("done", "O", next_run=LONG_AGO),
            _schedule("minutes", "I", minutes=15, args="1, 'Ada'"),
            _schedule("hourly", "H", repeats=4),
            _schedule("daily", "D", kwargs="x=1, name='Ada'", cluster="mail"),
            _schedule("weekly", "W", kwargs="{'x': 2, 'q_options': {'group': 'a'}}",
                      hook="shop.told"),
            _schedule("quarterly", "Q"),
            _schedule("cron", "C", cron="0 7 * * 1-5"),
            _schedule("used up", "H", repeats=0),
            _schedule("dated", "D", intended_date_kwarg="day"),
        ]
    )  # fmt: skip


def _task(name: str, kind: str, **fields: Any) -> Task:
    return Task(
        **{
            "name": name,
            "task_type": f"{kind}TaskType",
            "callable": f"shop.{name}",
            "queue": "default",
            **fields,
        }
    )  # fmt: skip


def _schedule(name: str, kind: str, **fields: Any) -> Schedule:
    return Schedule(
        **{"name": name, "schedule_type": kind, "func": f"shop.{name}", "next_run": FAR, **fields}
    )
