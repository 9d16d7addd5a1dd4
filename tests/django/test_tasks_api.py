"""The backend for Django's Tasks API: what its own package expects of a backend."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest


@pytest.fixture
def api(db: None) -> Any:
    from tests.django.shop import api_tasks

    return api_tasks


def test_a_task_is_a_job_and_its_result_is_read_back(api: Any) -> None:
    from duly.django.testing import jobs, run_jobs

    result = api.add.enqueue(1, b=2)
    assert (result.status, result.args, result.kwargs, result.attempts) == (
        "READY",
        [1],
        {"b": 2},
        0,
    )
    assert [job.title for job in jobs("task:django_task")] == ["tests.django.shop.api_tasks.add"]
    with pytest.raises(ValueError, match="has not finished"):
        _ = result.return_value
    run_jobs()
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 3, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert api.add.get_result(result.id).return_value == 3


def test_priority_queue_and_moment_are_the_jobs(api: Any) -> None:
    from duly.django.testing import jobs, run_jobs

    later = datetime(2037, 1, 1, tzinfo=UTC)
    api.add.using(run_after=later).enqueue(1, 2)
    api.greet.enqueue("ada")
    api.greet.using(priority=-100).enqueue("bob")
    due, *_ = jobs("state:scheduled")
    assert due.due_at == later
    done = [job.result() for job in run_jobs()]
    assert done == ["hello ada", "hello bob"]


def test_a_failed_task_names_its_error(api: Any) -> None:
    from duly.django.testing import run_jobs

    result = api.broken.enqueue()
    run_jobs()
    result.refresh()
    [error] = result.errors
    assert (result.status, error.exception_class) == ("FAILED", KeyError)
    assert "nothing" in error.traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_a_task_gets_its_context_and_signals_are_sent(api: Any) -> None:
    from django_tasks.signals import task_enqueued, task_finished, task_started

    from duly.django.testing import run_jobs

    heard: list[tuple[str, str]] = []

    def hear(signal: Any, task_result: Any, **_: Any) -> None:
        name = {task_enqueued: "enqueued", task_started: "started", task_finished: "finished"}
        heard.append((name[signal], task_result.status))

    for signal in (task_enqueued, task_started, task_finished):
        signal.connect(hear)
    try:
        result = api.attempts.enqueue()
        run_jobs()
    finally:
        for signal in (task_enqueued, task_started, task_finished):
            signal.disconnect(hear)
    result.refresh()
    assert result.return_value == [1, "RUNNING"]
    assert heard == [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]


def test_a_wrong_task_and_an_unknown_result_are_refused(api: Any) -> None:
    from django_tasks.exceptions import (
        InvalidTaskError,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )

    from tests.django.shop.tasks import pack

    with pytest.raises(InvalidTaskError, match="Queue 'unknown' is not valid"):
        api.add.using(queue_name="unknown")
    with pytest.raises(InvalidTaskError, match="between -100 and 100"):
        api.add.using(priority=101)
    with pytest.raises(InvalidTaskError, match="aware datetime"):
        api.add.using(run_after=datetime(2037, 1, 1))  # noqa: DTZ001
    for wrong in ("x", "1", str(pack.enqueue(1).id)):
        with pytest.raises(TaskResultDoesNotExist):
            api.add.get_result(wrong)
    with pytest.raises(TaskResultMismatch):
        api.add.get_result(api.broken.enqueue().id)
    with pytest.raises(TypeError, match="Unsupported type"):
        api.add.enqueue(timedelta(1), 2)


def test_async_callers_and_rolled_back_transactions(api: Any) -> None:
    from asgiref.sync import async_to_sync
    from django.db import transaction

    from duly.django.testing import jobs, run_jobs

    async def view() -> Any:
        result = await api.greet.aenqueue("ada")
        await result.arefresh()
        return result

    result = async_to_sync(view)()
    with transaction.atomic():
        api.add.enqueue(1, 2)
        transaction.set_rollback(True)
    assert len(jobs("task:django_task")) == 1
    run_jobs()
    assert api.greet.get_result(result.id).return_value == "hello ada"
