"""Behind PgBouncer in transaction mode there is only polling, and the same promises."""

from pathlib import Path

import pytest

from tests.acceptance.storm import storm
from tests.infrastructure.pgbouncer import PROGRAM, pooled

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="NO PGBOUNCER: apt install pgbouncer")


async def test_killed_schedulers_behind_a_pooler_lose_and_double_nothing(
    pg_dsn: str, tmp_path: Path
) -> None:
    with pooled(pg_dsn) as url:
        result = await storm(
            f"{url}&pooler=transaction", tmp_path, nodes=2, schedules=20, seconds=4, pause=1.0
        )
    assert result.due >= 40
    assert (result.lost, result.doubled) == ([], [])
