"""The report of a remote job: the frame that ends a job in a child process."""

from typing import Final

import msgspec

from duly.engine.executors.process.frames import EndFrame, FailedFrame

REQUEST: Final = "DULY_REQUEST"  # the environment variable that may hold the request
LONGEST_REQUEST: Final = 100_000  # bytes; Linux passes at most 128 KiB in one variable


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


def failure(message: str, *, permanent: bool = False) -> str:
    """Return the report of a job whose program could not write one."""
    return msgspec.json.encode(_failed(message, permanent=permanent)).decode()


def is_report(line: str) -> bool:
    """Return whether a line of the output is the report, and no frame of a log."""
    return line.startswith(('["DoneFrame"', '["FailedFrame"', '["MismatchFrame"'))


def too_large(what: str) -> str:
    """Return the report of a job whose request does not fit into an environment variable."""
    return failure(
        f"its arguments are too large for {what}, which takes about {LONGEST_REQUEST // 1000} kB: "
        "store them elsewhere and pass where they are",
        permanent=True,
    )


def _failed(message: str, *, permanent: bool) -> FailedFrame:
    return FailedFrame("", message, "", permanent, None, not permanent)
