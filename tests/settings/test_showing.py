"""Settings as people may read them: whole, and without secrets."""

from pathlib import Path

import pytest

from duly.settings import load


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/shop", "postgresql://db/shop"),
        ("postgresql://ada@db/shop", "postgresql://ada@db/shop"),
        ("postgresql://ada:secret@db/shop", "postgresql://ada:***@db/shop"),
        ("postgres://ada:se%2Fcr%3Fe%40t@db/shop", "postgres://ada:***@db/shop"),
        (
            "postgresql:///shop?user=ada&password=secret&sslmode=require",
            "postgresql:///shop?user=ada&password=***&sslmode=require",
        ),
        ("postgresql://db/shop?sslpassword=secret", "postgresql://db/shop?sslpassword=***"),
        ("/srv/a:b@c/duly.db", "/srv/a:b@c/duly.db"),
    ],
)
def test_a_password_is_not_shown(tmp_path: Path, url: str, shown: str) -> None:
    settings = load({"url": url}, {}, tmp_path)
    assert settings.url == url
    assert (settings.shown("url"), settings.plain("url")) == (shown, shown)
    assert "secret" not in repr(settings)


def test_values_are_shown_as_they_could_be_written(tmp_path: Path) -> None:
    settings = load(
        {"lease": "90s", "keep_fires": "36h", "queues": "mail,default", "verbose": True},
        {},
        tmp_path,
    )
    assert settings.shown("lease") == "1m30s"
    assert settings.shown("keep_fires") == "1d12h"
    assert settings.shown("keep_history") == "14d"
    assert settings.shown("queues") == "mail, default"
    assert settings.shown("verbose") == "true"
    assert settings.shown("allow") == "-"
    assert settings.shown("zone") == "-"
    assert settings.plain("queues") == ["mail", "default"]
    assert settings.plain("zone") is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql:///shop?host=/var/run/postgresql&port=5433",
        "postgresql://ada@db1:5432,db2:5433/shop?target_session_attrs=read-write",
        "postgresql://ada:a:b@[::1]:5432/shop",
        "postgresql://%2Fvar%2Frun/shop?user=a@b&pooler=transaction",
        "./host=db.sqlite",
    ],
)
def test_what_libpq_understands_is_a_store(tmp_path: Path, url: str) -> None:
    found = load({"url": url}, {}, tmp_path).url
    assert found == (url if url.startswith("postgresql") else str(tmp_path / "host=db.sqlite"))
