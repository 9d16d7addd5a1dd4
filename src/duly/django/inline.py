"""Run ready jobs in the caller's thread, on its connection: inline mode, and the tests of users.

A real worker runs them. Its loop runs in this thread, and stands still while a task runs: a task
uses the connection, the patches and the thread locals of its caller.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from asgiref.sync import async_to_sync

from duly.connection import is_on_a_loop
from duly.engine.execution import Execution
from duly.engine.executors import OnEnd
from duly.engine.executors.in_process import ThreadExecutor, ThreadWork
from duly.errors import InvalidValue
from duly.registry.registry import Registry
from duly.store.caller_connection import store_on
from duly.store.store import Store
from duly.testing.sandbox.worker import LocalExecutor, WorkSession

T = TypeVar("T")

BATCH = 1_000


def run_ready(connection: Any, registry: Registry, *, raising: bool = False) -> list[int]:
    """Run the jobs that are ready, and those that they make ready; return their numbers."""
    if is_on_a_loop():
        raise InvalidValue("jobs cannot run inline on an event loop: use sync_to_async")
    connection.ensure_connection()
    store = store_on(connection.connection)
    hands = CallersLoop()
    session = InlineSession(store, registry, plain=hands, raising=raising)
    hands.drive(_work(store, session))
    if session.error is not None:
        raise session.error
    return session.started


async def _work(store: Store, session: WorkSession) -> None:
    await store.maintenance.dispatch(limit=BATCH)  # jobs that were for later, and are due by now
    await session.work()


class InlineSession(WorkSession):
    """Jobs that run where they were enqueued. Other workers may use the same database."""

    name = "inline"
    lease: timedelta = timedelta(hours=1)  # there is no heartbeat while a job runs

    @staticmethod
    def executor(plain: ThreadExecutor, *, raising: bool) -> LocalExecutor:
        return InlineExecutor(plain, raising=raising)


class InlineExecutor(LocalExecutor):
    """Runs jobs on the connection of this thread, which stays open.

    Coroutines are run as plain functions: their ``sync_to_async`` comes back to this thread.
    """

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:
        function = inspect.getattr_static(run.definition.function, "__wrapped__")
        if run.definition.is_async:
            function = async_to_sync(function)
        run.definition = replace(run.definition, function=function, is_async=False)
        super().start(run, arguments, over)


class CallersLoop(ThreadExecutor):
    """Runs a loop in the caller's thread, and plain functions between its turns.

    Then no loop runs, which Django asks for, and nothing else happens on the connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self._submitted = asyncio.Event()

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            task = loop.create_task(work)
            while True:
                loop.run_until_complete(self._until_submitted(task))
                while not self._waiting.empty():
                    call = self._waiting.get()
                    if call is not None:
                        call()
                if task.done():
                    return task.result()

    async def _until_submitted(self, task: "asyncio.Task[T]") -> None:
        waiter = asyncio.ensure_future(self._submitted.wait())
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        self._submitted.clear()

    def _submit(self, work: ThreadWork) -> None:
        self._waiting.put(work)
        self._submitted.set()
