"""Ray as an engine: a job is a job of a Ray cluster, submitted under its key.

The HTTP API of the cluster's dashboard is all that is needed. It refuses a second submission under
the same id, which is how the next worker finds the first one. The program writes its report as a
line of its output.
"""

import asyncio
import http.client
import json
import shlex
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from duly import clock
from duly.engines.report import (
    PAUSES,
    environment,
    failure,
    is_report,
    looks,
    program,
    read_json,
)
from duly.errors import EngineUnavailable, InvalidValue
from duly.registry.definition import EngineJob

ANSWER_SECONDS: Final = 10.0
MOST_OUTPUT: Final = 64 * 1024 * 1024  # bytes; Ray returns the whole output at every look
# Ray looks at each job every second, and writes down once more that it has ended.
SETTLED_SECONDS: Final = 2.0
ENDED: Final = ("SUCCEEDED", "FAILED", "STOPPED")


class RayRefused(Exception):
    """The cluster refused a request."""


class Ray:
    """A Ray cluster, by the address of its dashboard: ``Ray("http://head:8265")``.

    ``options`` are fields of the submission, as ``{"entrypoint_num_gpus": 1}``; ``runtime_env`` is
    Ray's; ``headers`` are sent with each request, as a token. ``python`` is that of the application
    on the cluster.
    """

    def __init__(
        self,
        address: str,
        *,
        options: Mapping[str, Any] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        python: str = "python",
    ) -> None:
        if not address.startswith(("http://", "https://")):
            raise InvalidValue(f'Ray("{address}"): expected an address, as "http://head:8265"')
        self._address = address.rstrip("/")
        self._options = dict(options or {})
        self._runtime_env = dict(runtime_env or {})
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._python = python

    async def keys(self, family: str) -> list[str]:
        names = [str(one["submission_id"] or "") for one in await self._ask("GET", "")]
        return [name for name in names if name.startswith(family)]

    async def start(self, job: EngineJob) -> bool:
        variables = {
            **self._runtime_env.get("env_vars", {}),
            **environment(job),
            "RAY_JOB_STOP_WAIT_TIME_S": str(max(1, round(job.grace.total_seconds()))),
        }
        status, answer = await self._call(
            "POST",
            "",
            {
                **self._options,
                "submission_id": job.key,
                "entrypoint": f"exec {shlex.join(program(job.module, '-', python=self._python))}",
                "runtime_env": {**self._runtime_env, "env_vars": variables},
                "metadata": {"duly_task": job.task},
            },
        )
        is_known = b"already exists" in answer
        if status != 200 and not is_known:
            raise RayRefused(f"Ray answered {status}: {_end_of(answer)}")
        return not is_known

    async def report(self, job: EngineJob) -> str:
        report, read = None, 0
        async for _ in looks():
            # In this order: the output of a job that has ended is complete.
            found = await self._ask("GET", job.key)
            if found is None:
                return failure(f"Ray does not know the job {job.key} any more")
            output = await self._output(job.key)
            lines = output.split("\n")[:-1]
            for line in lines[read:]:
                if is_report(line):
                    report = line
                else:
                    job.heard(line)
            read = max(read, len(lines))
            if found["status"] in ENDED:
                await self._forget(job.key)
                return report or failure(f"Ray: {found['message']}")
        raise AssertionError("unreachable")

    async def end(self, key: str, grace: timedelta) -> None:  # noqa: ARG002 - Ray knows the grace
        await self._ask("POST", f"{key}/stop")
        while (found := await self._ask("GET", key)) is not None and found["status"] not in ENDED:
            await clock.sleep(PAUSES[0])
        await self._forget(key)

    async def _output(self, name: str) -> str:
        """Return all output of a job; nothing while Ray cannot tell."""
        status, answer = await self._call("GET", f"{name}/logs")
        return str(read_json(answer, "Ray")["logs"]) if status == 200 else ""

    async def _forget(self, name: str) -> None:
        """Let Ray forget a job that has ended: a retry by hand may use the name again."""
        await clock.sleep(SETTLED_SECONDS)
        await self._ask("DELETE", name)

    async def _ask(self, method: str, path: str) -> Any:  # noqa: ANN401 - JSON of Ray
        """Return the answer; None if there is no such job."""
        status, answer = await self._call(method, path)
        if status == 404:
            return None
        if status != 200:
            raise EngineUnavailable(f"Ray answered {status}: {_end_of(answer)}")
        return read_json(answer, "Ray")

    async def _call(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - of http or https
            f"{self._address}/api/jobs/{path}", data, self._headers, method=method
        )
        return await asyncio.to_thread(_response, request)


def _response(request: urllib.request.Request) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
            return answer.status, answer.read(MOST_OUTPUT)
    except urllib.error.HTTPError as error:
        return error.code, error.read(MOST_OUTPUT)
    except (OSError, http.client.HTTPException) as error:
        raise EngineUnavailable(f"the Ray cluster is unavailable: {error}") from None


def _end_of(answer: bytes) -> str:
    """Return the end of an answer: Ray sends a traceback, and the reason is below it."""
    return answer.decode(errors="replace").strip()[-300:]
