"""``shell`` and ``command``: a program as a job.

Its output goes into the job's log (stderr as warnings), and its exit status decides: 0 is success.
Not found and not executable (126, 127) are permanent failures, every other status is an error that
is retried as the job says. When the job is cancelled or times out, the program ends with everything
it has started; processes that it leaves in the background are ended too.

The program sees few of the worker's environment variables: they are not for everybody who may write
a schedule. Further ones are given in ``env``.
"""

import errno
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from duly.builtin import job
from duly.builtin.process_group import Output, ProcessGroup, ProgramCall
from duly.errors import Permanent

GRACE: Final = timedelta(seconds=5)  # between SIGTERM and SIGKILL
INHERITED: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "TMPDIR"})
LAST_LINES: Final = 10

_LOCALE = "LC_"
_NOT_EXECUTABLE, _NOT_FOUND, _SIGNALLED = 126, 127, 128
_MEANINGS = {
    _NOT_EXECUTABLE: "a command is not executable",
    _NOT_FOUND: "a command was not found",
}
# Errors of a start that a retry would repeat. (Lack of memory or processes may pass.)
_HOPELESS = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG, errno.ENOTDIR)


class CommandFailed(Exception):
    """A program has not exited with 0."""


async def shell(
    line: str,
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
) -> dict[str, object]:
    """Run a line with ``/bin/sh -c``, with pipes, redirections and ``&&``."""
    if not line.strip():
        raise Permanent("shell: the line is empty; it is what /bin/sh is to do")
    return await _run(["/bin/sh", "-c", line], cwd=cwd, env=env, stdin=stdin)


async def command(
    argv: list[str],
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
) -> dict[str, object]:
    """Run a program with arguments, without a shell: nothing is expanded or split."""
    if not argv or not argv[0]:
        raise Permanent('command: no program is named; say ["/srv/backup", "--full"]')
    return await _run(argv, cwd=cwd, env=env, stdin=stdin)


async def _run(
    argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str] | None, stdin: str | None
) -> dict[str, object]:
    _check_folder(cwd)
    async with Output(job.log()) as output:
        variables = environment(os.environ, env or {})
        with _refusals(argv, variables), _readable(stdin) as given:
            out, err = output.ends
            asked = ProgramCall(
                argv=argv,
                cwd=cwd,
                environment=variables,
                stdin=given,
                stdout=out,
                stderr=err,
            )
            group = await ProcessGroup.start(asked, grace=GRACE.total_seconds())
        status = await _to_its_end(group, output)
    if status:
        raise _failure(status, output.tail)
    return {"exit": 0, "tail": output.tail}


async def _to_its_end(group: ProcessGroup, output: Output) -> int:
    async with group:
        output.hand_over()
        status = await group.ended()
        await output.silence()
        if await group.is_alive():
            job.log().warning("what it left running in the background is ended with it")
    return status


def environment(worker: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program: part of the worker's, the job's facts, ``env``."""
    inherited = {
        name: value
        for name, value in worker.items()
        if name in INHERITED or name.startswith(_LOCALE)
    }
    return {**inherited, **job.variables(), **said}


def _check_folder(cwd: str | None) -> None:
    if cwd is not None and not Path(cwd).is_dir():
        raise Permanent(
            f'cwd="{cwd}": there is no such folder where this worker runs ({socket.gethostname()})'
        )


@contextmanager
def _readable(stdin: str | None) -> Iterator[int]:
    """Open a file with the input: unlike a pipe, it needs nobody to feed it."""
    if stdin is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(stdin.encode())
        file.seek(0)
        yield file.fileno()


@contextmanager
def _refusals(argv: Sequence[str], given: Mapping[str, str]) -> Iterator[None]:
    """Explain why a program cannot be started; permanent where a retry would not help."""
    try:
        yield
    except ValueError as error:  # a NUL in an argument, an "=" in the name of a variable
        raise Permanent(f"{argv[0]}: it cannot be started with these words: {error}") from None
    except OSError as error:
        if error.errno not in _HOPELESS:
            raise
        path = os.get_exec_path(given)
        raise Permanent(_why_not_started(argv[0], error, path)) from None


def _why_not_started(program: str, error: OSError, path: Sequence[str]) -> str:
    match error.errno:
        case errno.ENOENT:
            hint = "nor is what its first line names" if Path(program).exists() else "see PATH"
            return f"exit {_NOT_FOUND}: {program}: it was not found; {hint}"
        case errno.EACCES if "/" not in program and not _is_on(path, program):
            # A folder on the PATH may not be searched, or holds a folder of that name.
            return f"exit {_NOT_FOUND}: {program}: it was not found; see PATH{_unsearchable(path)}"
        case errno.ENOEXEC:
            return f"exit {_NOT_EXECUTABLE}: {program}: it is no program; a script begins with #!"
        case _:
            return f"exit {_NOT_EXECUTABLE}: {program}: not executable: {error.strerror}"


def _is_on(path: Sequence[str], program: str) -> bool:
    """Return whether a file of that name exists, executable or not."""
    return shutil.which(program, os.F_OK, os.pathsep.join(path)) is not None


def _unsearchable(path: Sequence[str]) -> str:
    closed = [folder for folder in path if _is_closed(folder)]
    return f", of which {', '.join(closed)} may not be searched" if closed else ""


def _is_closed(folder: str) -> bool:
    try:
        os.stat(f"{folder}/.")  # noqa: PTH116 - a Path would drop the dot
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def _failure(status: int, tail: str) -> Exception:
    """Return the error of a failed program; lists show only its first line."""
    lines = tail.splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "")
    message = f"{_how(status)}: {last}" if last else _how(status)
    if len(lines) > 1:
        message = "\n".join([message, "", "Its last lines:", *lines[-LAST_LINES:]])
    return Permanent(message) if status in _MEANINGS else CommandFailed(message)


def _how(status: int) -> str:
    if status < 0:
        return f"killed by {_signal(-status)}"
    if status in _MEANINGS:
        return f"exit {status} ({_MEANINGS[status]})"
    if status > _SIGNALLED and (name := _signal(status - _SIGNALLED)).startswith("SIG"):
        return f"exit {status} (as shells say of {name})"
    return f"exit {status}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
