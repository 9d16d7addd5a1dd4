"""duly's own migrations, run by Django's: one ``ApplySchema`` for each of them."""

from typing import Any, ClassVar, Final

from django.apps import apps
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState

from duly import clock
from duly.django.conf import project
from duly.instants import to_us
from duly.store.caller_connection.drivers import DIALECTS
from duly.store.database import Dialect, at_once
from duly.store.database import Migration as SchemaMigration
from duly.store.migrate import migrations


class ApplySchema(Operation):
    """Apply a migration of duly to the database that has its tables, and to no other."""

    reduces_to_sql: ClassVar[bool] = False
    reversible: ClassVar[bool] = False
    elidable: ClassVar[bool] = False

    def __init__(self, number: int) -> None:
        self.number = number

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Let Django know the models as they are now: it does not make their tables."""
        if self.number == 1:
            for model in apps.get_app_config(app_label).get_models():
                state.add_model(ModelState.from_model(model))

    def database_forwards(
        self,
        app_label: str,  # noqa: ARG002 - as Django calls it
        schema_editor: Any,
        from_state: Any,  # noqa: ARG002
        to_state: Any,  # noqa: ARG002
    ) -> None:
        connection = schema_editor.connection
        if connection.alias == project().database:
            _apply(connection, self.number)

    def describe(self) -> str:
        return f"Apply migration {self.number} of duly"


def _apply(connection: Any, number: int) -> None:
    dialect: Dialect = DIALECTS[connection.vendor]
    [migration] = [one for one in migrations(dialect) if one.number == number]
    connection.ensure_connection()
    _APPLYING[connection.vendor](connection.connection, migration)


def _on_sqlite(connection: Any, migration: SchemaMigration) -> None:
    from duly.store.sqlite.connection import apply_migration  # noqa: PLC0415 - the one that is used

    apply_migration(connection, migration, to_us(clock.now()))


def _on_postgres(connection: Any, migration: SchemaMigration) -> None:
    from duly.store.postgres import database  # noqa: PLC0415 - the one that is used

    given = _Awaitable(connection)
    at_once(database.prepare(given))  # type: ignore[arg-type]
    at_once(database.apply(given, migration, now=None))  # type: ignore[arg-type]


_APPLYING: Final = {"sqlite": _on_sqlite, "postgresql": _on_postgres}


class _Awaitable:
    """A connection or cursor of psycopg that does not wait, for code that awaits it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def execute(self, *said: Any) -> "_Awaitable":
        return _Awaitable(self._inner.execute(*said))

    async def fetchone(self) -> Any:
        return self._inner.fetchone()

    async def fetchall(self) -> Any:
        return self._inner.fetchall()
