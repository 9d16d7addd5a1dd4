"""The Django project of these tests: one for each process, in memory, migrated once."""

import os
from collections.abc import Iterator
from typing import Any

import django
import pytest
from psycopg.conninfo import conninfo_to_dict

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django.settings")


@pytest.fixture(scope="session")
def django_ready() -> None:
    """Set Django up and make the tables."""
    from django.core.management import call_command
    from django.test.utils import setup_test_environment

    from duly.settings.loading import use_framework

    django.setup()
    setup_test_environment()
    call_command("migrate", run_syncdb=True, verbosity=0)
    use_framework(None)  # other tests in this process have no Django


@pytest.fixture
def project(django_ready: None) -> Iterator[None]:
    """The Django project, whose settings are duly's while the test runs."""
    from duly.django.conf import use_project_settings
    from duly.settings.loading import use_framework

    use_project_settings()
    yield
    use_framework(None)


@pytest.fixture
def db(project: None) -> Iterator[None]:
    """A transaction around the test, as of django.test.TestCase."""
    from django.db import transaction

    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def postgres(project: None, pg_dsn: str) -> Iterator[Any]:
    """The project with duly's tables in a PostgreSQL database of alias "pg"; its connection."""
    from django.core.management import call_command
    from django.db import connections
    from django.test import override_settings

    parts = conninfo_to_dict(pg_dsn)
    names = {"dbname": "NAME", "host": "HOST", "port": "PORT", "user": "USER"}
    given = {name: str(parts[part]) for part, name in names.items() if part in parts}
    connections.settings["pg"] = connections.configure_settings(
        {"default": {"ENGINE": "django.db.backends.postgresql", **given}}
    )["default"]
    try:
        with override_settings(DULY={"DATABASE": "pg"}):
            call_command("migrate", "duly", database="pg", verbosity=0)
            yield connections["pg"]
    finally:
        from duly.django import duly

        duly.close()
        connections["pg"].close()
        del connections["pg"], connections.settings["pg"]


@pytest.fixture
def client(db: None) -> Any:
    """A browser of a superuser, in the transaction of the test."""
    from django.contrib.auth.models import User
    from django.test import Client

    browser = Client()
    browser.force_login(User.objects.create_superuser("ada"))
    return browser
