"""RQ as target: a function by name, and callbacks that RQ's worker runs when it has ended.

The callbacks import this module and use the settings there (``DULY_URL`` or duly.toml), so duly
must be installed where RQ's workers run.
"""

from functools import cache, cached_property
from importlib import import_module
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from rq import Callback, Queue
from rq.exceptions import NoSuchJobError
from rq.job import Job as RqJob

from duly.builtin.send import OutgoingMessage
from duly.model.outcome import MessageId
from duly.targets.configured import PATIENCE_SECONDS, ConfiguredTarget, in_thread
from duly.targets.reporting import OutcomeReporter


class RqTarget(ConfiguredTarget):
    async def send(self, message: OutgoingMessage) -> None:
        await in_thread((RedisError,), self._send, message)

    async def revoke(self, message: MessageId) -> bool:
        return await in_thread((RedisError,), self._cancel, message)

    def _send(self, message: OutgoingMessage) -> None:
        options = dict(message.options)
        name = options.pop("queue", self.settings.queue or "default")
        if self.reports:
            options |= {
                "on_success": Callback("duly.targets.rq.report_success"),
                "on_failure": Callback("duly.targets.rq.report_failure"),
                "on_stopped": Callback("duly.targets.rq.report_stopped"),
            }
        Queue(name, connection=self._redis).enqueue_call(
            message.task, message.args, message.kwargs, job_id=str(message.id), **options
        )

    def _cancel(self, message: MessageId) -> bool:
        try:
            RqJob.fetch(str(message), connection=self._redis).cancel()
        except NoSuchJobError:
            return False
        return True

    @cached_property
    def _redis(self) -> Redis:
        patience = {"socket_timeout": PATIENCE_SECONDS, "socket_connect_timeout": PATIENCE_SECONDS}
        return Redis.from_url(self.url, **patience)


def report_success(job: Any, _connection: object, result: object, *_: object) -> None:  # noqa: ANN401
    _reporter().succeeded(job.id, result)


def report_failure(
    job: Any,  # noqa: ANN401
    _connection: object,
    _kind: object,
    value: BaseException,
    _traceback: object,
) -> None:
    if not job.retries_left:  # RQ runs it again otherwise
        _reporter().failed(job.id, value)


def report_stopped(job: Any, _connection: object) -> None:  # noqa: ANN401
    _reporter().failed(job.id, "Stopped: it was stopped in RQ")


@cache
def _reporter() -> OutcomeReporter:
    # By name: the package app is above this one.
    return OutcomeReporter(import_module("duly.app").Duly())
