"""The settings of a Django project, its system checks, and its inline mode."""

from collections.abc import Mapping
from typing import Any

import pytest

from duly.connection import configured


def test_settings_come_from_the_project(project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.test import override_settings

    from duly.django import duly

    assert configured().queues == ("default", "mail")
    assert configured().origin("queues") == "DULY"
    assert duly.zone == "Europe/Berlin"
    with override_settings(DULY={"CONCURRENCY": 3}):
        assert (configured().concurrency, configured().queues) == (3, ("default",))
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
    from django.conf import settings

    from duly.django.checks import check_settings

    before = settings.DULY
    settings.DULY = given
    try:
        assert [found.msg for found in check_settings()] == said
    finally:
        settings.DULY = before


def test_a_deferred_sqlite_is_a_warning_and_another_database_an_error(
    project: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import connections
    from django.test import override_settings

    from duly.django.checks import check_settings

    with override_settings(DULY={"DATABASE": "other"}):
        assert [found.id for found in check_settings()] == ["duly.W001"]
        with override_settings(DEBUG=False):
            assert "duly.W001" in [found.id for found in check_settings()]
        monkeypatch.setattr(connections["other"], "vendor", "mysql")
        assert [found.id for found in check_settings()] == ["duly.E003"]


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

    from tests.django.shop.tasks import mail

    with override_settings(DULY={"INLINE": True}):
        with transaction.atomic():
            job = mail.enqueue("ada")
            assert job.refresh().state == "ready"
        assert job.refresh().state == "succeeded"


def test_a_job_closes_connections_that_are_too_old(project: None) -> None:
    from unittest.mock import patch

    from duly.django import app, duly
    from tests.django.shop.tasks import open_connection

    with patch.object(app, "close_old_connections") as closing:
        assert open_connection() is True
        assert closing.call_count == 0
        assert duly.registry.get("open_connection").function() is True
        assert closing.call_count == 2
