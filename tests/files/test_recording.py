"""What is remembered of a file reads back: what it said, and what was decided beside it."""

import pytest

from duly.files.entry_plans import Record, file_part, read_record, write_record
from duly.files.file_text import read, write
from duly.files.schedule_file import ScheduleEntry, ScheduleFile

ODD = ["", "two\nlines", "# decided: {}", "\n# decided: {}\n", "«quoted» \u2028 \x7f", '"\\']


@pytest.mark.parametrize("title", ODD)
def test_what_is_remembered_reads_back(title: str) -> None:
    entry = ScheduleEntry(name="a", rule="every 5m", task="report", note=title)
    decided = {"a": {"title": title, "queue": "slow", "priority": 7, "timeout": None}}
    record = Record(ScheduleFile(schedules={"a": entry}), decided)
    text = write_record(record)
    found = read_record(text, place="here")
    assert (found.decided, found.sheet) == (decided, read(write(record.sheet)))
    assert file_part(text) == write(record.sheet)


@pytest.mark.parametrize(
    "sheet", [ScheduleFile(), read('[schedules.a]\nrule = "every 5m"\nshell = "x"')]
)
def test_what_was_remembered_without_decisions_is_what_the_file_said(sheet: ScheduleFile) -> None:
    text = write(sheet)
    assert (file_part(text), read_record(text, place="here")) == (text, Record(sheet))


def test_who_reads_it_as_a_file_is_not_disturbed() -> None:
    sheet = read('[schedules.a]\nrule = "every 5m"\ntask = "x"')
    assert read(write_record(Record(sheet, {"a": {"title": "two\nlines"}}))) == sheet
