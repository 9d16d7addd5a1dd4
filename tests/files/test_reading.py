"""A file says what it means, or is refused by table and key."""

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from duly.errors import InvalidValue
from duly.files.field_readers import SCHEDULE
from duly.files.file_text import LONGEST, MOST_ENTRIES, read
from duly.files.schedule_file import LimitEntry, QueueEntry, ScheduleEntry, ScheduleFile
from duly.model.job import PRIORITIES
from duly.registry.option_values import priority_of

WHOLE = """
[defaults]
zone = "Europe/Berlin"

[calendars.off]
rule = "Sat,Sun"

[queues.mail]
concurrency = 5
rate = "50/s"
fair = true

[limits."crm:{customer_id}"]
concurrency = 1

[schedules.backup]
rule = "30 2 * * *"
shell = "cd /srv && ./backup"
cwd = "/srv"
env = { LANG = "C" }
exclude = "off"
missed = { choice = "all", at_most = 10, spacing = "1m" }
start = 2027-01-01T00:00:00Z
tags = ["nightly"]

[schedules."call home"]
rule = "every 5m"
http = { url = "https://example.com", expect = [200, 204], timeout = "30s" }
paused = true
note = "until they answer"

[schedules.report]
rule = "Mon..Fri 02:00 UTC"
task = "nightly_report"
args = { customer = 7, parts = [1.5, { deep = true }] }
priority = "high"
attempts = 5

[schedules.sweep]
rule = "every 1h"
command = ["/usr/bin/find", "/srv/cache", "-delete"]
"""


def test_a_file_is_read_as_it_was_written_and_in_its_order() -> None:
    sheet = read(WHOLE)
    assert sheet == ScheduleFile(
        zone="Europe/Berlin",
        calendars={"off": "Sat,Sun"},
        queues={"mail": QueueEntry(name="mail", concurrency=5, rate="50/s", fair=True)},
        limits={"crm:{customer_id}": LimitEntry(name="crm:{customer_id}", concurrency=1)},
        schedules={
            "backup": ScheduleEntry(  # noqa: S604 - it says so, and runs nothing
                name="backup",
                rule="30 2 * * *",
                shell="cd /srv && ./backup",
                cwd="/srv",
                env={"LANG": "C"},
                exclude="off",
                missed={"choice": "all", "at_most": 10, "spacing": "1m"},
                start=datetime(2027, 1, 1, tzinfo=UTC),
                tags=("nightly",),
            ),
            "call home": ScheduleEntry(
                name="call home",
                rule="every 5m",
                http={"url": "https://example.com", "expect": [200, 204], "timeout": "30s"},
                paused=True,
                note="until they answer",
            ),
            "report": ScheduleEntry(
                name="report",
                rule="Mon..Fri 02:00 UTC",
                task="nightly_report",
                args={"customer": 7, "parts": [1.5, {"deep": True}]},
                priority="high",
                attempts=5,
            ),
            "sweep": ScheduleEntry(
                name="sweep", rule="every 1h", command=("/usr/bin/find", "/srv/cache", "-delete")
            ),
        },
    )
    assert list(sheet.schedules) == ["backup", "call home", "report", "sweep"]


def test_an_empty_file_says_nothing() -> None:
    assert read("") == read("# only a comment\n") == ScheduleFile()


def test_a_file_that_an_editor_marked_is_read() -> None:
    assert read("\ufeff" + WHOLE.replace("\n", "\r\n")) == read(WHOLE)


def test_an_entry_alone_has_the_default_zone_and_the_days_of_its_calendar() -> None:
    alone = read(WHOLE).resolved()
    assert (alone.zone, alone.calendars) == (None, {})
    assert alone.schedules["backup"].exclude == "Sat,Sun"
    assert {entry.zone for entry in alone.schedules.values()} == {"Europe/Berlin"}


def test_arguments_may_be_json_for_what_toml_has_no_word_for() -> None:
    text = '[schedules.x]\nrule = "every 5m"\ntask = "t"\nargs = \'{"a": null, "b": 1}\''
    assert read(text).schedules["x"].args == {"a": None, "b": 1}


def test_every_field_of_an_entry_has_a_key() -> None:
    assert {"name", *SCHEDULE} == set(ScheduleEntry.__dataclass_fields__)


def test_the_words_for_a_priority_are_those_of_a_task() -> None:
    for word, number in PRIORITIES.items():
        assert SCHEDULE["priority"](word) == priority_of(word) == number


RUNS = 'rule = "every 5m"\nshell = "x"\n'
ZONED = 'rule = "02:00"\nshell = "x"\nzone = "UTC"\n'

