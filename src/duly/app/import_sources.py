"""Read the tables and keys of other schedulers, for ``duly import``; nothing is written.

Only plain values are read. APScheduler's job stores hold pickles, and unpickling a row may run any
code; of the pickles that RQ keeps in Redis, those of plain values are read without unpickling.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeAlias

from duly.clock import now
from duly.errors import InvalidValue, NotFound, StoreUnavailable
from duly.files.importers.celery_beat import APP, TABLES, TASKS, from_dump, from_tables
from duly.files.importers.collector import Imported
from duly.files.importers.django_schedulers import (
    DJANGO_Q_TABLE,
    TASK,
    TASKS_SCHEDULER_TABLES,
    from_django_q,
    from_django_q_dump,
    from_tasks_export,
    from_tasks_scheduler,
)
from duly.files.importers.rq_scheduler import JOB, SCHEDULED, ScheduledJob, from_redis
from duly.store.connect import is_postgres, place, spoken
from duly.store.sqlite.connection import connect_to_read

Rows: TypeAlias = Sequence[Mapping[str, Any]]

MOST_ROWS: Final = 100_000  # of one table
CONNECT_SECONDS: Final = 10
MOST_JOBS: Final = 10_000  # of rq-scheduler

_SCHEME: Final = re.compile(r"([A-Za-z][\w+.-]*):/")
_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
_THERE_IN_SQLITE: Final = "select name from sqlite_master where type in ('table', 'view')"
_THERE_IN_POSTGRES: Final = "select relname as name from pg_class where pg_table_is_visible(oid)"
_MAGIC: Final = b"SQLite format 3\0"


def is_database(source: str) -> bool:
    """Return whether the source is a database: a URL or a SQLite file."""
    if _SCHEME.match(source):
        return True
    path = Path(source)
    if path.is_file():
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    return ":" not in source and path.suffix in _SUFFIXES


def shown_address(source: str) -> str:
    """Return the address of a database without its password."""
    scheme = _SCHEME.match(source)
    if scheme and not is_postgres(source) and scheme[1] != "sqlite":
        return f"{scheme[1]}://…"
    return place(source)


def read_beat_tables(source: str, *, zone: str | None = None) -> Imported:
    """Read the periodic tasks of django-celery-beat from a database."""
    tables = _tables(source, [f"{APP}_{table}" for table in TABLES], needed=f"{APP}_{TASKS}")
    found = {name.removeprefix(f"{APP}_"): rows for name, rows in tables.items()}
    return from_tables(found, now=now(), zone=zone)


def read_beat_dump(text: str, *, zone: str | None = None) -> Imported:
    """Read the periodic tasks from the output of ``manage.py dumpdata``."""
    return from_dump(text, now=now(), zone=zone)


def read_tasks_scheduler(source: str) -> Imported:
    """Read the tasks of django-tasks-scheduler from a database."""
    return from_tasks_scheduler(_tables(source, TASKS_SCHEDULER_TABLES, needed=TASK), now=now())


def read_tasks_export(text: str) -> Imported:
    """Read the tasks from the output of django-tasks-scheduler's ``manage.py export``."""
    return from_tasks_export(text, now=now())


def read_django_q(source: str, *, zone: str | None) -> Imported:
    """Read the schedules of django-q2 from a database."""
    [rows] = _tables(source, [DJANGO_Q_TABLE], needed=DJANGO_Q_TABLE).values()
    return from_django_q(rows, now=now(), zone=zone)


def read_django_q_dump(text: str, *, zone: str | None) -> Imported:
    """Read the schedules from the output of ``manage.py dumpdata django_q.schedule``."""
    return from_django_q_dump(text, now=now(), zone=zone)


