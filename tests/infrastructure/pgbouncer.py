"""PgBouncer in transaction mode, before a test's own database."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

import psycopg

from tests.infrastructure.cluster import unprivileged

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

SETTINGS = """
[databases]
* = host={server} user=postgres

[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 5
logfile = {folder}/log
pidfile = {folder}/pid
"""


@contextmanager
def pooled(dsn: str, *, ignoring: str = "") -> Iterator[str]:
    """The same database, through a pooler: its URL.

    ``ignoring`` is what clients may ask for when they begin, and do not get.
    """
    assert PROGRAM
    parts = urlsplit(dsn)
    [server] = parse_qs(parts.query)["host"]
    with TemporaryDirectory(
        prefix="duly-pgbouncer-", dir="/tmp", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        folder.chmod(0o777)
        settings = folder / "pgbouncer.ini"
        text = SETTINGS.format(server=server, folder=folder)
        settings.write_text(
            text + (f"ignore_startup_parameters = {ignoring}\n" if ignoring else "")
        )
        with subprocess.Popen(
            [*unprivileged(Path(server)), PROGRAM, "-q", settings], stderr=subprocess.DEVNULL
        ) as process:
            url = f"postgresql://postgres@{parts.path}?host={folder}&port=6432"
            try:
                wait_for(url)
                yield url
            finally:
                process.terminate()


def wait_for(url: str) -> None:
    for _ in range(100):
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.05)  # noqa: TID251 - nothing tells us when it listens
        else:
            return
    raise RuntimeError(f"PgBouncer did not start at {url}")
