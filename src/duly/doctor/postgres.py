"""Checks around a PostgreSQL store: the server, its disk, its connections, and its pooler."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from duly.doctor.checks import Check, Finding, Patient, fine, problem, warning
from duly.durations import say_duration

OLDEST: Final = 15
SCARCE, FEW = 5, 15  # a node has up to five connections
LONG_OPEN: Final = timedelta(minutes=3)

# The server's errors if a pooler shares one connection between clients: a prepared statement exists
# already, or does not exist.
PREPARED_ELSEWHERE: Final = ("42P05", "26000")
SAY_POOLER: Final = (
    "if a pooler (PgBouncer) is in between, append pooler=transaction to the address: "
    "postgresql://host/name?pooler=transaction"
)


def by_settings(judge: Callable[[Mapping[str, str]], Finding]) -> Check:
    """Return the check that judges the settings of the server."""

    async def check(patient: Patient) -> Finding:
        return judge(await patient.store.diagnostics.settings())

    return check


def judge_version(settings: Mapping[str, str]) -> Finding:
    said = settings["server_version"]
    if int(settings["server_version_num"]) // 10_000 < OLDEST:
        return problem(f"{said} is too old: duly needs {OLDEST}", "upgrade the server")
    return fine(said)


def judge_durability(settings: Mapping[str, str]) -> Finding:
    off = [name for name in ("fsync", "full_page_writes") if settings.get(name) == "off"]
    if off:
        return problem(
            f"{' and '.join(off)} off: the database may be lost when its machine crashes",
            "; ".join(f"alter system set {name} = on" for name in off)
            + "; select pg_reload_conf()",
        )
    if settings.get("synchronous_commit") == "off":
        return warning(
            "synchronous_commit is off: the commits of the last second may be lost when the "
            "server crashes",
            "alter role … set synchronous_commit = on, for the role that duly uses",
        )
    return fine("commits are on disk before they are confirmed")


def judge_connections(settings: Mapping[str, str]) -> Finding:
    most, used = int(settings["max_connections"]), int(settings["connections"])
    kept_back = ("superuser_reserved_connections", "reserved_connections")
    free = most - used - sum(int(settings.get(name, 0)) for name in kept_back)
    said = f"{max(free, 0)} of {most} are free"
    fix = "raise max_connections, or use a pooler, with pooler=transaction"
    if free < SCARCE:
        return problem(said, fix)
    if free < FEW:
        return warning(said, fix)
    return fine(said)


def judge_writing(settings: Mapping[str, str]) -> Finding:
    role = settings["role"]
    if settings["in_recovery"] == "true":
        return problem(
            "this server is a standby, which is read-only",
            "give the address of the primary, or several hosts and target_session_attrs=read-write",
        )
    if settings["default_transaction_read_only"] == "on":
        return problem(
            f"transactions of {role} are read-only",
            f"alter role {role} set default_transaction_read_only = off",
        )
    if tables := settings.get("tables_not_writable"):
        return problem(
            f"{role} lacks the right to read and write: {tables}",
            f"grant select, insert, update, delete on all tables in schema duly to {role}; grant "
            f"usage on all sequences in schema duly to {role}",
        )
    return fine(f"{role} can write")


def judge_vacuum(settings: Mapping[str, str]) -> Finding:
    """A role that may not see other roles' transactions finds none."""
    age = timedelta(seconds=int(settings.get("oldest_transaction", 0)))
    if age < LONG_OPEN:
        return fine("no transaction keeps it from removing old rows")
    pid = settings["oldest_transaction_pid"]
    return warning(
        f"a transaction has been open for {say_duration(age)} (process {pid}): rows that were "
        "deleted since then stay, and claims slow down",
        f"end it: select pg_terminate_backend({pid}); and set idle_in_transaction_session_timeout",
    )


async def listening(patient: Patient) -> Finding:
    """Say a word to ourselves, as every node does before it believes that it hears others."""
    from duly.store.postgres.database import PostgresDatabase  # noqa: PLC0415 - an extra

    database = patient.database
    if not isinstance(database, PostgresDatabase) or not database.dialect.notify:
        return judge_listening(wanted=False, hears=False)
    # The second time for a server that was only slow.
    return judge_listening(wanted=True, hears=await database.hears() or await database.hears())


def judge_listening(*, wanted: bool, hears: bool) -> Finding:
    if not wanted:
        return fine("not used (pooler=transaction): workers find changes by polling")
    if hears:
        return fine("NOTIFY works: workers learn of new jobs at once")
    return warning(
        "LISTEN is accepted, but NOTIFY never arrives: workers find new jobs only by polling",
        f"{SAY_POOLER}; or connect duly to the server directly, without the pooler",
    )
