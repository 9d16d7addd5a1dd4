"""Waits for a job that runs on an engine.

The key of the remote job is made of the job, its try and its arguments. ``attempt - crashes`` is
the number of the try: an attempt that was lost with its worker, or given back by a worker that
stops, is followed by one of the same try, which finds the remote job by its key; one that failed is
followed by the next try. The moment of creation and the arguments are part of the key because two
databases may use one engine, and because a job may be given other arguments, or be retried from
its first try.
"""

import asyncio
from datetime import timedelta
from hashlib import blake2s

import msgspec

from duly import clock
from duly.clock import boottime
from duly.engine.execution import Execution, StopReason
from duly.engine.executors.process.frames import (
    DoneFrame,
    FailedFrame,
    LogFrame,
    MismatchFrame,
    ProgressFrame,
    RunRequest,
    facts_of,
    outcome_of,
)
from duly.errors import EngineUnavailable
from duly.instants import to_us
from duly.model.job import Claimed
from duly.model.outcome import Completed, Outcome, Raised
from duly.model.payload import Json
from duly.registry.annotations import plain
from duly.registry.definition import Engine, EngineJob

# How long an engine may be unavailable before the attempt fails.
PATIENCE = timedelta(minutes=5)
PAUSES = (1.0, 2.0, 5.0, 10.0)  # seconds between calls of an engine that is unavailable


async def run_on(engine: Engine, run: Execution) -> Outcome | Completed:
    """Run the job on the engine; end its remote job if the job is cancelled or times out.

    A worker that stops or has lost its lease leaves the remote job to the next one.
    """
    job = _described(run)
    if job.module == "__main__":
        return Raised("", _IN_A_SCRIPT.format(task=job.task), permanent=True)
    try:
        said = await _reported(engine, job)
    except asyncio.CancelledError:
        if run.why in (StopReason.CANCELLED, StopReason.EXPIRED):
            await _end(engine, job)
        raise
    try:
        return outcome_of(_REPORT.decode(said))
    except msgspec.MsgspecError as error:
        return Raised("", f"the remote job {job.key} ended without a readable report: {error}")


def _described(run: Execution) -> EngineJob:
    job, definition = run.job, run.definition
    family = family_of(job.id, job.created_at, job.task)
    request = RunRequest(
        task=job.task,
        args=job.args,
        facts=facts_of(job),
        timeout=run.timeout,
        grace=definition.grace,
    )
    return EngineJob(
        key=f"{family}{_try(job)}-{_digest(job.args)}",
        family=family,
        task=job.task,
        module=plain(definition.function).__module__,
        request=msgspec.json.encode(request).decode(),
        timeout=run.timeout,
        grace=definition.grace,
        heard=lambda line: _hear(run, line),
        note=lambda text: run.log_line(to_us(clock.now()), "info", text),
    )


def family_of(number: int, created_at: int, task: str) -> str:
    """Return the beginning of the keys of all tries of a job."""
    return f"duly-{number}-{_digest(str(created_at), task)}-"


def _try(job: Claimed) -> int:
    return max(1, job.attempt - job.crashes)


def _digest(*parts: str) -> str:
    return blake2s("\0".join(parts).encode(), digest_size=5).hexdigest()


async def _reported(engine: Engine, job: EngineJob) -> str:
    """Call the engine until it answers, or until it was unavailable for too long."""
    pauses = iter(PAUSES)
    since = boottime()
    while True:
        began = boottime()
        try:
            return await run_remote(engine, job)
        except EngineUnavailable as error:
            failed = boottime()
            if failed - began > PAUSES[-1] * 2:  # it was available meanwhile
                pauses, since = iter(PAUSES), failed
            if failed - since > PATIENCE.total_seconds():
                raise
            job.note(f"{error}; trying again")
            await clock.sleep(next(pauses, PAUSES[-1]))


async def run_remote(engine: Engine, job: EngineJob) -> str:
    """Start the remote job, or find it again; return its report. A job has at most one of them."""
    for key in await engine.keys(job.family):
        if key != job.key:
            await engine.end(key, job.grace)
    is_new = await engine.start(job)
    job.note(f"{type(engine).__name__} job {job.key}: {'started' if is_new else 'found again'}")
    return await engine.report(job)


async def _end(engine: Engine, job: EngineJob) -> None:
    try:
        await engine.end(job.key, job.grace)
    except Exception as error:  # noqa: BLE001 - the job is stopped, whatever the engine says
        job.note(f"the remote job {job.key} may still run: {error}")


def _hear(run: Execution, line: str) -> None:
    """Pass on a line of the remote job: a frame of our program, or its plain output."""
    try:
        frame = _LINE.decode(line)
    except msgspec.MsgspecError:
        run.log_line(to_us(clock.now()), "stdout", line)
        return
    match frame:
        case LogFrame():
            run.log_line(frame.at_us, frame.level, frame.text)
        case ProgressFrame():
            meta = None if frame.meta is None else Json(frame.meta)
            run.progress(frame.percent, frame.message, meta)


_LINE: msgspec.json.Decoder[LogFrame | ProgressFrame] = msgspec.json.Decoder(
    LogFrame | ProgressFrame
)
_REPORT: msgspec.json.Decoder[DoneFrame | FailedFrame | MismatchFrame] = msgspec.json.Decoder(
    DoneFrame | FailedFrame | MismatchFrame
)
_IN_A_SCRIPT = (
    "an engine imports the module that declares the task, and {task} is declared in a script: "
    "declare it in a module, and start workers with duly worker"
)
