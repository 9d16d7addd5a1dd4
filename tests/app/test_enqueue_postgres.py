"""All that ``test_enqueue`` says, on PostgreSQL; and what is different there."""

import pytest

from duly import Duly
from duly.errors import SchemaMismatch
from tests.app.test_enqueue import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


def test_a_database_that_was_not_migrated_is_refused(pg_dsn: str) -> None:
    duly = Duly(pg_dsn)

    @duly.task
    def work() -> None: ...

    with pytest.raises(SchemaMismatch, match="run duly db migrate"):
        work.enqueue()
    duly.close()
