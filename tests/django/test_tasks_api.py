"""The backend for Django's Tasks API: what its own package expects of a backend."""

from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from tests.django.settings import TASKS_API

SIGNALS = ("enqueued", "started", "finished")


def part(name: str) -> Any:
    """Return a module of the Tasks API."""
    return import_module(f"{TASKS_API}.{name}")


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
    from duly.django.testing import run_jobs

    heard: list[tuple[str, str]] = []
    names = {getattr(part("signals"), f"task_{name}"): name for name in SIGNALS}

    def hear(signal: Any, task_result: Any, **_: Any) -> None:
        heard.append((names[signal], task_result.status))

    for signal in names:
        signal.connect(hear)
    try:
        result = api.attempts.enqueue()
        run_jobs()
    finally:
        for signal in names:
            signal.disconnect(hear)
    result.refresh()
    assert result.return_value == [1, "RUNNING"]
    assert heard == [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]


def test_a_wrong_task_and_an_unknown_result_are_refused(api: Any) -> None:
    from tests.django.shop.tasks import pack

    refused = part("exceptions")
    wrong_task = getattr(refused, "InvalidTask", None) or refused.InvalidTaskError
    with pytest.raises(wrong_task, match="Queue 'unknown' is not valid"):
        api.add.using(queue_name="unknown")
    with pytest.raises(wrong_task, match="between -100 and 100"):
        api.add.using(priority=101)
    with pytest.raises(wrong_task, match="aware datetime"):
        api.add.using(run_after=datetime(2037, 1, 1))  # noqa: DTZ001
    for wrong in ("x", "1", str(pack.enqueue(1).id)):
        with pytest.raises(refused.TaskResultDoesNotExist):
            api.add.get_result(wrong)
    with pytest.raises(refused.TaskResultMismatch):
        api.add.get_result(api.broken.enqueue().id)
    with pytest.raises(TypeError, match="Unsupported type"):
        api.add.enqueue(timedelta(1), 2)


def test_a_task_is_checked_against_the_settings_of_its_backend(api: Any) -> None:
    from django.conf import settings
    from django.test import override_settings

    backend = settings.TASKS["default"]
    refused = part("exceptions")
    wrong_task = getattr(refused, "InvalidTask", None) or refused.InvalidTaskError
    with (
        override_settings(TASKS={"default": {**backend, "QUEUES": ["mail"]}}),
        pytest.raises(wrong_task, match="Queue 'default' is not valid"),
    ):
        api.add.enqueue(1, 2)
    with override_settings(TASKS={"default": backend, "second": backend}):
        result = api.add.using(backend="second").enqueue(1, 2)
        assert api.add.using(backend="second").get_result(result.id).backend == "second"


def test_a_moment_without_a_zone_is_local_time_where_django_has_no_zones(api: Any) -> None:
    from django.test import override_settings

    from duly.django.testing import jobs

    local = datetime(2037, 1, 1, 12)  # noqa: DTZ001
    with override_settings(USE_TZ=False):
        api.add.using(run_after=local).enqueue(1, 2)
    assert [job.due_at for job in jobs("state:scheduled")] == [local.astimezone()]


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


# What the tests of django-tasks itself (of its dummy and its immediate backend) expect of any
# backend, beside what stands above.


@pytest.mark.parametrize("name", ["nothing", "nothing_async"])
def test_a_new_result_and_a_finished_one_have_every_field(api: Any, name: str) -> None:
    from duly.django.testing import run_jobs

    task = getattr(api, name)
    backend = import_module(TASKS_API).default_task_backend
    result = task.enqueue(1, two=3)
    assert (result.task, result.args, result.kwargs) == (task, [1], {"two": 3})
    assert (result.is_finished, result.attempts, result.errors) == (False, 0, [])
    assert {result.started_at, result.last_attempted_at, result.finished_at} == {None}
    assert backend.get_result(result.id) == result
    run_jobs()
    assert (result.status, result.is_finished) == ("READY", False)
    result.refresh()
    assert (result.is_finished, result.return_value, result.attempts) == (True, None, 1)
    assert result.enqueued_at <= result.last_attempted_at <= result.finished_at
    assert len(result.worker_ids) == 1
    assert (backend.alias, backend.options, list(backend.check())) == ("default", {}, [])


def test_the_task_of_a_result_is_the_one_that_was_enqueued(api: Any) -> None:
    later = api.add.using(run_after=datetime(2037, 1, 1, tzinfo=UTC), priority=7, queue_name="mail")
    assert later.enqueue(1, 2).task == later


@pytest.mark.parametrize(
    ("name", "args", "kind", "end"),
    [
        ("fails", ["ValueError"], ValueError, "\nValueError: This task failed due to ValueError\n"),
        ("fails", ["SystemExit"], SystemExit, "\nSystemExit: This task failed due to SystemExit\n"),
        ("fails_in_a_complex_way", [], ValueError, "\nValueError: This task failed\n"),
        ("returns_an_object", [], TypeError, "\nTypeError: Unsupported type: <class 'function'>\n"),
    ],
)
def test_an_error_has_its_class_and_its_traceback_there_and_in_the_signal(
    api: Any, name: str, *, args: list[Any], kind: type[BaseException], end: str
) -> None:
    from duly.django.testing import run_jobs

    finished: list[Any] = []

    def hear(task_result: Any, **_: Any) -> None:
        finished.append(task_result)

    part("signals").task_finished.connect(hear)
    try:
        result = getattr(api, name).enqueue(*args)
        run_jobs()
    finally:
        part("signals").task_finished.disconnect(hear)
    result.refresh()
    for told in (result, *finished):
        assert (told.status, told.is_finished) == ("FAILED", True)
        [error] = told.errors
        assert (error.exception_class, error.traceback[-len(end) :]) == (kind, end)
        with pytest.raises(ValueError, match="failed"):
            _ = told.return_value


def test_the_package_logs_what_becomes_of_a_task(
    api: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from duly.django.testing import run_jobs

    logger = TASKS_API
    with caplog.at_level("DEBUG", logger=logger):
        done, failed = api.nothing.enqueue(), api.fails.enqueue("ValueError")
        run_jobs()
    said = [record.getMessage() for record in caplog.records if record.name.startswith(logger)]
    for result, words in ((done, "SUCCESSFUL"), (failed, "FAILED")):
        mine = [text for text in said if f"id={result.id} " in f"{text} "]
        wanted = ("enqueued", "RUNNING", words)
        assert [word for text, word in zip(mine, wanted, strict=True) if word not in text] == []


def test_a_queue_is_checked_when_a_task_is_enqueued_and_no_list_means_any(api: Any) -> None:
    from django.test import override_settings

    refused = part("exceptions")
    wrong_task = getattr(refused, "InvalidTask", None) or refused.InvalidTaskError

    def chosen(*queues: str) -> Any:
        backend = "duly.django.tasks_backend.DulyBackend"
        return override_settings(TASKS={"default": {"BACKEND": backend, "QUEUES": list(queues)}})

    with chosen():
        elsewhere = api.nothing.using(queue_name="elsewhere")
        assert elsewhere.enqueue().task.queue_name == "elsewhere"
    with chosen("default"), pytest.raises(wrong_task, match="Queue 'elsewhere' is not valid"):
        elsewhere.enqueue()
