"""``duly schedules``: looked at, added, edited, paused, run and removed by hand. On SQLite."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from duly.app import Store, connect, open_store
from duly.app.access import login
from duly.cli import main
from duly.clock import now
from duly.model.schedule import Plan
from duly.policy.firing import decide
from tests.infrastructure.moments import every_hour

T = TypeVar("T")


@pytest.fixture(autouse=True)
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DULY_URL", url)
    monkeypatch.setenv("TZ", "UTC")
    return url


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, ["schedules", *words])


def done(*words: str) -> str:
    result = duly(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def on(url: str, question: Callable[[Store], Awaitable[T]]) -> T:
    async def asked() -> T:
        there = await open_store(url)
        try:
            return await question(there)
        finally:
            await there.close()

    return asyncio.run(asked())


def plan(url: str, name: str) -> Plan:
    return on(url, lambda there: there.schedules.get(name)).plan


def changes(url: str, name: str) -> list[tuple[str, str]]:
    found = on(url, lambda there: there.schedules.changes(name))
    return [(who, what) for _, who, what in found]


def shown(name: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(done("show", name, "-o", "json"))


def fire(url: str) -> None:
    on(url, lambda there: there.ledger.fire(decide, limit=10, trust=lambda _: True))


def fire_two_hours_ahead(url: str) -> None:
    """Fire as a scheduler does while the store's clock is wrong."""

    async def fired() -> None:
        store = connect(url, clock=lambda: now() + timedelta(hours=2))
        await store.open()
        try:
            await store.ledger.fire(decide, limit=10, trust=lambda _: True)
        finally:
            await store.close()

    asyncio.run(fired())


def test_schedules_that_a_wrong_clock_left_ahead_are_seen_and_rewound_in_one_step(
    store: str,
) -> None:
    for name in ("one", "two", "three"):
        done("add", "every 1m", "--task", name)
    fire_two_hours_ahead(store)
    said = {
        command: CliRunner().invoke(main, [command, *words]).stdout
        for command, *words in (["status"], ["why", "one"], ["doctor"])
    }
    assert "duly schedules rewind one" in said["status"]
    assert "3 items need attention" in said["status"]
    assert "one fires nothing until" in said["why"]
    assert "the store's clock was ahead" in said["why"]
    assert "duly schedules rewind one" in said["why"]
    assert "duly schedules rewind --ahead" in said["doctor"]
    assert done("rewind", "one").startswith("rewound  one  next ")
    rewound = done("rewind", "--ahead").splitlines()
    assert [line.split()[1] for line in rewound] == ["three", "two"]
    assert done("rewind", "--ahead") == "no schedule is ahead of the clock\n"
    for name in ("one", "two", "three"):
        who, what = changes(store, name)[0]
        assert (who, what.startswith("rewound to ")) == (login(), True)
        due = on(store, lambda there: there.schedules.get(name)).next_at  # noqa: B023
        assert due is not None
        assert due < now() + timedelta(minutes=2)
    entries = on(store, lambda there: there.access.audit(limit=10))
    assert [entry.action for entry in entries].count("schedules.rewind") == 3


@pytest.mark.parametrize("words", [[], ["one", "--ahead"], ["--ahead", "--to", "2h"]])
def test_a_rewind_is_of_one_schedule_or_of_all_that_are_ahead(words: list[str]) -> None:
    done("add", "every 1m", "--task", "one")
    assert duly("rewind", *words).exit_code == 2


def test_a_rewind_to_a_time_decides_anew_what_was_due_since(store: str) -> None:
    done("add", "every 1m", "--task", "one")
    cursor = on(store, lambda there: there.schedules.get("one")).cursor
    done("rewind", "one", "--to", "1h")
    rewound = on(store, lambda there: there.schedules.get("one")).cursor
    assert timedelta(minutes=59) < cursor - rewound < timedelta(minutes=61)


