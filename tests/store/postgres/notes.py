"""A small table, statements over it and operations made of them: something to run."""

from collections.abc import Sequence

import psycopg

from duly.store.database import Ask, Operation, Row

TABLE = "create table note (id bigint primary key, text text not null)"

STATEMENTS = {
    "add": "insert into note (id, text) values (:id, :text)",
    "change": "update note set text = :text where id = :id returning id",
    "all": "select id, text from note order by id",
    "some": "select id from note where id = any(:ids::bigint[]) or text = any(:texts::text[])",
    "now": "select :now::bigint",
    "process": "select pg_backend_pid()",
    "prepared": "select count(*) from pg_prepared_statements where :id > 0",
    "settings": "select current_setting('plan_cache_mode'), current_setting('statement_timeout'),"
    " current_setting('application_name')",
    "isolation": "select current_setting('transaction_isolation'),"
    " current_setting('transaction_read_only')",
    "wait": "select pg_sleep(:seconds)",
    "absent": "select 1 from duly.absent",
    "kinds": "select '{\"a\": 1}'::jsonb, :id, pg_typeof(:id)::text, pg_typeof(:ids)::text, 7 % 4",
    "of_a_day": "insert into daily (day) values (:id)",
    "make_a_day": "create table daily_7 partition of daily for values from (7) to (8)",
}


def ask(statement: str, **values: int | str | Sequence[int] | Sequence[str] | None) -> "Asked":
    return Asked(Ask(statement, values))


class Asked:
    """An operation of one statement that returns its rows."""

    def __init__(self, asked: Ask) -> None:
        self.asked = asked

    def __call__(self) -> Operation[list[Row]]:
        return (yield self.asked)


def add(*ids: int, text: str = "") -> "Added":
    return Added(ids, text)


class Added:
    """An operation that adds notes, and counts how often it was run."""

    def __init__(self, ids: Sequence[int], text: str) -> None:
        self.ids = ids
        self.text = text
        self.runs = 0

    def __call__(self) -> Operation[int]:
        self.runs += 1
        for number in self.ids:
            yield Ask("add", {"id": number, "text": self.text})
        return len(self.ids)


def notes_in(dsn: str) -> list[int]:
    """What is there, asked over a connection of our own."""
    with psycopg.connect(dsn) as connection:
        return [number for (number,) in connection.execute("select id from note order by id")]


def end_process(dsn: str, process: int) -> None:
    """Terminate a connection on the server's side, and wait until it is gone."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute(
            "select pg_terminate_backend(%s, 5000)", [process]
        ).fetchone() == (True,)


async def is_waiting_for_a_lock(dsn: str) -> None:
    """Return when somebody in the database waits for a lock of somebody else."""
    waiting = "select 1 from pg_stat_activity where datname = %s and wait_event_type = 'Lock'"
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        while not await (await connection.execute(waiting, [connection.info.dbname])).fetchone():
            pass
