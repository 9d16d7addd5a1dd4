"""The table of schedule fields agrees with the signatures and types that are written out."""

from dataclasses import fields
from typing import get_args

from duly.app.plans import ScheduleOptions
from duly.files.schedule_file import ScheduleEntry
from duly.model.policies import Catchup, Late, Overlap, Policies
from duly.model.schedule_fields import SCHEDULE_FIELDS, fields_on
from duly.web.api.schedules import PolicyFields

FIELDS = {one.name: one for one in SCHEDULE_FIELDS}
OF_THE_TASK = {"queue", "priority", "title"}  # the Python API takes them from the task
IN_MISSED = {"at_most", "spacing"}  # Missed(…) in Python, a table in a file
NOT_SAID = {"first", "retry"}  # the rule and the task say these


def test_the_signature_of_a_schedule_has_every_field() -> None:
    said = {*ScheduleOptions.__annotations__} - {"paused"}
    assert said == {*FIELDS} - {"rule"} - OF_THE_TASK - IN_MISSED


def test_an_entry_of_a_file_has_every_field() -> None:
    assert {one.name for one in fields_on("file")} <= {one.name for one in fields(ScheduleEntry)}


def test_every_policy_is_a_field() -> None:
    policies = {one.name for one in fields(Policies)}
    assert policies - {*FIELDS} == NOT_SAID
    assert all(FIELDS[name].path.startswith(f"policies.{name}") for name in policies & {*FIELDS})


def test_choices_are_the_words_of_the_types() -> None:
    words = {"overlap": Overlap, "missed": Catchup, "late": Late}
    assert {name: (*one.choices,) for name, one in FIELDS.items() if one.choices} == {
        name: get_args(kind) for name, kind in words.items()
    }


def test_the_body_of_a_request_has_the_fields_of_the_api() -> None:
    assert PolicyFields.__struct_fields__ == tuple(one.name for one in fields_on("api"))
