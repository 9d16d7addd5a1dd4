"""What a PostgreSQL store stands on, in good order and in bad."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from duly.app import open_store
from duly.doctor import examine
from duly.doctor.checks import judge_days
from duly.doctor.postgres import (
    judge_connections,
    judge_durability,
    judge_vacuum,
    judge_version,
    judge_writing,
)
from duly.errors import StoreUnavailable
from duly.store.diagnostics import BadDay
from tests.app.doctor.patients import found
from tests.infrastructure.pgbouncer import PROGRAM, pooled

NOON = datetime(2026, 11, 9, 12, tzinfo=UTC)
DAY = timedelta(days=1)
NO_POOLER = pytest.mark.skipif(PROGRAM is None, reason="NO PGBOUNCER: apt install pgbouncer")


def execute(url: str, text: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())


def day_name(url: str, table: str, ahead: int) -> str:
    asked = "select duly.day_name(%s, duly.now_us() + %s * 86400000000::bigint)"
    with psycopg.connect(url) as connection:
        [(name,)] = connection.execute(asked, [table, ahead]).fetchall()
    return str(name)


async def test_a_server_that_is_supported_is_well(postgres_url: str) -> None:
    assert (await found(postgres_url, "PostgreSQL")).level == "ok"


def test_a_server_that_is_too_old_is_a_problem() -> None:
    finding = judge_version({"server_version": "14.11", "server_version_num": "140011"})
    assert (finding.level, finding.said) == ("problem", "14.11 is too old: duly needs 15")


async def test_a_server_that_forgets_what_it_committed_is_a_problem(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        if connection.execute("show fsync").fetchone() != ("off",):
            pytest.skip("the server of these tests is durable")
    finding = await found(postgres_url, "durability")
    assert finding.level == "problem"
    assert finding.said.startswith("fsync and full_page_writes off")
    assert finding.fix.startswith("alter system set fsync = on; ")


def test_commits_that_reach_the_disk_are_well_and_those_that_may_not_worth_knowing() -> None:
    durable = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
    assert judge_durability(durable).level == "ok"
    assert judge_durability({**durable, "synchronous_commit": "local"}).level == "ok"
    assert judge_durability({**durable, "synchronous_commit": "off"}).level == "warning"


async def test_a_server_with_room_is_well(postgres_url: str) -> None:
    finding = await found(postgres_url, "connections")
    assert (finding.level, finding.said.endswith(" are free")) == ("ok", True)


@pytest.mark.parametrize(("used", "level"), [(50, "ok"), (85, "warning"), (95, "problem")])
def test_connections_are_watched_before_they_are_gone(used: int, level: str) -> None:
    settings = {
        "max_connections": "100",
        "superuser_reserved_connections": "3",
        "connections": str(used),
    }
    assert judge_connections(settings).level == level


async def test_a_transaction_that_is_open_for_long_is_named(postgres_url: str) -> None:
    store = await open_store(postgres_url)
    async with await psycopg.AsyncConnection.connect(postgres_url) as other:
        await other.execute("set transaction isolation level repeatable read")
        await other.execute("select 1")
        settings = dict(await store.diagnostics.settings())
        pid = str(other.info.backend_pid)
    await store.close()
    assert settings["oldest_transaction_pid"] == pid
    assert judge_vacuum(settings).level == "ok", "it is new"
    finding = judge_vacuum({**settings, "oldest_transaction": "240"})
    assert (finding.level, "for 4 minutes" in finding.said) == ("warning", True)
    assert f"pg_terminate_backend({pid})" in finding.fix


async def test_a_role_that_may_write_is_well(postgres_url: str) -> None:
    assert (await found(postgres_url, "writing")).level == "ok"


async def test_a_role_that_may_only_read_is_a_problem(postgres_url: str) -> None:
    reader = "duly_test_reader"
    grants = (
        f"grant usage on schema duly to {reader}; "
        f"grant select on all tables in schema duly to {reader}"
    )
    execute(postgres_url, f"drop role if exists {reader}; create role {reader} login")
    try:
        execute(postgres_url, grants)
        finding = await found(postgres_url.replace("//postgres@", f"//{reader}@"), "writing")
    finally:
        execute(postgres_url, f"drop owned by {reader}; drop role {reader}")
    assert finding.level == "problem"
    assert "job, " in finding.said
    assert f"in schema duly to {reader}" in finding.fix


async def test_a_database_that_is_set_to_be_read_only_is_a_problem(postgres_url: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    execute(postgres_url, f'alter database "{name}" set default_transaction_read_only = on')
    finding = await found(postgres_url, "writing")
    assert finding.level == "problem"
    assert "read-only" in finding.said


def test_a_standby_is_a_problem() -> None:
    finding = judge_writing({"role": "duly", "in_recovery": "true"})
    assert (finding.level, "standby" in finding.said) == ("problem", True)


async def test_the_days_to_come_are_there_and_one_that_was_dropped_is_not(
    postgres_url: str,
) -> None:
    assert (await found(postgres_url, "partitions")).level == "ok"
    later, today = day_name(postgres_url, "history", 3), day_name(postgres_url, "fire", 0)
    execute(postgres_url, f"drop table duly.{later}")
    finding = await found(postgres_url, "partitions")
    assert (finding.level, finding.said) == ("warning", f"{later} is missing")
    execute(postgres_url, f"drop table duly.{today}")
    finding = await found(postgres_url, "partitions")
    assert (finding.level, finding.said) == ("problem", f"{today}, {later} are missing")
    assert "duly scheduler" in finding.fix


async def test_a_day_that_was_detached_is_a_problem_that_no_scheduler_mends(
    postgres_url: str,
) -> None:
    name = day_name(postgres_url, "fire", 1)
    execute(postgres_url, f"alter table duly.fire detach partition duly.{name}")
    finding = await found(postgres_url, "partitions")
    assert finding.level == "problem"
    assert finding.said.startswith(f"{name} exists but is not attached to its table")
    assert f"drop table duly.{name}" in finding.fix


def test_a_day_is_urgent_from_the_day_before() -> None:
    levels = [
        judge_days([BadDay(table="fire", day=midnight, state="missing")], NOON).level
        for midnight in (NOON - DAY / 2, NOON + DAY / 2, NOON + 3 * DAY / 2)
    ]
    assert levels == ["problem", "problem", "warning"]


async def test_a_notification_arrives_without_a_pooler(postgres_url: str) -> None:
    finding = await found(postgres_url, "listening")
    assert (finding.level, finding.fix) == ("ok", "")


@NO_POOLER
async def test_a_notification_is_lost_behind_a_pooler_that_nobody_spoke_of(
    postgres_url: str,
) -> None:
    with pooled(postgres_url, ignoring="options") as url:
        findings = await examine(url)
    [finding] = [one for one in findings if one.check == "listening"]
    assert finding.level == "warning", finding.said
    assert finding.said.startswith("LISTEN is accepted")
    assert "pooler=transaction" in finding.fix
    refused = [one for one in findings if "prepared statement" in one.said]
    assert {"pooler=transaction" in one.fix for one in refused} <= {True}


@NO_POOLER
async def test_behind_a_pooler_that_was_spoken_of_nothing_is_wrong(postgres_url: str) -> None:
    with pooled(postgres_url) as url:
        findings = {one.check: one for one in await examine(f"{url}&pooler=transaction")}
    assert "polling" in findings["listening"].said
    bad = {name for name, one in findings.items() if one.level != "ok"}
    assert bad - {"durability"} == set()


@NO_POOLER
async def test_a_pooler_that_refuses_to_connect_is_known_for_what_it_is(postgres_url: str) -> None:
    with pooled(postgres_url) as url, pytest.raises(StoreUnavailable) as refused:
        await examine(url)
    assert "append pooler=transaction" in str(refused.value)
