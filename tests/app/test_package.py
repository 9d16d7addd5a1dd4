"""The package as it is imported: light, and helpful when it is mistaken for the app."""

import subprocess
import sys

import pytest

import duly

HEAVY = {"asyncio", "msgspec", "psycopg", "sqlite3", "click", "logging"}


def test_importing_it_is_light() -> None:
    asked = "import sys, duly; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_every_name_it_promises_is_there() -> None:
    for name in duly.__all__:
        assert getattr(duly, name) is not None
    assert len(duly.__all__) <= 16
    assert set(duly.__all__) <= set(dir(duly))


def test_who_takes_the_package_for_the_app_is_told() -> None:
    with pytest.raises(AttributeError, match="your app is the object: from tasks import duly"):
        _ = duly.task  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'tusk'"):
        _ = duly.tusk  # type: ignore[attr-defined]