def test_a_bare_noun_lists_the_next_first_and_what_is_paused_last() -> None:
    done("add", "Mon 02:00 Europe/Berlin", "--task", "weekly")
    done("add", every_hour(next_in=2), "--task", "hourly")
    done("add", "every 1m", "--task", "asleep")
    done("pause", "asleep")
    result = duly()
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["NEXT", "IN", "LAST", "AGO", "OUTCOME", "SCHEDULE"]
    assert [row.split()[-1] for row in rows] == ["hourly", "weekly", "asleep"]
    hourly, weekly, asleep = rows
    assert " UTC  in " in hourly
    assert weekly.startswith("Mon 2")
    assert " 01:00:00 UTC" in weekly or " 00:00:00 UTC" in weekly  # 02:00 in Berlin, on our clock
    assert asleep.split() == ["-", "paused", "-", "-", "-", "asleep"]
    assert done("list", "-o", "name") == done("-o", "name") == "hourly\nweekly\nasleep\n"
    assert result.stderr.startswith("database: ")


def test_words_behind_the_noun_choose_schedules_as_they_choose_jobs() -> None:
    done("add", "every 1000h", "--name", "nightly report", "--task", "report", "--queue", "mail")
    done("add", "every 2000h", "--name", "backup", "--task", "copy", "--tags", "disk")
    done("pause", "backup")
    assert done("state:paused", "-o", "name") == done("list", "tag:disk", "-o", "name")
    assert done("state:paused", "-o", "name") == "backup\n"
    assert done("night", "queue:mail", "owner:person", "-o", "name") == "nightly report\n"
    nothing = duly("task:nothing")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "no schedule matches" in nothing.stderr
    for words, message in (
        (("stat:paused",), "did you mean state:"),
        (("list", "paused"), "did you mean state:paused?"),
        (
            ("sho", "backup"),
            'there is no command "duly schedules sho"; did you mean "duly schedules show backup"?'
            " To search for the text: text:sho",
        ),
    ):
        refused = duly(*words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert message in refused.stderr


def test_wide_says_rule_zone_task_and_owner_and_utc_is_utc() -> None:
    done("add", "Mon 02:00 Europe/Berlin", "--name", "weekly", "--task", "report")
    head, row = done("-o", "wide", "--utc").splitlines()
    assert head.split()[-4:] == ["RULE", "ZONE", "TASK", "OWNER"]
    assert row.endswith("weekly    Mon 02:00 Europe/Berlin  Europe/Berlin  report  person")
    assert row.startswith(("Mon 2", "Sun 2"))
    assert "UTC" in row


def test_a_program_gets_json_lines_of_it_or_names() -> None:
    done("add", every_hour(next_in=30), "--task", "b")
    done("add", every_hour(next_in=20), "--task", "a", "x=1")
    listed = json.loads(done("-o", "json"))
    assert [(one["name"], one["args"]) for one in listed] == [("a", {"x": 1}), ("b", {})]
    assert [json.loads(line) for line in done("-o", "jsonl").splitlines()] == listed
    assert done("-o", "name") == "a\nb\n"


def test_where_nothing_is_scheduled_that_is_said_beside_the_output() -> None:
    result = duly()
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing is scheduled" in result.stderr
    assert done("-o", "json") == "[]\n"


def test_a_command_is_kept_word_by_word_and_named_after_its_program(url: str) -> None:
    result = duly("add", "02:30 Europe/Berlin", "--", "/srv/backup", "--full", "--", "-o", "a b")
    assert result.exit_code == 0
    assert result.stdout.startswith("added  backup  next ")
    assert "--allow shell" in result.stderr
    assert "Every day at 02:30 Europe/Berlin." in result.stderr
    found = plan(url, "backup")
    assert (found.task, found.owner, found.submitter) == ("duly.command", "person", login())
    assert json.loads(found.args) == {"argv": ["/srv/backup", "--full", "--", "-o", "a b"]}


def test_a_value_that_is_json_is_json_and_any_other_is_text(url: str) -> None:
    values = ("n=10", "deep=true", "to=a=b", 'text="10"', "none=null", "list=[1]", "zip=007")
    done("add", "every 5m", "--task", "sync", "--name", "eu", *values, "x=NaN")
    assert json.loads(plan(url, "eu").args) == {
        "n": 10,
        "deep": True,
        "to": "a=b",
        "text": "10",
        "none": None,
        "list": [1],
        "zip": "007",
        "x": "NaN",
    }


def test_a_schedule_is_added_with_all_its_policies(url: str) -> None:
    done("add", "0 4 * * *", "--zone", "Europe/Berlin", "--task", "tidy", "--overlap", "queue_one",
         "--missed", "all", "--at-most", "5", "--spacing", "1m", "--start-within", "4h",
         "--late", "hurry", "--dst", "systemd", "--exclude", "holidays(DE)", "--jitter", "10s",
         "--start", "2026-12-01", "--end", "2090-01-01T00:00Z", "--queue", "night",
         "--priority", "low", "--title", "Tidy up", "--tags", "a, b")  # fmt: skip
    found = plan(url, "tidy")
    assert json.loads(found.policies.as_json()) == {
        "overlap": "queue_one",
        "missed": {"policy": "all", "at_most": 5, "spacing": "1m", "grace": "1m"},
        "start_within": "4h",
        "late": "hurry",
        "dst": "systemd",
        "exclude": "holidays(DE)",
        "jitter": "10s",
        "start": "2026-11-30T23:00:00+00:00",
        "end": "2090-01-01T00:00:00+00:00",
    }
    assert (found.rule, found.zone) == ("0 4 * * *", "Europe/Berlin")
    assert (found.queue, found.priority, found.title) == ("night", -50, "Tidy up")
    assert found.tags == ("a", "b")


def test_a_single_moment_in_the_past_is_missed_and_runs_as_the_policy_says(url: str) -> None:
    for missed, name in (("latest", "runs"), ("skip", "skipped")):
        said = done("add", "2020-01-01T10:00Z", "--name", name, "--missed", missed, "--", "true")
        assert said == f"added  {name}  missed Wed 2020-01-01 10:00:00 UTC\n"
    fire(url)
    outcomes = {
        name: json.loads(done("history", name, "-o", "json"))[0]["outcome"]
        for name in ("runs", "skipped")
    }
    assert outcomes == {"runs": "queued", "skipped": "skipped"}
    exported = CliRunner().invoke(main, ["export"])
    assert "runs: it has finished; it is left out" in exported.stderr
    assert "[schedules." not in exported.stdout


def test_an_edit_changes_what_is_said_and_notes_who_said_it(url: str) -> None:
    done("add", "0 4 * * *", "--zone", "Europe/Berlin", "--task", "tidy", "--missed", "all",
         "--spacing", "1m", "--jitter", "10s", "--exclude", "holidays(DE)")  # fmt: skip
    result = done("edit", "tidy", "--rule", "0 5 * * *", "--at-most", "7", "--jitter", "none",
                  "--queue", "night", "--start", "2050-01-01 00:00")  # fmt: skip
    assert result == "edited  tidy  next Sun 2050-01-02 05:00:00 CET\n"
    found = plan(url, "tidy")
    assert (found.rule, found.zone, found.queue) == ("0 5 * * *", "Europe/Berlin", "night")
    assert json.loads(found.policies.as_json()) == {
        "missed": {"policy": "all", "at_most": 7, "spacing": "1m", "grace": "1m"},
        "exclude": "holidays(DE)",
        "start": "2049-12-31T23:00:00+00:00",
    }
    done("edit", "tidy", "--spacing", "none")
    missed = plan(url, "tidy").policies.missed
    assert (missed.policy, missed.at_most, missed.spacing) == ("all", 7, None)
    (_, _), (who, what) = changes(url, "tidy")
    assert who == login()
    assert "0 4 * * * → 0 5 * * *" in what


def test_a_pause_has_an_end_and_a_note_on_the_schedules_own_clock(url: str) -> None:
    done("add", "Mon 02:00 Europe/Berlin", "--task", "weekly")
    said = done("pause", "weekly", "--until", "2090-01-01 09:00", "--note", "the disk is full")
    assert said == "paused  weekly  until Sun 2090-01-01 09:00:00 CET\n"
    text = done("show", "weekly")
    assert "paused  until Sun 2090-01-01 09:00:00 CET\n" in text
    assert "note    the disk is full\n" in text
    assert "\nNEXT                         IN\nMon 2090-01-02 02:00:00 CET  in " in text
    assert shown("weekly")["paused_until"] == "2090-01-01T08:00:00Z"
    assert done("resume", "weekly").startswith("resumed  weekly  next Mon 2")
    assert shown("weekly")["paused"] is False
    assert [who for who, _ in changes(url, "weekly")] == [login()] * 2


def test_a_pause_may_be_for_a_length_of_time() -> None:
    done("add", "every 1000h", "--task", "hourly")
    assert done("pause", "hourly", "--until", "2d").startswith("paused  hourly  until ")
    assert done("pause", "hourly") == "paused  hourly\n"


def test_what_is_skipped_ahead_is_named_and_in_the_history() -> None:
    done("add", "Mon 02:00 Europe/Berlin", "--task", "weekly")
    first, second = done("skip-next", "weekly", "-n", "2").splitlines()
    assert first.startswith("skipped  Mon 2")
    history = done("history", "weekly")
    assert history.splitlines()[0].split() == ["DUE", "OUTCOME", "WHY", "LATENESS", "TOOK", "JOB"]
    for line, said in zip(history.splitlines()[1:], (second, first), strict=True):
        assert line.startswith(said.removeprefix("skipped  "))
        assert f"skipped because {login()} asked for it in advance" in line


def test_skipped_moments_are_taken_back_with_undo() -> None:
    done("add", "Mon 02:00 Europe/Berlin", "--task", "weekly")
    skipped = done("skip-next", "weekly", "-n", "2")
    assert done("skip-next", "weekly", "--undo") == skipped.replace("skipped", "unskipped")
    nothing = duly("skip-next", "weekly", "--undo")
    assert (nothing.exit_code, nothing.stderr.splitlines()[-1]) == (
        1,
        "Error: weekly has no skipped run ahead",
    )


def test_a_run_by_hand_makes_a_job_and_another_one_is_refused_while_that_waits() -> None:
    done("add", "every 1000h", "--task", "hourly")
    said = done("run", "hourly").split()
    assert said[:2] == ["queued", "job"]
    refused = duly("run", "hourly")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert 'hourly was not run: overlap="skip", and the run of' in refused.stderr
    listed = json.loads(done("history", "hourly", "-o", "json"))
    assert [one["outcome"] for one in listed] == ["skipped", "queued"]
    assert [one["job_id"] for one in listed] == [None, int(said[2])]
    assert all(one["manual"] for one in listed)
    _, newest = done("history", "hourly", "-n", "1").splitlines()
    assert newest.endswith("-         -     -")


def test_a_line_of_the_history_may_stand_for_many_moments(url: str) -> None:
    done("add", "every 1ms", "--task", "often")
    fire(url)
    lines = json.loads(done("history", "often", "-o", "json"))
    many = next(line for line in lines if line["count"] != 1)
    [row] = [line for line in done("history", "often").splitlines() if "  merged " in line]
    assert f"  merged {many['count']:,}  merged into the run of " in row
    [latest] = [line for line in done("history", "often").splitlines() if "  queued  " in line]
    assert latest.endswith(f"-         -     {lines[0]['job_id']} ready")
    assert done().splitlines()[1].split()[-2:] == ["queued", "often"]


def test_the_history_begins_where_it_is_asked_to() -> None:
    done("add", "every 1000h", "--task", "hourly")
    done("run", "hourly")
    assert len(done("history", "hourly", "--since", "1h").splitlines()) == 2
    later = duly("history", "hourly", "--since", "2090-01-01")
    assert (later.exit_code, later.stdout) == (0, "")
    assert "no run of hourly was due since 2090-01-01" in later.stderr


def test_show_says_it_in_words() -> None:
    done("add", "Mon..Fri 02:30", "--zone", "Europe/Berlin", "--task", "report", "region=eu",
         "--title", "The\x1b[31mreport", "--start-within", "4h", "--missed", "skip")  # fmt: skip
    lines = done("show", "report").splitlines()
    assert lines[:3] == [
        "report: The [31mreport",
        "Weekdays at 02:30 Europe/Berlin.",
        "Is skipped while the previous run has not ended; missed runs are not caught up; "
        "must start within 4 hours, or is skipped.",
    ]
    assert 'task    report {"region":"eu"}' in lines
    assert "owner   person" in lines
    assert len([line for line in lines if " 02:30:00 CE" in line and "  in " in line]) == 5
    data = shown("report")
    assert data["sentence"] == "Weekdays at 02:30 Europe/Berlin."
    assert len(data["next"]) == 5


def test_a_schedule_is_not_removed_unless_somebody_means_it() -> None:
    done("add", "every 1000h", "--task", "hourly")
    refused = duly("remove", "hourly")
    assert refused.exit_code == 2
    assert "the removal of hourly cannot be confirmed: pass --yes" in refused.stderr
    assert done("-o", "name") == "hourly\n"
    assert done("remove", "hourly", "--yes") == "removed  hourly\n"
    assert done("-o", "name") == ""
    assert duly("history", "hourly").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["history"],
        ["run"],
        ["pause"],
        ["resume"],
        ["skip-next"],
        ["remove", "--yes"],
        ["remove"],
        ["edit", "--overlap", "allow"],
    ],
    ids=" ".join,
)
def test_a_name_that_is_not_there_is_answered_with_one_that_is(words: list[str]) -> None:
    done("add", "every 1000h", "--task", "nightly_report")
    verb, *options = words
    result = duly(verb, "nightly_reprot", *options)
    assert (result.exit_code, result.stdout) == (3, "")
    assert 'no schedule "nightly_reprot"; did you mean "nightly_report"?' in result.stderr