def read_rq_scheduler(url: str, *, zone: str | None, machine_zone: str | None) -> Imported:
    """Read the scheduled jobs of rq-scheduler from Redis."""
    try:
        from redis import Redis, RedisError  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise StoreUnavailable('Redis needs redis: pip install "duly[redis]"') from None
    shown = re.sub(r"//.*@", "//", url)
    patience = {"socket_timeout": CONNECT_SECONDS, "socket_connect_timeout": CONNECT_SECONDS}
    try:
        with closing(Redis.from_url(url, **patience)) as redis:
            found: Any = redis.zrange(SCHEDULED, 0, MOST_JOBS, withscores=True)
            if len(found) > MOST_JOBS:
                raise InvalidValue(
                    f"{SCHEDULED} has more than {MOST_JOBS:,} jobs, which is too many for one file"
                )
            jobs = [_scheduled_job(redis, key, at) for key, at in found]
    except (RedisError, OSError, ValueError) as error:
        raise StoreUnavailable(f"{shown} cannot be read: {error}") from None
    if not jobs:
        raise NotFound(f"{shown} has no key {SCHEDULED}: is it the database of rq-scheduler?")
    return from_redis(jobs, zone=zone, machine_zone=machine_zone)


def _scheduled_job(redis: Any, key: bytes, at: float) -> ScheduledJob:  # noqa: ANN401 - an extra
    number = key.decode()
    fields = {name.decode(): value for name, value in redis.hgetall(f"{JOB}{number}").items()}
    return ScheduledJob(number, at, fields)


def _tables(source: str, names: Sequence[str], *, needed: str) -> dict[str, Rows]:
    """Return the rows of these tables, without those that do not exist."""
    read = _postgres if is_postgres(source) else _sqlite
    tables = read(source, names)
    if needed not in tables:
        app = needed.rpartition("_")[0]
        raise NotFound(
            f"{shown_address(source)} has no table {needed}: is it the database in which "
            f"Django keeps {app}?"
        )
    return tables


def _sqlite(source: str, names: Sequence[str]) -> dict[str, Rows]:
    scheme = _SCHEME.match(source)
    if scheme and scheme[1] != "sqlite":
        raise InvalidValue(
            f'"{scheme[1]}://" is not supported; use sqlite:///path or postgresql://…. For any '
            "other database, send what Django dumps, as python manage.py dumpdata "
            f"{names[0].rpartition('_')[0]} | duly import … -"
        )
    path = Path(place(source))
    if not path.is_file():
        raise NotFound(f"there is no file {path}")
    try:
        with closing(connect_to_read(path)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("begin")  # a consistent snapshot of all tables
            return _found(lambda text: map(dict, connection.execute(text)), _THERE_IN_SQLITE, names)
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise InvalidValue(f"{path} is not an SQLite database") from None
        raise StoreUnavailable(f"{path} cannot be read: {error}") from None


def _postgres(source: str, names: Sequence[str]) -> dict[str, Rows]:
    try:
        import psycopg  # noqa: PLC0415 - an extra
        from psycopg.rows import dict_row  # noqa: PLC0415

        from duly.store.postgres.connections import read_address  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f'PostgreSQL needs {error.name}: pip install "duly[postgres]"'
        ) from None
    given = read_address(spoken(source)[0])
    try:
        with psycopg.connect(
            **{"connect_timeout": CONNECT_SECONDS, **given}, row_factory=dict_row
        ) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("set local statement_timeout = '60s'")
            return _found(connection.execute, _THERE_IN_POSTGRES, names)
    except psycopg.Error as error:
        raise StoreUnavailable(f"{shown_address(source)} cannot be read: {error}") from None


def _found(
    ask: Callable[[str], Iterable[Mapping[str, Any]]], which: str, names: Sequence[str]
) -> dict[str, Rows]:
    there = {row["name"] for row in ask(which)}
    return {name: _rows(ask, name) for name in names if name in there}


def _rows(ask: Callable[[str], Iterable[Mapping[str, Any]]], table: str) -> Rows:
    rows = list(ask(f"select * from {table} limit {MOST_ROWS + 1}"))  # noqa: S608 - names of ours
    if len(rows) > MOST_ROWS:
        raise InvalidValue(
            f"{table} has more than {MOST_ROWS:,} rows, which is too many for one file"
        )
    return rows
