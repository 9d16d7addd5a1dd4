"""The settings of a Django project, its system checks, and its inline mode."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from duly.connection import SAID_BY_OPERATOR, configured
from duly.errors import InvalidValue


def test_settings_come_from_the_project(project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.test import override_settings

    from duly.django import duly

    assert configured().queues == ("default", "mail")
    assert configured().origin("queues") == "DULY"
    assert duly.zone == "Europe/Berlin"
    with override_settings(DULY={"CONCURRENCY": 3}):
        assert (configured().concurrency, configured().queues) == (3, ("default",))
    with override_settings(DULY={"CONCURRENCY": 3, "QUEUES": ("a", "b")}):
        assert configured().queues == ("a", "b")
        monkeypatch.setenv("DULY_CONCURRENCY", "4")
        assert configured().concurrency == 4


def test_schedules_in_code_are_in_the_zone_of_the_project(project: None) -> None:
    from duly.django import duly

    zones = {one.plan.name: one.plan.zone for one in duly.declarations.announcement("x").wanted}
    assert zones["nightly"] == "Europe/Berlin"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, []),
        ([], ["DULY = []: expected a dict, as {'QUEUES': ['default']}"]),
        ({"QUEUS": ["a"]}, ["DULY: no setting is called QUEUS (did you mean QUEUES?)"]),
        (
            {"CONCURRENCY": 0},
            ['DULY["CONCURRENCY"] = 0: a whole number from 1 to 10000'],
        ),
        ({"INLINE": "yes"}, ["DULY[\"INLINE\"] = 'yes': expected <class 'bool'>"]),
        (
            {"DATABASE": "mine"},
            ['DULY["DATABASE"] = "mine": no such database; DATABASES has default, other'],
        ),
    ],
)
def test_wrong_settings_are_reported_by_the_system_checks(
    project: None, given: Any, said: list[str]
) -> None:
    from django.apps import apps
    from django.conf import settings

    from duly.django.conf import check_settings

    before = settings.DULY
    settings.DULY = given
    try:
        apps.get_app_config("duly").ready()  # leaves it to the checks
        assert [found.msg for found in check_settings()] == said
    finally:
        settings.DULY = before


def test_a_deferred_sqlite_is_a_warning_and_another_database_an_error(
    project: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import connections
    from django.test import override_settings

    from duly.django import conf
    from duly.django.conf import check_settings

    with override_settings(DULY={"DATABASE": "other"}):
        assert [found.id for found in check_settings()] == ["duly.W001"]
        monkeypatch.setattr(conf, "SAFE_SQLITE", (99,))
        with override_settings(DEBUG=False):
            assert [found.id for found in check_settings()] == ["duly.W001", "duly.W002"]
        monkeypatch.setattr(connections["other"], "vendor", "mysql")
        assert [found.id for found in check_settings()] == ["duly.E003"]


def test_the_address_of_the_store_is_no_setting_of_a_project(project: None) -> None:
    from django.test import override_settings

    from duly.django.conf import check_written

    with (
        pytest.raises(InvalidValue, match="no setting is called URL"),
        override_settings(DULY={"URL": "a.db"}),
    ):
        check_written()


def test_workers_need_psycopg_3(postgres: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from duly.django import conf

    assert conf.check_settings() == []
    monkeypatch.setattr(conf, "find_spec", lambda _: None)
    assert [found.id for found in conf.check_settings()] == ["duly.E004"]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"NAME": "shop"}, "postgresql:///shop"),
        (
            {"NAME": "shop", "USER": "a@b", "PASSWORD": "p/w", "HOST": "db", "PORT": "5433"},
            "postgresql://a%40b@db:5433/shop?password=p%2Fw",
        ),
        (
            {
                "NAME": "shop",
                "HOST": "/run/pg",
                "PORT": 5433,
                "OPTIONS": {"sslmode": "require", "pool": True},
            },
            "postgresql:///shop?sslmode=require&host=%2Frun%2Fpg&port=5433",
        ),
    ],
)
def test_workers_find_the_database_of_the_project(
    project: None, given: Mapping[str, Any], url: str
) -> None:
    from django.db import connections

    from duly.django.conf import database_url

    engine = {"ENGINE": "django.db.backends.postgresql"}
    connections.settings["there"] = connections.configure_settings(
        {"default": {**engine, **given}}
    )["default"]
    try:
        assert database_url("there") == url
    finally:
        del connections["there"], connections.settings["there"]


def test_inline_mode_runs_a_job_after_the_commit(project: None) -> None:
    from django.db import transaction
    from django.test import override_settings

    from duly.django import duly
    from tests.django.shop.tasks import mail

    with override_settings(DULY={"INLINE": True}):
        with transaction.atomic():
            job = mail.enqueue("ada")
            assert job.refresh().state == "ready"
        assert job.refresh().state == "succeeded"
    duly.project_store.call(lambda store: store.jobs.remove(job.id), async_name="")


def test_inline_mode_runs_jobs_after_the_commit_of_their_own_database_once(
    postgres: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from unittest.mock import patch

    from django.db import transaction
    from django.test import override_settings

    from tests.django.shop.tasks import mail

    with override_settings(DULY={"DATABASE": "pg", "INLINE": True}):
        with transaction.atomic(using="pg"):
            with pytest.raises(ZeroDivisionError), transaction.atomic(using="pg"):
                mail.enqueue("nobody")
                raise ZeroDivisionError
            jobs = [mail.enqueue("ada"), mail.enqueue("bob")]
            assert [job.refresh().state for job in jobs] == ["ready", "ready"]
            assert len(postgres.run_on_commit) == 1
        assert [job.refresh().state for job in jobs] == ["succeeded", "succeeded"]
        with patch("duly.django.inline.run_ready", side_effect=OSError("the disk is full")):
            job = mail.enqueue("carol")  # the commit has happened: its caller goes on
        assert job.refresh().state == "ready"
        assert "the disk is full" in caplog.text


def test_a_database_in_memory_has_no_other_connection(project: None) -> None:
    import asyncio

    from duly.django import duly

    with pytest.raises(InvalidValue, match="is in memory, and no other connection sees it"):
        asyncio.run(duly.project_store.store())


def test_the_store_of_a_command_wins_over_the_database_of_the_project(
    project: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duly.django import duly

    monkeypatch.setenv(SAID_BY_OPERATOR, "other.db")
    assert duly.project_store.url == "other.db"


def test_a_job_closes_connections_that_are_too_old(project: None) -> None:
    from unittest.mock import patch

    from asgiref.sync import async_to_sync

    from duly.django import app, duly
    from tests.django.shop.tasks import open_connection

    with patch.object(app, "close_old_connections") as closing:
        assert open_connection() is True
        assert closing.call_count == 0
        assert duly.registry.get("open_connection").function() is True
        assert closing.call_count == 2
        coroutine: Any = async_to_sync(cast(Any, duly.registry.get("mail").function))
        assert coroutine("ada") == "ada has 0"
        assert closing.call_count == 4
