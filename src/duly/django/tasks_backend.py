"""A backend for Django's Tasks API, of ``django.tasks`` (6.0) or of the package ``django-tasks``.

    TASKS = {"default": {"BACKEND": "duly.django.tasks_backend.DulyBackend"}}

A task of that API runs as a job of the task ``django_task``, which finds the function by its import
path: packages that know nothing of duly need not be declared anywhere. There are no retries, as the
API has none. The number of the job is the id of the result.
"""

import json
import re
from datetime import datetime
from traceback import format_exception
from typing import Any, Final

from django.conf import settings
from django.utils.module_loading import import_string
from django.utils.timezone import make_naive

from duly.django.app import duly
from duly.errors import NotFound
from duly.model.job import StoredJob
from duly.model.payload import decode
from duly.model.states import ENDED, State
from duly.registry.context import current

try:
    from django.tasks import Task, TaskContext, TaskResult, TaskResultStatus
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TaskError
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
except ImportError:
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started

_STATUSES: Final = {
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
}
_ERROR: Final = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(:|$)")


class DulyBackend(BaseTaskBackend):
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Enqueue a job in the current transaction."""
        self.validate_task(task)
        asked = django_task.using(
            queue=task.queue_name, priority=task.priority, run_after=_aware(task.run_after)
        )
        job = asked.enqueue(task.module_path, _plain(args), _plain(kwargs), self.alias)
        result = self.get_result(str(job.id))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        try:
            number = int(result_id)
            job = duly.project_store.call(lambda store: store.jobs.get(number), async_name="")
        except (ValueError, NotFound):
            raise TaskResultDoesNotExist(result_id) from None
        if job.task != django_task.name:
            raise TaskResultDoesNotExist(result_id)
        return result_of(job)


@duly.task(title="{function}", retry=None)
def django_task(
    function: str,  # noqa: ARG001 - read from the job, with everything else
    args: list[Any],
    kwargs: dict[str, Any],
    backend: str,  # noqa: ARG001
) -> Any:
    """Run a task of Django's Tasks API."""
    context = current()
    result = result_of(context.job)
    sender = type(result.task.get_backend())
    task_started.send(sender, task_result=result)
    given = [TaskContext(task_result=result), *args] if result.task.takes_context else args
    try:
        returned = _plain(result.task.call(*given, **kwargs))
    except BaseException as error:
        told = TaskError(
            exception_class_path=f"{type(error).__module__}.{type(error).__qualname__}",
            traceback="".join(format_exception(error)),
        )
        _set(result, status=TaskResultStatus.FAILED, errors=[told])
        task_finished.send(sender, task_result=result)
        raise
    _set(result, status=TaskResultStatus.SUCCESSFUL, _return_value=returned)
    task_finished.send(sender, task_result=result)
    return returned


def result_of(job: StoredJob) -> TaskResult:
    """Return a job as a result of the Tasks API."""
    said = decode(job.args)
    task = import_string(said["function"]).using(
        priority=job.priority,
        queue_name=job.queue,
        backend=said["backend"],
        run_after=_as_given(job.due_at) if job.due_at > job.created_at else None,
    )
    failed = job.state in ENDED and job.state is not State.SUCCEEDED
    status = TaskResultStatus.FAILED if failed else _STATUSES.get(job.state, TaskResultStatus.READY)
    result = TaskResult(
        task=task,
        id=str(job.id),
        status=status,
        enqueued_at=job.created_at,
        started_at=job.claimed_at,
        finished_at=job.ended_at,
        last_attempted_at=job.claimed_at,
        args=said["args"],
        kwargs=said["kwargs"],
        backend=said["backend"],
        errors=[_error(job)] if failed else [],
        worker_ids=[] if job.worker is None else [str(job.worker)] * max(job.attempt, 1),
    )
    if job.state is State.SUCCEEDED:
        _set(result, _return_value=json.loads(job.result or "null"))
    return result


def _error(job: StoredJob) -> TaskError:
    """Return the error of a failed job; its class is named in the last line of the traceback."""
    text = (job.error or job.reason).strip()
    found = _ERROR.match(text.splitlines()[-1] if text else "")
    name = found["name"] if found and job.error else "duly.errors.JobFailed"
    path = name if "." in name else f"builtins.{name}"
    return TaskError(exception_class_path=path, traceback=f"{text}\n")


def _plain(value: Any) -> Any:
    """Return the value in JSON types, as the Tasks API wants arguments and results."""
    match value:
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case bytes():
            return value.decode()
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case str() | int() | float() | None:
            return value
        case _:
            raise TypeError(f"Unsupported type: {type(value)}")


def _aware(moment: Any) -> Any:
    """Return the moment with the zone of the project, if it has none (USE_TZ = False)."""
    return moment if moment is None or moment.tzinfo else moment.astimezone()


def _as_given(moment: datetime) -> datetime:
    """Return the moment as Django's settings want moments."""
    return moment if settings.USE_TZ else make_naive(moment)


def _set(result: TaskResult, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)
