"""An examination: every check that fits the store, one after the other, and none that ends it.

A check is a function that asks, and leaves what the answer means to a function that only decides. A
check that cannot be made is a finding too: what cannot be asked is not known to be well.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from duly.clock import Timeout
from duly.connection import open_store
from duly.doctor import clocks, crew, postgres, sqlite, tables
from duly.doctor.finding import Finding, problem
from duly.doctor.patient import Patient
from duly.errors import InvalidValue, StoreUnavailable
from duly.store.connect import connect, is_postgres, is_remote
from duly.store.sql_store import SqlStore

Check: TypeAlias = Callable[[Patient], Awaitable[Finding]]

SECONDS: Final = 20.0  # for one check: longer than a store lets an answer take

# What a store stands on: asked even before it has tables.
_AROUND_SQLITE: Final[Mapping[str, Check]] = {
    "SQLite": sqlite.version,
    "file system": sqlite.file_system,
    "disk space": sqlite.disk_space,
    "writing": sqlite.writing,
}
_AROUND_POSTGRES: Final[Mapping[str, Check]] = {
    "PostgreSQL": postgres.version,
    "durability": postgres.durability,
    "connections": postgres.connections,
    "writing": postgres.writing,
    "listening": postgres.listening,
}
_OF_TABLES: Final[Mapping[str, Check]] = {
    "clock": clocks.clock,
    "zone data": clocks.zone_data,
    "moments": clocks.moments,
    "schedules": tables.schedules,
    "tasks": crew.tasks,
    "workers": crew.workers,
}
_OF_TABLES_BY_THE_DAY: Final[Mapping[str, Check]] = {
    "partitions": tables.partitions,
    **_OF_TABLES,
}


def check_names() -> list[str]:
    """Every check that there is, in the order in which they are made."""
    every = [*_AROUND_SQLITE, *_AROUND_POSTGRES, "schema", *_OF_TABLES_BY_THE_DAY]
    return list(dict.fromkeys(every))


async def examine(url: str) -> list[Finding]:
    """Look at a store that is there. ``StoreUnavailable`` if it cannot be looked at.

    Nothing is made and nothing is changed. Without tables, only what is around them is looked at;
    and of a store that is elsewhere, only what is in them.
    """
    if url == ":memory:":
        raise InvalidValue("a store in memory is seen by nobody else; give the path of a file")
    if is_remote(url):
        return await _from_afar(url)
    store = await _opened(url)
    served = is_postgres(url)
    around = _AROUND_POSTGRES if served else _AROUND_SQLITE
    inside = _OF_TABLES_BY_THE_DAY if served else _OF_TABLES
    try:
        patient = Patient(url=url, store=store)
        found = [await _made(name, check, patient) for name, check in around.items()]
        found.append(await _made("schema", tables.schema, patient))
        if found[-1].level != "problem":
            found += [await _made(name, check, patient) for name, check in inside.items()]
        return found
    finally:
        await store.close()


async def _from_afar(url: str) -> list[Finding]:
    store = await open_store(url)
    try:
        patient = Patient(url=url, store=store)
        checks = _OF_TABLES_BY_THE_DAY.items()
        return [await _made(name, check, patient) for name, check in checks]
    finally:
        await store.close()


async def _opened(url: str) -> SqlStore:
    store = connect(url, create=False, writes=False)
    try:
        await store.open()
    except StoreUnavailable as error:
        await store.close()
        if "unsupported startup parameter" in str(error):
            raise StoreUnavailable(f"{error}; {postgres.SAY_POOLER}") from error
        raise
    return store


async def _made(name: str, check: Check, patient: Patient) -> Finding:
    try:
        async with Timeout(SECONDS):
            found = await check(patient)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are still made
        said = " ".join(str(error).split()) or type(error).__name__
        pooled = getattr(error, "sqlstate", None) in postgres.PREPARED_ELSEWHERE
        unknown = "what cannot be asked is not known to be well; mend that, and ask again"
        found = problem(
            f"could not be looked at: {said}", postgres.SAY_POOLER if pooled else unknown
        )
    return replace(found, check=name)
