"""What onlookers cost: a worker at full speed, with 200 streams open on the dashboard and without.

The web side is a process of its own, and so are those who look on. The same number of jobs is
drained again and again, in turn without and with onlookers, and the medians are compared.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import urlsplit

from duly import Duly

JOBS = 50_000
ROUNDS = 3
STREAMS = 200
SECRET = "duly_" + "x" * 43

duly = Duly()


@duly.task
async def nothing() -> None: ...


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "streams.db")
        alone, watched = [], []
        with serving(store) as address:
            for _ in range(ROUNDS):
                alone.append(drained(store))
                with onlookers(address):
                    watched.append(drained(store))
    before, after = median(alone), median(watched)
    print(f"streams: {JOBS / before:,.0f} jobs a second alone,", end=" ")
    print(f"{JOBS / after:,.0f} with {STREAMS} streams open: {before / after:.1%}")


def drained(store: str) -> float:
    """Seconds that a worker takes for all jobs that there are."""
    filling = "from benchmarks.streams import fill; fill()"
    environment = {**os.environ, "DULY_STORE_OF_COMMAND": store}
    subprocess.run([sys.executable, "-c", filling], check=True, env=environment)
    began = perf_counter()
    command = ["worker", "benchmarks.streams:duly", "--burst", "--concurrency", "100"]
    subprocess.run(
        [sys.executable, "-m", "duly", *command, "--store", store],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return perf_counter() - began


def fill() -> None:
    duly.enqueue_many(nothing.bind() for _ in range(JOBS))


@contextmanager
def serving(store: str) -> Iterator[str]:
    command = [sys.executable, "-m", "duly", "web", "--store", store, "--port", "0"]
    environment = {**os.environ, "DULY_LAUNCH": SECRET}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        yield next(line.split()[1] for line in process.stderr if line.startswith("dashboard:"))
        process.terminate()


@contextmanager
def onlookers(address: str) -> Iterator[None]:
    watching = [sys.executable, "-m", "benchmarks.streams", address]
    with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        yield
        process.terminate()


async def watch(address: str) -> None:
    """Half of them read what happens, half of them look at the first page."""
    place = urlsplit(address)
    streams = [
        await _open(place.hostname or "", place.port or 0, path)
        for path in ["/api/v1/stream", "/?live=1"] * (STREAMS // 2)
    ]
    print("watching", flush=True)
    await asyncio.gather(*(_read(stream) for stream in streams))


async def _open(host: str, port: int, path: str) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection(host, port)
    asked = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {SECRET}\r\n\r\n"
    writer.write(asked.encode())
    assert b" 200 " in await reader.readline()
    _OPEN.append(writer)
    return reader


_OPEN: list[asyncio.StreamWriter] = []


async def _read(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 20):
        pass


if __name__ == "__main__":
    asyncio.run(watch(sys.argv[1]))
