"""Containers as an engine: a job is a container of Docker or Podman, named by its key.

The command line of the container engine is all that is needed. It refuses a second container of
the same name, which is how the next worker finds the first one. The program writes its report to a
file in the container, which is copied out when the container has ended.
"""

import asyncio
import contextlib
import io
import os
import tarfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from duly.engine.executors.process.output import LONGEST_LINE
from duly.engines.report import REQUEST, environment, failure, program
from duly.errors import EngineUnavailable
from duly.registry.definition import EngineJob

REPORT: Final = "/tmp/duly-report"  # noqa: S108 - in the container, where every user may write
FAMILY: Final = "dev.duly.family"  # the label that all tries of a job have
# What Docker and Podman say of a container or a file. "no such host" is about the engine itself.
_NOT_THERE: Final = (
    "no such container",
    "no container with",
    "could not find the file",
    "could not be found",
)


class ContainerRefused(Exception):
    """The container could not be started."""


class Container:
    """An image in which jobs run, by the command line of Docker, Podman or one like them.

    ``options`` are words for ``docker run``, as ``["--gpus=all", "--memory=8g"]``. All workers of a
    task must reach the same container engine: on one machine, or by ``DOCKER_HOST``.
    """

    def __init__(
        self,
        image: str,
        *,
        options: Sequence[str] = (),
        program: str = "docker",
        python: str = "python",
    ) -> None:
        self.image = image
        self.options: tuple[str, ...] = tuple(options)
        self._program = program
        self._python = python

    async def keys(self, family: str) -> list[str]:
        asked = ("--all", f"--filter=label={FAMILY}={family}", "--format={{.Names}}")
        return (await self._ask("ps", *asked) or b"").decode().split()

    async def start(self, job: EngineJob) -> bool:
        code, _, error = await self._call(
            *("run", "--detach", f"--name={job.key}", f"--label={FAMILY}={job.family}"),
            f"--env={REQUEST}",  # whose value is in the environment, and not in the command line
            *(*self.options, self.image, *program(job.module, REPORT, python=self._python)),
            variables=environment(job),
        )
        if code and "already in use" not in error:
            raise ContainerRefused(f"{self._program} run {self.image}: {error}")
        return not code

    async def report(self, job: EngineJob) -> str:
        await self._follow(job)
        code = await self._ask("wait", job.key)
        if code is None:
            return failure(f"the container {job.key} was removed, and not by duly")
        report = await self._ask("cp", f"{job.key}:{REPORT}", "-")
        await self._ask("rm", "--force", job.key)
        return _file_in(report) or failure(
            f"the container {job.key} ended with {code.decode().strip()} and left no report"
        )

    async def end(self, key: str, grace: timedelta) -> None:
        await self._ask("stop", f"--time={max(1, round(grace.total_seconds()))}", key)
        await self._ask("rm", "--force", key)

    async def _follow(self, job: EngineJob) -> None:
        """Pass on the lines of the container until it ends."""
        async with self._started("logs", "--follow", job.key, limit=LONGEST_LINE) as process:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            async for line in _lines(process.stdout):
                job.heard(line)

    async def _ask(self, *words: str) -> bytes | None:
        """Return the answer; None if there is no such container or file."""
        code, answer, error = await self._call(*words)
        if not code:
            return answer
        if any(said in error.lower() for said in _NOT_THERE):
            return None
        raise EngineUnavailable(f"{self._program} {words[0]} failed: {error}")

    async def _call(
        self, *words: str, variables: dict[str, str] | None = None
    ) -> tuple[int, bytes, str]:
        async with self._started(*words, variables=variables) as process:
            answer, error = await process.communicate()
        return process.returncode or 0, answer, error.decode(errors="replace").strip()

    @asynccontextmanager
    async def _started(
        self, *words: str, variables: dict[str, str] | None = None, limit: int = 1 << 16
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start the command; end it with the block, which does not end the container."""
        merged = words[0] == "logs"
        try:
            process = await asyncio.create_subprocess_exec(
                *(self._program, *words),
                env=os.environ | (variables or {}),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT if merged else asyncio.subprocess.PIPE,
                limit=limit,
            )
        except OSError as error:
            raise EngineUnavailable(f"{self._program} cannot be started: {error}") from None
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Return the lines of a stream; one that is too long comes in pieces."""
    while True:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError as error:
            line = await stream.readexactly(error.consumed)
        if not line:
            return
        yield line.decode(errors="replace").rstrip("\n")


def _file_in(archive: bytes | None) -> str | None:
    """Return the file in a tar archive of one file."""
    if archive is None:
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        file = found.extractfile(found.getmembers()[0])
        return None if file is None else file.read().decode()