def test_a_name_is_given_once() -> None:
    done("add", "every 1000h", "--task", "hourly")
    result = duly("add", "every 2000h", "--task", "hourly")
    assert result.exit_code == 1
    assert '"hourly": exists already.' in result.stderr


def test_a_schedule_may_run_at_most_so_many_times_from_now(url: str) -> None:
    said = done("add", "every 1h", "--task", "sync", "--max-runs", "3")
    assert "3 runs left" in said
    assert "runs    3 left" in done("show", "sync")
    assert "at most 3 runs" in done("show", "sync")
    found = json.loads(done("show", "sync", "-o", "json"))
    assert (found["runs_left"], found["finished"], len(found["next"])) == (3, False, 3)
    assert "never due again" not in done("edit", "sync", "--max-runs", "none")
    assert json.loads(done("show", "sync", "-o", "json"))["runs_left"] is None
    assert duly("edit", "sync", "--max-runs", "0").exit_code == 2
    assert "whole number from 1" in duly("edit", "sync", "--max-runs", "few").output
    done("edit", "sync", "--max-runs", "1")

    async def fire_and_ask(there: Store) -> None:
        await there.schedules.rewind("sync", to=now() - timedelta(hours=1, minutes=1))
        await there.ledger.fire(decide, limit=10, trust=lambda _: True)

    on(url, fire_and_ask)
    assert "finished" in done("list", "state:finished")
    later = (now() + timedelta(days=1)).strftime("%Y-%m-%d %H:00")
    assert "is not due" in (said := CliRunner().invoke(main, ["why", "sync", later]).output)
    assert "It made 1 run (max_runs=1), the last for" in said


def test_a_schedule_has_a_tenant_a_submitter_and_may_be_added_paused(url: str) -> None:
    label = ("--tenant", "acme", "--submitter", "ann", "--tags", "x,y")
    assert "paused" in done("add", "spaced 1h", "--task", "sync", "--paused", *label)
    found = json.loads(done("show", "sync", "-o", "json"))
    assert (found["tenant"], found["submitter"], found["tags"]) == ("acme", "ann", ["x", "y"])
    assert (found["paused"], found["next_at"]) == (True, None)
    assert done("list", "tenant:acme", "submitter:ann", "tag:x", "-o", "name").split() == ["sync"]
    assert duly("list", "tenant:other", "-o", "name").stdout == ""
    done("edit", "sync", "--tenant", "other")
    done("resume", "sync")
    found = json.loads(done("show", "sync", "-o", "json"))
    assert (found["tenant"], found["paused"]) == ("other", False)
    assert found["next_at"] is not None