REFUSED_ENTRIES = [
    (
        RUNS + 'overlap = "skipp"',
        ' overlap = "skipp": one of skip, queue_one, queue_all, replace, allow; '
        'did you mean "skip"?',
    ),
    (RUNS + "overlap = 1", " overlap = 1: one of skip, queue_one, queue_all, replace, allow"),
    ('cron = "0 2 * * *"', ' cron is not known; did you mean "rule"?'),
    (RUNS + 'overlapp = "skip"', ' overlapp is not known; did you mean "overlap"?'),
    ('shell = "x"', ' needs a rule, as rule = "30 2 * * *"'),
    (
        'rule = "30 2 * * *"\nshell = "x"',
        ' rule = "30 2 * * *": it names an hour or a day, so it needs a time zone: '
        'add zone = "Europe/Berlin" here, or once under [defaults]',
    ),
    (
        'rule = "61 * * * *"\nshell = "x"',
        ' rule = "61 * * * *": minute 61 is out of range 0–59 (field 1 of "61 * * * *")',
    ),
    (
        RUNS + 'zone = "Europe/Berln"',
        ' zone = "Europe/Berln": "Europe/Berln" is not a time zone; '
        "did you mean Europe/Berlin or Europe/Dublin?",
    ),
    ("rule = 5", " rule = 5: it is text, in quotes"),
    (
        'rule = "every 5m"',
        " says what runs by exactly one of task, command, shell, http; found none of them",
    ),
    (
        RUNS + 'task = "y"',
        " says what runs by exactly one of task, command, shell, http; found task and shell",
    ),
    (RUNS + "args = { a = 1 }", " args go with task, and what runs here is shell"),
    (
        'rule = "every 5m"\ntask = "x"\ncwd = "/"',
        " cwd goes with command or shell, and what runs here is task",
    ),
    (
        'rule = "every 5m"\ncommand = "backup --full"',
        ' command = "backup --full": a program and its arguments, as ["/srv/backup", "--full"]',
    ),
    ('rule = "every 5m"\nshell = " "', " shell is empty"),
    (
        RUNS + "timeout = 30",
        ' timeout = 30: 30 is not a duration: write "30s" or "30m"',
    ),
    (RUNS + 'jitter = "0s"', ' jitter = "0s": more than 0s, up to 36,500 days; found "0s"'),
    (RUNS + 'missed = "al"', ' missed = "al": one of latest, all, skip; did you mean "all"?'),
    (
        RUNS + 'missed = { choice = "all", at_most = 0 }',
        " missed: at_most = 0: expected a whole number from 1 to 10,000",
    ),
    (
        RUNS + "missed = { at_most = 3 }",
        " missed: a table that has at least choice, as { choice = … }",
    ),
    (
        'rule = "every 5m"\nhttp = { url = "ftp://x" }',
        ' http: url = "ftp://x": it begins with https:// or http://',
    ),
    (
        'rule = "every 5m"\nhttp = { url = "https://ada:hunter2@x.example/y?k=hunter2" }',
        ' http: url = "https://***@x.example/y?***": it holds a user or a password, which '
        'everybody could read; put it into headers, as { Authorization = "…" }',
    ),
    (
        'rule = "every 5m"\nhttp = { url = "https://ada:hunter2/3@x.example/" }',
        ' http: url = "https://***": its host or its port cannot be read',
    ),
    (
        'rule = "every 5m"\nhttp = { url = "https:///x" }',
        ' http: url = "https:///x": it names no host',
    ),
    (
        'rule = "every 5m"\nshell = "x"\nenv = { PGPASSWORD = 123456 }',
        " env: PGPASSWORD: it is text, in quotes",
    ),
    (
        'rule = "every 5m"\nhttp = { url = "http://x", tmeout = "4s" }',
        ' http: "tmeout" is not known; did you mean "timeout"?',
    ),
    (
        RUNS + 'priority = "hgh"',
        ' priority = "hgh": high, normal, low, idle, or a whole number from -100 to 100, '
        'higher is sooner; did you mean "high"?',
    ),
    (RUNS + "attempts = 0", " attempts = 0: expected a whole number from 1 to 10,000"),
    (RUNS + "attempts = true", " attempts = true: expected a whole number from 1 to 10,000"),
    (
        RUNS + 'dst = "systmd"',
        ' dst = "systmd": one of cron, systemd, elapsed, quartz, or gap/fold as in end/first; '
        'did you mean "systemd"?',
    ),
    (
        RUNS + "start = 2027-01-01T00:00:00",
        " start = 2027-01-01T00:00:00: a time with its offset, as 2026-12-24T18:00:00+01:00, or …Z",
    ),
    (
        RUNS + "start = 2027-01-01T00:00:00Z\nend = 2026-01-01T00:00:00Z",
        ": the end 2026-01-01 00:00:00+00:00 is before the start 2027-01-01 00:00:00+00:00",
    ),
    (RUNS + "paused = 1", " paused = 1: true or false"),
    (RUNS + "env = { A = 1 }", " env: A: it is text, in quotes"),
    (RUNS + 'tags = "nightly"', ' tags = "nightly": several texts, as ["nightly", "billing"]'),
    (
        RUNS + 'title = "\\u0000"',
        " title = \"\\u0000\": '\\x00' contains a NUL character, which databases cannot store",
    ),
    (
        ZONED + 'exclude = "weeknds"\n[calendars.weekends]\nrule = "Sat,Sun"',
        ' exclude = "weeknds": neither a rule nor a calendar of this file; '
        'did you mean "weekends"?',
    ),
    (
        RUNS + 'exclude = "off"\n[calendars.off]\nrule = "Sat,Sun"',
        ' exclude = "off": it names an hour or a day, so it needs a time zone: '
        'add zone = "Europe/Berlin" here, or once under [defaults]',
    ),
]


