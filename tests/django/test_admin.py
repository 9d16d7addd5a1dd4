"""Schedules, jobs, queues and workers in Django's admin, as users with and without permissions."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from duly.errors import WrongState

ADMIN = "/admin/duly"


@pytest.fixture
def viewer(db: None) -> Any:
    """A browser of a member of staff who may look at everything and change nothing."""
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    user = User.objects.create_user("bob", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="duly", codename__startswith="view_")
    )
    browser = Client()
    browser.force_login(user)
    return browser


def typed(**fields: str) -> dict[str, str]:
    """Return the form of a new schedule as a browser sends it, with some fields filled in."""
    from duly.django.schedule_form import ScheduleForm

    form = ScheduleForm()
    usual = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
    said = {name: value for name, value in usual.items() if value is not None}
    return {**said, "enabled": "on", "name": "new", "task": "clean", **fields}


def errors(page: Any) -> dict[str, list[str]]:
    return dict(page.context["adminform"].form.errors)


def act(browser: Any, model: str, action: str, *rows: object) -> list[str]:
    """Do an action to the selected rows; return the messages."""
    said = {"action": action, "_selected_action": [str(row) for row in rows], "index": "0"}
    page = browser.post(f"{ADMIN}/{model}/", said, follow=True)
    assert page.status_code == 200
    return [str(message) for message in page.context["messages"]]


@pytest.mark.parametrize(
    ("kind", "fields", "rule"),
    [
        ("once", {"moment": "2030-01-01T10:00"}, "2030-01-01T10:00"),
        ("repeatable", {"number": "5", "unit": "h", "max_runs": "3"}, "every 5h"),
        ("cron", {"rule": "0 2 * * 1-5"}, "0 2 * * 1-5"),
        ("calendar", {"rule": "Mon..Fri 09:00"}, "Mon..Fri 09:00"),
        (
            "rrule",
            {"rule": "DTSTART:20300104T090000 RRULE:FREQ=DAILY"},
            "DTSTART:20300104T090000 RRULE:FREQ=DAILY",
        ),
        ("event", {"rule": "on order.paid"}, "on order.paid"),
    ],
)
def test_a_schedule_of_each_type_is_made_and_shown(
    client: Any, kind: str, fields: dict[str, str], rule: str
) -> None:
    from duly.django import duly
    from duly.django.models import ScheduledTask

    page = client.post(f"{ADMIN}/scheduledtask/add/", typed(kind=kind, **fields))
    assert page.status_code == 302, errors(page)
    made = duly.schedules.get("new")
    assert (made.rule, made.owner, made.plan.submitter) == (rule, "person", "ada")
    assert made.zone == "Europe/Berlin"
    assert made.runs_left == (3 if kind == "repeatable" else None)
    row = ScheduledTask.objects.get(name="new")
    listed = client.get(f"{ADMIN}/scheduledtask/?kind={kind}")
    assert [one.name for one in listed.context["cl"].result_list] == ["new"]
    form = client.get(f"{ADMIN}/scheduledtask/{row.pk}/change/").context["adminform"].form
    assert {name: form[name].value() for name in fields} == fields
    assert form["kind"].value() == kind


def test_the_form_names_the_default_zone_of_the_project(client: Any) -> None:
    page = client.get(f"{ADMIN}/scheduledtask/add/").content.decode()
    assert "Default: TIME_ZONE of the project." in page
    assert "duly.toml" not in page


def test_a_once_schedule_in_the_past_is_due_at_once_and_not_finished(client: Any) -> None:
    from duly.django import duly

    page = client.post(f"{ADMIN}/scheduledtask/add/", typed(kind="once", moment="2020-01-01T10:00"))
    assert page.status_code == 302, errors(page)
    made = duly.schedules.get("new")
    assert made.next_at is not None
    assert (f"{made.next_at:%Y-%m-%d %H:%M}", made.finished) == ("2020-01-01 09:00", False)


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"kind": "cron", "rule": "61 2 * * *"}, "rule", "61"),
        ({"kind": "calendar", "rule": "Mox 09:00"}, "rule", "Mox"),
        ({"kind": "once", "moment": "soon"}, "moment", "soon"),
        ({"kind": "repeatable", "number": "-5"}, "number", "-5"),
        ({"kind": "cron", "rule": "0 2 * * *", "zone": "Mars/Base"}, "zone", "Mars/Base"),
        ({"kind": "cron", "rule": "0 2 * * *", "jitter": "a bit"}, "jitter", "a bit"),
        ({"kind": "cron", "rule": "0 2 * * *", "max_runs": "0"}, "max_runs", "from 1"),
        ({"kind": "cron", "rule": "0 2 * * *", "priority": "high"}, "priority", "high"),
        ({"kind": "cron", "rule": "0 2 * * *", "args": "{"}, "args", "not JSON"),
        ({"kind": "cron", "rule": "0 2 * * *", "args": "[1]"}, "args", "by name"),
        (
            {"kind": "cron", "rule": "0 2 * * *", "task": "pack", "args": '{"order_id": "x"}'},
            "args",
            "order_id",
        ),
        ({"kind": "cron", "rule": "0 2 * * *", "task": "pack"}, "args", "order_id"),
        ({"kind": "cron", "rule": "0 2 * * *", "task": "unknown"}, "task", "valid choice"),
        ({"kind": "cron", "rule": "", "name": "empty"}, "rule", "a time"),
    ],
)
def test_a_wrong_field_is_said_at_the_field(
    client: Any, fields: dict[str, str], field: str, said: str
) -> None:
    from duly.django import duly

    page = client.post(f"{ADMIN}/scheduledtask/add/", typed(**fields))
    assert list(errors(page)) == [field]
    assert said in errors(page)[field][0]
    assert duly.schedules.list() == []


def test_a_taken_name_is_said_at_the_name(client: Any) -> None:
    said = typed(kind="cron", rule="0 2 * * *")
    client.post(f"{ADMIN}/scheduledtask/add/", said)
    page = client.post(f"{ADMIN}/scheduledtask/add/", said)
    assert errors(page) == {"name": ['there is a schedule "new" already']}


@pytest.fixture
def pk(client: Any) -> int:
    """The number of a schedule that runs ``pack`` each hour."""
    from duly.django import duly
    from duly.django.models import ScheduledTask
    from tests.django.shop.tasks import pack

    duly.schedules.add("every 1h", pack.bind(7), name="hourly")
    return ScheduledTask.objects.get(name="hourly").pk


def test_an_edit_changes_what_was_typed_and_nothing_else(client: Any, pk: int) -> None:
    from duly.django import duly

    url = f"{ADMIN}/scheduledtask/{pk}/change/"
    form = client.get(url).context["adminform"].form
    said = {name: form[name].value() or "" for name in form.fields}
    before = duly.schedules.get("hourly").plan
    assert client.post(url, said).status_code == 302
    assert duly.schedules.get("hourly").plan == before
    assert [entry.action for entry in duly.audit.list()] == []
    wanted = {**said, "number": "2", "args": '{"order_id": 8}', "queue": "mail"}
    wanted |= {"name": "other", "task": "clean"}  # what identifies it cannot be changed
    del wanted["enabled"]
    assert client.post(url, wanted).status_code == 302
    made = duly.schedules.get("hourly")
    assert (made.rule, json.loads(made.args), made.queue) == ("every 2h", {"order_id": 8}, "mail")
    assert [(one.name, one.task) for one in duly.schedules.list()] == [("hourly", "pack")]
    assert made.paused  # the box "enabled" was not ticked
    assert {(entry.who, entry.how) for entry in duly.audit.list()} == {("ada", "http")}
    page = client.post(url, {**said, "number": "0"})
    assert list(errors(page)) == ["number"]


def test_a_secret_argument_is_hidden_and_kept(client: Any, db: None) -> None:
    from duly.django import duly
    from duly.django.models import ScheduledTask
    from tests.django.shop.tasks import call

    duly.schedules.add("every 1h", call.bind(api_key="sk_live_42"), name="caller")
    pk = ScheduledTask.objects.get(name="caller").pk
    url = f"{ADMIN}/scheduledtask/{pk}/change/"
    page = client.get(url)
    assert "sk_live_42" not in page.content.decode()
    form = page.context["adminform"].form
    said = {name: form[name].value() or "" for name in form.fields} | {"enabled": "on"}
    client.post(url, {**said, "number": "2"})
    made = duly.schedules.get("caller")
    assert (made.rule, json.loads(made.args)) == ("every 2h", {"api_key": "sk_live_42"})
    job = call.enqueue(api_key="sk_live_42")
    assert "sk_live_42" not in client.get(f"{ADMIN}/openjob/{job.id}/change/").content.decode()


@pytest.mark.parametrize(("fails", "model"), [(True, "deadjob"), (False, "endedjob")])
def test_a_secret_is_hidden_wherever_a_job_repeats_it(client: Any, fails: bool, model: str) -> None:
    from duly.django.testing import run_jobs
    from tests.django.shop.tasks import leak

    secret = "hunter2-hunter2"
    asked = leak.using(title=f"Call {secret}", key=f"call {secret}")
    job = asked.enqueue(api_key=secret, fails=fails)
    [done] = run_jobs()
    assert list(done.logs())
    for place in ("", f"{job.id}/change/"):
        page = client.get(f"{ADMIN}/{model}/{place}").content.decode()
        assert "Call ***" in page
        assert secret not in page


def test_schedules_are_paused_resumed_run_skipped_and_deleted(client: Any, pk: int) -> None:
    from duly.django import duly
    from duly.django.models import ScheduleFire

    assert act(client, "scheduledtask", "disable", pk) == ["Disabled: 1"]
    assert duly.schedules.get("hourly").paused
    assert not client.get(f"{ADMIN}/scheduledtask/?enabled=yes").context["cl"].result_list
    assert act(client, "scheduledtask", "enable", pk) == ["Enabled: 1"]
    assert not duly.schedules.get("hourly").paused
    assert act(client, "scheduledtask", "run_now", pk) == ["Enqueued: 1"]
    [fire] = ScheduleFire.objects.filter(job_id__isnull=False)
    page = client.get(f"{ADMIN}/schedulefire/?schedule_id={pk}").content.decode()
    assert f"/admin/duly/openjob/{fire.job_id}/change/" in page
    before = duly.schedules.preview("hourly", count=2)
    act(client, "scheduledtask", "skip_next", pk)
    assert duly.schedules.preview("hourly", count=1) == before[1:]
    assert {entry.who for entry in duly.audit.list()} == {"ada"}
    page = client.post(f"{ADMIN}/scheduledtask/{pk}/delete/", {"post": "yes"})
    assert page.status_code == 302
    assert duly.schedules.list() == []


def test_the_preview_says_the_sentence_the_next_runs_or_what_is_wrong(client: Any) -> None:
    asked = {"kind": "cron", "rule": "0 2 * * *", "name": "x", "task": "clean"}
    page = client.get(f"{ADMIN}/scheduledtask/preview/", asked).content.decode()
    assert "at 02:00" in page.lower()
    assert page.count("<li>") == 5
    assert "Europe/Berlin" in page
    page = client.get(f"{ADMIN}/scheduledtask/preview/", {**asked, "rule": "61 2 * * *"})
    assert "errornote" in page.content.decode()
    asked |= {"kind": "repeatable", "number": "1", "unit": "s", "max_runs": "3"}
    page = client.get(f"{ADMIN}/scheduledtask/preview/", asked).content.decode()
    assert page.count("<li>") == 3
    assert re.findall(r"<p>(.*)</p>", page)[-1] == "Europe/Berlin. 3 runs in the next day."


def test_jobs_are_found_cancelled_requeued_and_deleted(client: Any) -> None:
    from duly.django import duly
    from duly.django.testing import run_jobs
    from tests.django.shop.tasks import fail, mail, pack

    packed, failed = pack.enqueue(7), fail.enqueue("first")
    mail.using(run_after="1h").enqueue("ada")
    page = client.get(f"{ADMIN}/openjob/", {"q": "queue:mail"})
    assert [row.task for row in page.context["cl"].result_list] == ["mail"]
    page = client.get(f"{ADMIN}/openjob/", {"q": "queue:"})
    assert next(str(one) for one in page.context["messages"]).startswith("queue:")
    assert act(client, "openjob", "cancel", packed.id) == ["Cancelled or told to stop: 1"]
    assert packed.refresh().state == "cancelled"
    assert (
        "cancelled by ada" in client.get(f"{ADMIN}/endedjob/{packed.id}/change/").content.decode()
    )
    run_jobs()
    page = client.get(f"{ADMIN}/openjob/{failed.id}/change/", follow=True)
    assert page.redirect_chain == [(f"{ADMIN}/deadjob/{failed.id}/change/", 302)]
    assert "ValueError: first" in page.content.decode()
    assert act(client, "deadjob", "requeue", failed.id) == ["Requeued: 1"]
    assert failed.refresh().state == "ready"
    [said] = act(client, "openjob", "cancel", failed.id, failed.id + 1_000_000)
    assert said == "Cancelled or told to stop: 1"
    page = client.post(f"{ADMIN}/endedjob/{failed.id}/delete/", {"post": "yes"})
    assert page.status_code == 302
    assert [job.task for job in duly.jobs.list()] == ["mail", "pack"]


def test_queues_show_the_jobs_in_each_state_and_are_paused_and_requeued(client: Any) -> None:
    from duly.django import duly
    from duly.django.testing import run_jobs
    from tests.django.shop.tasks import fail, mail

    failed = [fail.enqueue(text) for text in ("first", "second")]
    run_jobs()
    mail.enqueue("ada")
    page = client.get(f"{ADMIN}/jobqueue/")
    shown = {
        queue.name: dict(zip(page.context["states"], (count for _, count in cells), strict=True))
        for queue, cells in page.context["queues"]
    }
    assert (shown["mail"]["ready"], shown["default"]["failed"]) == (1, 2)
    [link] = [url for queue, cells in page.context["queues"] for url, count in cells if count == 2]
    assert len(client.get(link).context["cl"].result_list) == 2
    assert act(client, "jobqueue", "pause") == ["Select the queues first."]
    assert act(client, "jobqueue", "pause", "mail") == ["Paused: 1"]
    assert [queue.name for queue in duly.queues.list() if queue.paused] == ["mail"]
    act(client, "jobqueue", "resume", "mail")
    act(client, "jobqueue", "requeue_failed", "default")
    assert {job.refresh().state for job in failed} == {"ready"}


def registered(name: str, lease: timedelta) -> int:
    """Register a worker; return its number."""
    from duly.django import duly
    from duly.model.worker import Profile

    profile = Profile(name=name, queues=("default",), signatures={})
    register = lambda store: store.work.register(profile, lease=lease)  # noqa: E731
    return duly.project_store.call(register, async_name="").id


def test_workers_are_told_to_drain_and_to_stop(client: Any) -> None:
    from duly.django import duly

    worker = registered("w1", timedelta(minutes=1))
    registered("gone", timedelta(microseconds=1))
    page = client.get(f"{ADMIN}/jobworker/")
    assert [row.name for row in page.context["cl"].result_list] == ["w1"]
    for action, order in (("drain", "drain"), ("resume", "run"), ("stop", "stop")):
        act(client, "jobworker", action, worker)
        assert [one.order for one in duly.workers.list()] == [order]


def test_a_viewer_sees_everything_and_changes_nothing(viewer: Any, client: Any, pk: int) -> None:
    from duly.django import duly
    from tests.django.shop.tasks import pack

    job = pack.enqueue(7)
    for model in ("scheduledtask", "schedulefire", "openjob", "endedjob", "deadjob", "jobqueue"):
        assert viewer.get(f"{ADMIN}/{model}/").status_code == 200
    assert viewer.get(f"{ADMIN}/scheduledtask/{pk}/change/").status_code == 200
    page = viewer.get(f"{ADMIN}/openjob/{job.id}/change/").content.decode()
    assert 'name="action"' not in page
    assert viewer.get(f"{ADMIN}/scheduledtask/add/").status_code == 403
    viewer.post(f"{ADMIN}/openjob/", {"action": "cancel", "_selected_action": [job.id]})
    viewer.post(f"{ADMIN}/scheduledtask/", {"action": "disable", "_selected_action": [pk]})
    said = {"action": "pause", "_selected_action": ["mail"]}
    assert viewer.post(f"{ADMIN}/jobqueue/", said).status_code == 403
    assert viewer.post(f"{ADMIN}/scheduledtask/{pk}/change/", typed()).status_code == 403
    assert viewer.post(f"{ADMIN}/scheduledtask/{pk}/delete/", {"post": "yes"}).status_code == 403
    assert job.refresh().state == "ready"
    assert not duly.schedules.get("hourly").paused
    assert not any(queue.paused for queue in duly.queues.list())


def test_staff_without_a_permission_sees_nothing(db: None) -> None:
    from django.contrib.auth.models import User
    from django.test import Client

    browser = Client()
    browser.force_login(User.objects.create_user("eve", is_staff=True))
    for model in ("scheduledtask", "schedulefire", "openjob", "jobqueue", "jobworker"):
        assert browser.get(f"{ADMIN}/{model}/").status_code == 403
    assert browser.get(f"{ADMIN}/scheduledtask/preview/").status_code == 403


def test_rows_are_not_added_and_those_that_are_in_use_are_not_deleted(client: Any) -> None:
    from tests.django.shop.tasks import pack

    job = pack.enqueue(7)
    for model in ("openjob", "endedjob", "deadjob", "jobqueue", "jobworker", "schedulefire"):
        assert client.get(f"{ADMIN}/{model}/add/").status_code == 403
    assert client.post(f"{ADMIN}/openjob/{job.id}/delete/", {"post": "yes"}).status_code == 403
    worker = registered("w1", timedelta(minutes=1))
    assert client.post(f"{ADMIN}/jobworker/{worker}/delete/", {"post": "yes"}).status_code == 403


def test_a_list_counts_as_many_rows_as_people_page_through(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duly.django import admin
    from tests.django.shop.tasks import pack

    monkeypatch.setattr(admin, "MOST_COUNTED", 2)
    for number in range(3):
        pack.enqueue(number)
    assert client.get(f"{ADMIN}/openjob/").context["cl"].result_count == 2


def test_an_action_that_is_refused_for_a_row_says_why(client: Any) -> None:
    refused, done = act(client, "jobqueue", "pause", "ma\0il", "mail")
    assert refused.startswith("ma\0il: ")
    assert done == "Paused: 1"


def test_a_name_that_another_person_took_meanwhile_is_said_above_the_form(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duly.django import duly
    from duly.django.schedule_form import ScheduleForm
    from tests.django.shop.tasks import clean

    def take(*_: object) -> None:
        duly.schedules.add("every 1h", clean, name="new")

    monkeypatch.setattr(ScheduleForm, "_check_name", take)
    said = typed(kind="cron", rule="0 2 * * *")
    page = client.post(f"{ADMIN}/scheduledtask/add/", said, follow=True)
    [message] = [str(message) for message in page.context["messages"]]
    assert '"new"' in message
    assert duly.schedules.list() == []  # one transaction, and the other person was in it


def test_a_page_of_a_job_cannot_be_saved(client: Any) -> None:
    from tests.django.shop.tasks import pack

    job = pack.enqueue(7)
    page = client.post(f"{ADMIN}/openjob/{job.id}/change/", {"state": "succeeded"})
    assert page.status_code == 403
    assert job.refresh().state == "ready"


def test_models_are_read_and_never_written(db: None) -> None:
    from duly import clock
    from duly.django.models import OpenJob, ScheduledTask
    from tests.django.shop.tasks import pack

    job = pack.enqueue(7)
    row = OpenJob.objects.get(task="pack", due_at__lte=clock.now())
    assert (row.id, row.created_at.tzinfo is not None) == (job.id, True)
    for write in (
        row.save,
        row.delete,
        OpenJob.objects.all().delete,
        lambda: OpenJob.objects.update(state="succeeded"),
        lambda: OpenJob.objects.create(task="x"),
        lambda: ScheduledTask.objects.bulk_create([ScheduledTask(name="x")]),
        lambda: OpenJob.objects.bulk_update([row], ["task"]),
        lambda: ScheduledTask.objects.get_or_create(name="x"),
    ):
        with pytest.raises(WrongState, match="written by its verbs"):
            write()


def test_django_has_no_migration_to_make(project: None) -> None:
    from django.core.management import call_command

    call_command("makemigrations", "duly", check=True, dry_run=True, verbosity=0)


def test_the_models_read_the_tables_of_postgres(postgres: Any) -> None:
    from duly.django.models import StoredRow
    from tests.django.shop.tasks import mail

    job = mail.enqueue("ada")
    models = [one for one in all_models(StoredRow) if not one._meta.abstract]
    assert {model.__name__: len(list(model.objects.all())) for model in models}["OpenJob"] == 1
    [row] = [model.objects.get(id=job.id) for model in models if model.__name__ == "OpenJob"]
    assert row.title == "Mail to ada"


def all_models(model: Any) -> list[Any]:
    return [one for child in model.__subclasses__() for one in (child, *all_models(child))]
