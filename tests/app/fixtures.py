"""The shop on an empty store, and programs beside it. On SQLite, unless ``url`` is another one."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app import shop
from tests.app.programs import Programs, programs_in
from tests.infrastructure.cluster import Cluster
from tests.infrastructure.postgres import GivenServer
from tests.infrastructure.tables import with_tables
from tests.store.homes import Models, models


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(with_tables(tmp_path / "duly.db"))


@pytest.fixture(scope="session")
def furnished(
    pg_cluster: Cluster | GivenServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Models]:
    with models(pg_cluster.dsn, tmp_path_factory.mktemp("models")) as made:
        yield made


@pytest.fixture
def postgres_url(furnished: Models) -> Iterator[str]:
    """Of a database that its operator has migrated."""
    with furnished.on_postgres() as home:
        yield home.url


@pytest.fixture
def shop_is_open(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The shop as it is when a program has just begun."""
    monkeypatch.setenv("DULY_URL", url)
    importlib.reload(shop)
    yield
    shop.duly.close()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with programs_in(tmp_path) as programs:
        yield programs