@pytest.mark.parametrize(("said", "problem"), REFUSED_ENTRIES)
def test_an_entry_is_refused_by_its_table_and_key(said: str, problem: str) -> None:
    assert refusal(f"[schedules.backup]\n{said}\n") == f"[schedules.backup]{problem}"


REFUSED_FILES = [
    ('[schedule.x]\nrule = "every 5m"', '[schedule] is not known; did you mean "schedules"?'),
    (
        "[jobs.x]",
        "[jobs] is not known; there are [defaults], [schedules], [queues], [limits], [calendars]",
    ),
    (
        'zone = "UTC"',
        'zone = "UTC" stands outside any table: put it below a line such as [schedules.backup]',
    ),
    ('[defaults]\nzon = "UTC"', '[defaults] zon is not known; did you mean "zone"?'),
    ("defaults = 3", "defaults = 3: it is a table, [defaults]"),
    ('[[schedules]]\nrule = "x"', "schedules is a table for each, as [schedules.NAME]"),
    (
        '[schedules]\nbackup = "x"',
        '[schedules] backup = "x": a table for each, as [schedules.NAME]',
    ),
    (
        '[schedules.crm.daily]\nrule = "every 5m"',
        '[schedules.crm] daily is not known; a name with a dot is quoted: [schedules."crm.daily"]',
    ),
    ('[schedules."a\\tb"]', '[schedules] "a\\tb": a name has no control characters'),
    ('[queues.""]', '[queues] "": a name is 1 to 200 characters'),
    (
        "[queues.mail]\nconcurency = 3",
        '[queues.mail] concurency is not known; did you mean "concurrency"?',
    ),
    (
        '[limits."crm:{id}"]',
        '[limits."crm:{id}"] limits nothing: say concurrency = 1, or rate = "5/s", or both',
    ),
    (
        '[limits.crm]\nrate = "5"',
        '[limits.crm] rate = "5": write it as "5/s", "100/m", "1000/h" or "3/10s"',
    ),
    (
        "[calendars.off]",
        '[calendars.off] needs a rule, as rule = "Sat,Sun" or "holidays(DE-BE)"',
    ),
    (
        '[calendars.off]\nrule = "spaced 5m"',
        '[calendars.off] rule = "spaced 5m": a fixed delay has no scheduled times to exclude',
    ),
    ("\n\n[queues.a]\nrate = = 1", "line 4, column 8: Invalid value"),
    ("[queues.a]\nrate =", "line 2, at the end: Invalid value"),
    ("a = " + "[" * 20_000, "it is nested too deeply"),
    ("a = " + "9" * 5_000, "a number in it has too many digits to be read"),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED_FILES)
def test_a_file_is_refused_with_the_place_in_it(text: str, problem: str) -> None:
    assert refusal(text) == problem


def test_a_limit_whose_name_is_no_template_is_refused() -> None:
    assert refusal('[limits."crm:{"]\nconcurrency = 1').startswith('[limits."crm:{"] ')


def test_a_file_may_be_too_long_to_be_read() -> None:
    assert read("#" * LONGEST) == ScheduleFile()
    assert re.match(r"1,000,001 characters, and at most", refusal("#" * (LONGEST + 1)))


def test_a_file_may_have_too_many_entries() -> None:
    tables = "".join(f"[queues.q{number}]\n" for number in range(MOST_ENTRIES))
    assert len(read(tables).queues) == MOST_ENTRIES
    assert re.match(r"10,001 entries, and at most 10,000", refusal(tables + "[queues.more]"))


@pytest.mark.parametrize("value", ["nan", "inf", "2026-01-01", "9223372036854775808"])
def test_an_argument_that_json_has_no_word_for_is_refused(value: str) -> None:
    text = f'[schedules.x]\nrule = "every 5m"\ntask = "t"\nargs = {{ a = {value} }}'
    assert refusal(text).startswith("[schedules.x] args: args.a: ")


def test_a_secret_is_not_repeated_in_an_error() -> None:
    text = '[schedules.x]\nrule = "every 5m"\ntask = "t"\nargs = \'{"token": "abc"\''
    assert "abc" not in refusal(text)


def test_the_file_is_called_by_its_name() -> None:
    with pytest.raises(InvalidValue, match=r"\Ajobs\.toml: \[x\] is not known"):
        read("[x]", place="jobs.toml")


def test_a_moment_in_the_repeated_hour_of_a_zone_equals_itself() -> None:
    folded = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    facts: dict[str, Any] = {"name": "x", "rule": "every 5m", "shell": "x"}
    assert ScheduleEntry(start=folded, **facts) == ScheduleEntry(
        start=folded.astimezone(UTC), **facts
    )


def refusal(text: str) -> str:
    with pytest.raises(InvalidValue) as caught:
        read(text)
    place, _, problem = str(caught.value).partition(": ")
    assert place == "schedules.toml"
    return problem
