"""Jobs of a Django project are enqueued in its transactions, and wake workers after the commit."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.errors import InvalidValue, SchemaMismatch
from duly.store.migrate import Schema


class Undone(Exception):
    pass


def test_a_job_is_there_in_the_transaction_and_gone_with_it(db: None) -> None:
    from django.db import transaction

    from duly.django.testing import jobs
    from tests.django.shop.tasks import pack

    with pytest.raises(Undone), transaction.atomic():
        job = pack.enqueue(7)
        assert job.refresh().state == "ready"
        raise Undone
    assert jobs() == []
    kept = pack.enqueue(8)
    assert jobs() == [kept]


def test_other_verbs_join_the_transaction(db: None) -> None:
    from django.db import transaction

    from duly.django import duly
    from tests.django.shop.tasks import pack

    job = pack.enqueue(7)
    with pytest.raises(Undone), transaction.atomic():
        assert job.cancel()
        duly.queues.pause("mail")
        raise Undone
    assert job.refresh().state == "ready"
    assert not any(queue.paused for queue in duly.queues.list())


def test_an_async_view_enqueues_too(db: None) -> None:
    from asgiref.sync import async_to_sync

    from duly.django.testing import run_jobs
    from tests.django.shop.tasks import mail

    async def view() -> int:
        return (await mail.aenqueue("ada")).id

    number = async_to_sync(view)()
    assert [(job.id, job.title, job.result()) for job in run_jobs()] == [
        (number, "Mail to ada", "ada has 0")
    ]


def test_an_idempotency_key_is_refused_in_a_transaction(db: None) -> None:
    from tests.django.shop.tasks import pack

    with pytest.raises(InvalidValue, match="the job is there if that commits"):
        pack.using(idempotency_key="once").enqueue(7)


def test_the_project_is_migrated_by_django(project: None) -> None:
    from django.core.management import call_command
    from django.db import connection, connections
    from django.db.migrations.loader import MigrationLoader

    from duly.django import duly
    from duly.store.database import Dialect
    from duly.store.migrate import migrations

    ours = {one.number for one in migrations(Dialect("sqlite"))}
    theirs = MigrationLoader(connection).disk_migrations
    applied = [
        operation.number
        for (app, _), migration in theirs.items()
        if app == "duly"
        for operation in migration.operations
        if hasattr(operation, "number")
    ]
    assert sorted(applied) == sorted(ours)
    assert duly.jobs.list() == []
    call_command("migrate", "duly", database="other", verbosity=0)
    assert "duly_job" not in connections["other"].introspection.table_names()


def test_missing_tables_are_made_by_manage_migrate(project: None, tmp_path: Path) -> None:
    from django.test import override_settings

    from tests.django.shop.tasks import pack

    with (
        override_settings(DULY={"DATABASE": "other"}),
        pytest.raises(SchemaMismatch, match=r"has no duly tables: run manage\.py migrate"),
    ):
        pack.enqueue(7)


def test_postgres_is_told_after_the_commit_once_for_each_topic(postgres: Any, pg_dsn: str) -> None:
    from django.db import transaction

    from tests.django.shop.tasks import mail, pack

    with psycopg.connect(pg_dsn, autocommit=True) as listener:
        listener.execute("listen duly")
        with transaction.atomic(using="pg"):
            with pytest.raises(Undone), transaction.atomic(using="pg"):
                mail.enqueue("ada")
                raise Undone
            for number in range(3):
                pack.enqueue(number)
            assert heard(listener) == []
        assert heard(listener) == ["ready:default"]
        mail.enqueue("ada")
        assert heard(listener) == ["ready:mail"]


def test_postgres_keeps_what_is_committed_and_no_more(postgres: Any) -> None:
    from django.db import transaction

    from duly.django import duly
    from duly.django.testing import run_jobs
    from tests.django.shop.tasks import mail

    with pytest.raises(Undone), transaction.atomic(using="pg"):
        mail.enqueue("nobody")
        raise Undone
    with transaction.atomic(using="pg"):
        job = mail.enqueue("ada")
        assert job.refresh().state == "ready"
    assert [found.id for found in duly.jobs.list()] == [job.id]  # on a connection of its own
    assert [done.result() for done in run_jobs()] == ["ada has 0"]
    assert asyncio.run(seen(job)) == "ada has 0"


async def seen(job: Any) -> object:
    return await job.aresult("5s")


def heard(listener: "psycopg.Connection[Any]") -> list[str]:
    return [one.payload for one in listener.notifies(timeout=0.1)]


def test_a_database_that_is_too_new_asks_for_a_newer_duly_and_not_for_a_migration(
    project: None,
) -> None:
    from duly.django.app import told_to_migrate

    newer = Schema(applied=(1, 2), expected=(1,), minimum=2)
    with pytest.raises(SchemaMismatch, match="upgrade duly on this machine"), told_to_migrate():
        raise SchemaMismatch(newer.problem)
