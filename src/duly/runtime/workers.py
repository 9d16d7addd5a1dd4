"""Makes workers for an app: options, executors and the store."""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, TypedDict, Unpack

from duly.engine.executors import Executor
from duly.engine.executors.in_process import CoroutineExecutor, ThreadExecutor
from duly.engine.executors.process.pool import ProcessExecutor, ProcessPool
from duly.engine.journal_writer import JournalWriter
from duly.engine.lease import LEASE, PATIENCE
from duly.engine.runner import ALONE
from duly.engine.worker import StopConditions, Worker, WorkerOptions
from duly.events import Emit, ignore_event
from duly.instants import EPOCH
from duly.model.claimed import Claimed
from duly.model.outcome import Succeeded
from duly.model.payload import Json
from duly.policy.verdict import Tried, judge
from duly.registry.definition import Definition
from duly.registry.option_values import (
    Duration,
    length_of,
    memory_of,
    names_of,
    needs_of,
    refuse_unknown,
)
from duly.registry.registry import JobTransaction, Registry
from duly.settings import Settings
from duly.settings.tables import TargetSettings
from duly.store.completing import open_completion
from duly.store.connect import connect
from duly.store.store import Store
from duly.store.values import Settlement


def make_worker(
    store: Store,
    registry: Registry,
    options: WorkerOptions,
    *,
    url: str | None,
    target: str | None,
    on_stop: Callable[[], None],
    emit: Emit = ignore_event,
) -> Worker:
    """Make a worker on an open store.

    ``url`` is for the connection of its heartbeat. ``target`` is what a child process imports to
    find the same tasks; without one there are no child processes.
    """

    async def heart() -> Store:
        # Orders come from duly's own processes, which tell of them.
        apart = connect(url or "", create=False, deadline=PATIENCE, watches=False)
        await apart.open()
        return apart

    def executors(journal: JournalWriter) -> dict[str, Executor]:
        found: dict[str, Executor] = {"async": CoroutineExecutor(), "thread": ThreadExecutor()}
        if target is not None:
            found |= _processes(target, options, url=url, journal=journal, emit=emit)
        return found

    def transaction(job: Claimed, definition: Definition) -> JobTransaction:
        return completion(url or ":memory:", job, definition, lease=options.lease)

    registry.completion = registry.completion or completion
    return Worker(
        store,
        registry,
        options,
        executors=executors,
        dice=random.random,
        on_stop=on_stop,
        connect=None if url is None or url == ":memory:" else heart,
        transaction=transaction,
        emit=emit,
    )


def allow_builtin(
    registry: Registry,
    allowed: Sequence[str],
    *,
    networks: Sequence[str] = (),
    secrets: Sequence[str] = (),
    targets: Sequence[TargetSettings] = (),
) -> None:
    """Let the worker run the built-in tasks that its operator allows."""
    if allowed:
        from duly.builtin import definitions  # noqa: PLC0415 - for those who allow it
        from duly.targets import open_targets  # noqa: PLC0415

        found = open_targets(targets, networks=networks, secrets=secrets)
        for one in definitions(allowed, networks=networks, secrets=secrets, targets=found):
            registry.add(one, local=True)


def _processes(
    target: str, options: WorkerOptions, *, url: str | None, journal: JournalWriter, emit: Emit
) -> dict[str, Executor]:
    pool = ProcessPool(
        target=target,
        size=options.children or os.cpu_count() or 1,
        recycle_jobs=options.recycle_jobs,
        recycle_bytes=options.recycle_bytes,
        emit=emit,
    )
    # A new child for each job: such a job may damage its process.
    isolated = ProcessPool(target=target, size=options.concurrency, recycle_jobs=1, emit=emit)
    return {
        "process": ProcessExecutor(pool, listener=journal, url=url, lease=options.lease),
        ALONE: ProcessExecutor(isolated, listener=journal, url=url, lease=options.lease),
    }


def completion(
    url: str, job: Claimed, definition: Definition, *, lease: timedelta
) -> JobTransaction:
    """Open a transaction in which a task completes its job, on a connection of its own."""

    def settlement(result: Json | None) -> Settlement:
        # A success needs neither a moment nor dice.
        verdict = judge(Tried.of(job, definition.retry), Succeeded(result), EPOCH, dice=0.0)
        return Settlement(
            job=job,
            verdict=verdict,
            outcome="succeeded",
            result=result,
            keep_result=job.terms.kept,
        )

    return open_completion(
        url, settlement=settlement, encode=definition.signature.encode_result, lease=lease
    )


LONGEST: Final = timedelta(days=366)


class WorkerWords(TypedDict, total=False):
    """The options of a worker as users write them."""

    name: str
    queues: Sequence[str]
    concurrency: int
    children: int | None
    resources: Mapping[str, int]
    lease: Duration
    recycle_jobs: int | None
    recycle_memory: str | None
    burst: bool
    max_jobs: int | None
    max_idle: Duration | None


def worker_words(settings: Settings) -> WorkerWords:
    """Return the options of workers from the settings."""
    return {
        "queues": settings.queues,
        "concurrency": settings.concurrency,
        "lease": settings.lease,
    }


def worker_options(
    *, dedicated: bool, verbose: bool = False, **words: Unpack[WorkerWords]
) -> WorkerOptions:
    refuse_unknown(words, WorkerWords.__annotations__, who="a worker")
    idle, memory = words.get("max_idle"), words.get("recycle_memory")
    return WorkerOptions(
        name=words.get("name", ""),
        queues=names_of("queues", words.get("queues", ("default",))),
        concurrency=words.get("concurrency", 10),
        children=words.get("children"),
        resources=needs_of(words.get("resources", {})),
        lease=length_of("lease", words.get("lease", LEASE), longest=LONGEST),
        recycle_jobs=words.get("recycle_jobs"),
        recycle_bytes=None if memory is None else memory_of(memory),
        conditions=StopConditions(
            burst=words.get("burst", False),
            max_jobs=words.get("max_jobs"),
            max_idle=None if idle is None else length_of("max_idle", idle, longest=LONGEST),
        ),
        dedicated=dedicated,
        verbose=verbose,
    )
