"""What the engines share: the program's command line, its request and its report.

The report is the frame that ends a job in a child process.
"""

import json
from collections.abc import AsyncIterator
from itertools import chain, repeat
from typing import Any, Final

import msgspec

from duly import clock
from duly.engine.executors.process.frames import EndFrame, FailedFrame
from duly.errors import EngineUnavailable, Permanent
from duly.registry.definition import EngineJob

REQUEST: Final = "DULY_REQUEST"  # the environment variable that may hold the request
LONGEST_REQUEST: Final = 100_000  # bytes; Linux passes at most 128 KiB in one variable
PAUSES: Final = (0.5, 1.0, 2.0, 5.0)  # seconds between looks at a remote job


def program(module: str, report: str, *, python: str = "python") -> list[str]:
    """Return the command that runs a job and writes its report to a file."""
    return [python, "-m", "duly.engines.program", "--module", module, "--report", report]


def environment(job: EngineJob) -> dict[str, str]:
    """Return the environment that the program needs; ``Permanent`` if the request is too large."""
    if len(job.request.encode()) > LONGEST_REQUEST:
        raise Permanent(
            f"its arguments are too large for this engine, which takes about "
            f"{LONGEST_REQUEST // 1000} kB: store them elsewhere and pass where they are"
        )
    return {REQUEST: job.request}


def read_json(body: bytes, who: str) -> Any:  # noqa: ANN401 - an answer of an engine
    """Return an answer of an engine; a page of a proxy in between means that it is unavailable."""
    try:
        return json.loads(body)
    except ValueError:
        said = body[:100].decode(errors="replace").strip()
        raise EngineUnavailable(f"{who} answered no JSON: {said}") from None


async def looks() -> AsyncIterator[None]:
    """Yield for each look at a remote job, with pauses between them that grow."""
    for pause in chain(PAUSES, repeat(PAUSES[-1])):
        yield
        await clock.sleep(pause)


def fitted(report: EndFrame, most: int) -> EndFrame:
    """Return the report, or one of at most ``most`` bytes that says what was lost."""
    size = len(msgspec.json.encode(report))
    if size <= most:
        return report
    if isinstance(report, FailedFrame):
        room = most // 8  # one character may take six bytes
        return msgspec.structs.replace(
            report, message=report.message[:room], traceback="(too long: it is in the log)"
        )
    return _failed(
        f"its result takes {size:,} bytes, and this engine keeps {most:,}: store it elsewhere and "
        "return where it is",
        permanent=True,
    )


def failure(message: str) -> str:
    """Return the report of a job whose program could not write one."""
    return msgspec.json.encode(_failed(message, permanent=False)).decode()


def is_report(line: str) -> bool:
    """Return whether a line of the output is the report, and no frame of a log."""
    return line.startswith(('["DoneFrame"', '["FailedFrame"', '["MismatchFrame"'))


def _failed(message: str, *, permanent: bool) -> FailedFrame:
    return FailedFrame("", message, "", permanent, None, not permanent)
