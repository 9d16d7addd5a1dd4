"""Features and defects of django-tasks-scheduler that no other test covers."""

import json
from typing import Any

from tests.django.test_admin import ADMIN, errors, typed

WANTED = ((0, "usual"), (5, "urgent"))


def test_arguments_have_the_types_of_the_parameters(client: Any) -> None:
    from duly.django.models import ScheduledTask
    from duly.django.testing import run_jobs

    given = {
        "text": "a", "number": 7, "ratio": 0.5, "flag": True,
        "moment": "2030-01-01T10:00:00Z", "record": {"a": [1]},
    }  # fmt: skip
    said = typed(task="types", kind="cron", rule="0 2 * * *", args=json.dumps(given))
    page = client.post(f"{ADMIN}/scheduledtask/add/", said)
    assert page.status_code == 302, errors(page)
    pk = ScheduledTask.objects.get(name="new").pk
    client.post(f"{ADMIN}/scheduledtask/", {"action": "run_now", "_selected_action": [pk]})
    [job] = run_jobs()
    assert job.result() == ["str", "int", "float", "bool", "datetime", "dict"]


def test_an_argument_that_is_left_out_is_computed_when_the_job_runs(project: None) -> None:
    from duly.django import duly
    from duly.testing import Sandbox
    from tests.django.shop.tasks import report

    with Sandbox(duly, now="2027-01-03T23:00+01:00") as box:
        duly.schedules.add("0 4 * * *", report, name="report")
        box.travel("6h")
        ran = [job for job in box.run() if job.task == "report"]
        assert [(job.args, job.result()) for job in ran] == [({}, "2027-01-04")]


def test_the_runs_of_a_schedule_have_its_priority(project: None) -> None:
    from duly.django import duly
    from duly.testing import Sandbox
    from tests.django.shop.tasks import report

    with Sandbox(duly, now="2027-01-03T23:00+01:00") as box:
        usual, urgent = (report.using(priority=number).bind(word) for number, word in WANTED)
        duly.schedules.add("0 1 * * *", usual, name="usual")
        duly.schedules.add("0 1 * * *", urgent, name="urgent")
        box.travel("3h")
        found = {job.args["day"]: job.priority for job in box.jobs("task:report")}
        assert found == {"usual": 0, "urgent": 5}
