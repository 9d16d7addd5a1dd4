"""What applying a file would do, told from the file, the last one applied, and what is there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.files.comparison import FilePlan, plan
from duly.files.schedule_file import LimitEntry, QueueEntry, ScheduleEntry, ScheduleFile


def backup(**said: Any) -> ScheduleEntry:
    facts = {"name": "backup", "rule": "30 2 * * *", "zone": "Europe/Berlin", "shell": "./backup"}
    return ScheduleEntry(**facts | said)


def report(**said: Any) -> ScheduleEntry:
    return ScheduleEntry(**{"name": "report", "rule": "every 5m", "task": "report"} | said)


def sheet(*entries: ScheduleEntry, **others: Any) -> ScheduleFile:
    return ScheduleFile(schedules={entry.name: entry for entry in entries}, **others)


def queues(**said: dict[str, Any]) -> ScheduleFile:
    return ScheduleFile(
        queues={name: QueueEntry(name=name, **facts) for name, facts in said.items()}
    )


def limits(**said: dict[str, Any]) -> ScheduleFile:
    return ScheduleFile(
        limits={name: LimitEntry(name=name, **facts) for name, facts in said.items()}
    )


def actions(found: FilePlan) -> dict[str, str]:
    return {change.name: change.action for change in found.changes}


# What the file changes.


def test_what_is_not_there_is_added() -> None:
    found = plan(sheet(backup(), report(paused=True)), None, ScheduleFile())
    assert found.lines() == [
        "+ schedule backup  30 2 * * * Europe/Berlin  shell",
        "+ schedule report  every 5m  report  paused",
    ]
    assert [change.entry for change in found.changes] == [backup(), report(paused=True)]
    assert (found.is_empty, found.has_drift) == (False, False)


def test_what_is_there_as_it_was_applied_is_unchanged() -> None:
    found = plan(sheet(backup()), sheet(backup()), sheet(backup()), prune=True, take_back=True)
    assert (found.lines(), found.is_empty, found.has_drift) == ([], True, False)
    assert found.summary() == "1 unchanged"


def test_a_file_that_was_edited_changes_the_fields_that_it_changed() -> None:
    last, live = backup(queue="mail"), backup(queue="mail")
    found = plan(sheet(backup(rule="0 3 * * *", queue="slow")), sheet(last), sheet(live))
    assert found.lines() == [
        '~ schedule backup  rule: "30 2 * * *" -> "0 3 * * *", queue: "mail" -> "slow"'
    ]
    assert found.changes[0].entry == backup(rule="0 3 * * *", queue="slow")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"start_within": "90s"}, {"start_within": "1m30s"}),
        ({"priority": "high"}, {"priority": 50}),
        ({"missed": "all"}, {"missed": {"choice": "all", "at_most": 100}}),
        ({"overlap": "skip"}, {}),
        ({"queue": "default"}, {}),
        ({"priority": "normal"}, {}),
        ({"attempts": 3}, {}),
        ({"dst": "cron", "late": "skip", "missed": "latest"}, {}),
        ({"note": "a remark of the importer"}, {}),
    ],
)
def test_other_words_for_the_same_are_no_change(one: dict[str, Any], other: dict[str, Any]) -> None:
    for file, live in ((one, other), (other, one)):
        found = plan(sheet(backup(**file)), sheet(backup(**file)), sheet(backup(**live)))
        assert actions(found) == {"backup": "unchanged"}


def test_other_words_for_the_same_request_are_no_change() -> None:
    short = {"shell": None, "http": {"url": "https://x"}}
    whole = {"shell": None, "http": {"url": "https://x", "method": "GET", "timeout": "30s"}}
    found = plan(sheet(backup(**short)), sheet(backup(**whole)), sheet(backup(**whole)))
    assert actions(found) == {"backup": "unchanged"}


def test_a_default_zone_and_a_calendar_mean_what_they_stand_for() -> None:
    file = sheet(
        backup(zone=None, exclude="off"), zone="Europe/Berlin", calendars={"off": "Sat,Sun"}
    )
    live = sheet(backup(exclude="Sat,Sun"))
    assert actions(plan(file, file, live)) == {"backup": "unchanged"}
    assert plan(file, None, ScheduleFile()).changes[0].entry == backup(exclude="Sat,Sun")


def test_what_runs_is_changed_as_a_whole() -> None:
    found = plan(sheet(backup(shell=None, command=("x",))), sheet(backup()), sheet(backup()))
    assert found.lines() == [
        '~ schedule backup  command: nothing -> ["x"], shell: "./backup" -> nothing'
    ]
    assert found.changes[0].entry == backup(shell=None, command=("x",))


def test_of_long_values_the_part_that_differs_is_shown() -> None:
    old, new = "x" * 200 + " --fast" + "y" * 90, "x" * 200 + " --full" + "y" * 90
    found = plan(sheet(backup(shell=new)), sheet(backup(shell=old)), sheet(backup(shell=old)))
    [line] = found.lines()
    assert line == (
        f"~ schedule backup  shell: …{'x' * 16} --fast{'y' * 37}… -> …{'x' * 16} --full{'y' * 37}…"
    )


def test_secrets_are_hidden_and_that_they_change_is_told() -> None:
    old, new = backup(env={"API_TOKEN": "hunter2"}), backup(env={"API_TOKEN": "hunter3"})
    found = plan(sheet(new), sheet(old), sheet(old))
    assert found.lines() == ["~ schedule backup  env: changed in a hidden part"]


# What a person changed.


def test_what_a_person_edited_stays_and_is_shown() -> None:
    last = report(queue="default")
    found = plan(sheet(last), sheet(last), sheet(report(queue="mail")))
    assert found.lines() == [
        '! schedule report  drift: queue is "mail" (set by a person), the file says "default"; '
        "put it into the file, or --take-back"
    ]
    assert (found.is_empty, found.has_drift) == (True, True)
    assert found.summary() == "1 drifted"


def test_a_persons_edit_stays_while_other_fields_follow_the_file() -> None:
    last, live = backup(overlap="allow"), backup(overlap="replace")
    found = plan(sheet(backup(overlap="allow", jitter="5m")), sheet(last), sheet(live))
    assert found.lines() == [
        '~ schedule backup  jitter: nothing -> "5m"',
        '! schedule backup  drift: overlap is "replace" (set by a person), the file says "allow"; '
        "put it into the file, or --take-back",
    ]
    assert found.changes[0].entry == backup(overlap="replace", jitter="5m")
    assert found.counts["change"] == found.counts["drifted"] == 1


def test_a_field_that_both_a_person_and_the_file_changed_stays_the_persons() -> None:
    found = plan(sheet(backup(queue="c")), sheet(backup(queue="a")), sheet(backup(queue="b")))
    assert actions(found) == {"backup": "drift"}
    again = plan(sheet(backup(queue="c")), found.record, sheet(backup(queue="b")))
    assert actions(again) == {"backup": "drift"}


def test_a_person_and_the_file_may_come_to_the_same() -> None:
    found = plan(sheet(backup(queue="b")), sheet(backup(queue="a")), sheet(backup(queue="b")))
    assert actions(found) == {"backup": "unchanged"}


def test_taken_back_the_file_has_its_way() -> None:
    last, live = backup(overlap="allow"), backup(overlap="replace", paused=True, note="ada")
    found = plan(sheet(last), sheet(last), sheet(live), take_back=True)
    assert found.lines() == [
        '~ schedule backup  paused: true -> false, note: "ada" -> nothing, '
        'overlap: "replace" -> "allow"'
    ]
    assert found.changes[0].entry == last
    assert not found.has_drift


def test_a_pause_by_a_person_is_not_ended_by_the_file() -> None:
    found = plan(sheet(backup()), sheet(backup()), sheet(backup(paused=True)))
    assert found.lines() == [
        "! schedule backup  drift: paused is true (set by a person), the file says false; "
        "put it into the file, or --take-back"
    ]


def test_a_rule_and_its_zone_are_one_choice() -> None:
    live = backup(rule="0 4 * * *")
    found = plan(sheet(backup(zone="Asia/Tokyo")), sheet(backup()), sheet(live))
    assert (actions(found), found.changes[0].entry) == ({"backup": "drift"}, live)
    assert [each.field for each in found.changes[0].drift] == ["rule", "zone"]


def test_what_a_person_made_it_run_stays_whole() -> None:
    live = backup(shell=None, command=("./mine",))
    found = plan(sheet(backup(cwd="/srv")), sheet(backup()), sheet(live))
    assert (actions(found), found.changes[0].entry) == ({"backup": "drift"}, live)


def test_what_a_person_removed_stays_removed_until_it_is_taken_back() -> None:
    file = sheet(backup())
    found = plan(file, file, ScheduleFile())
    assert found.lines() == [
        "! schedule backup  drift: removed by a person, the file still has it; take it out there, "
        "or --take-back"
    ]
    assert (found.is_empty, found.has_drift, found.record) == (True, True, file)
    assert actions(plan(file, file, ScheduleFile(), take_back=True)) == {"backup": "add"}


# What the task decides.


def test_what_neither_file_says_is_the_tasks_to_decide() -> None:
    live = report(queue="slow", priority=7, timeout="1h", attempts=9, title="the report")
    for taken_back in (False, True):
        found = plan(sheet(report()), sheet(report()), sheet(live), take_back=taken_back)
        assert actions(found) == {"report": "unchanged"}


def test_what_the_file_now_says_is_no_drift_from_what_the_task_decided() -> None:
    found = plan(sheet(report(queue="mail")), sheet(report()), sheet(report(queue="slow")))
    assert found.lines() == ['~ schedule report  queue: "slow" -> "mail"']


def test_what_the_file_says_no_longer_is_given_back_to_the_task() -> None:
    last = report(queue="mail")
    found = plan(sheet(report()), sheet(last), sheet(last))
    assert found.lines() == ['~ schedule report  queue: "mail" -> nothing']
    assert found.changes[0].entry == report()


def test_what_the_file_says_no_longer_and_a_person_changed_stays_and_is_shown() -> None:
    found = plan(sheet(report()), sheet(report(queue="mail")), sheet(report(queue="slow")))
    assert found.lines() == [
        '! schedule report  drift: queue is "slow" (set by a person), the file leaves it out; '
        "put it into the file, or --take-back"
    ]


DECIDED = {"title": "the report", "queue": "slow", "priority": 7, "timeout": None, "attempts": 9}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"queue": "ops"}, 'queue is "ops" (set by a person), the file leaves it at "slow"'),
        ({"queue": None}, 'queue is "default" (set by a person), the file leaves it at "slow"'),
        ({"priority": None}, "priority is 0 (set by a person), the file leaves it at 7"),
        ({"timeout": "1h"}, 'timeout is "1h" (set by a person), the file leaves it out'),
        ({"attempts": 1}, "attempts is 1 (set by a person), the file leaves it at 9"),
        ({"title": "Ops"}, 'title is "Ops" (set by a person), the file leaves it at "the report"'),
    ],
)
def test_what_a_person_made_of_a_tasks_decision_stays_and_is_shown(
    edit: dict[str, Any], said: str
) -> None:
    live, decided = sheet(report(**DECIDED | edit)), {"report": DECIDED}
    found = plan(sheet(report()), sheet(report()), live, decided=decided)
    assert found.lines() == [
        f"! schedule report  drift: {said}; put it into the file, or --take-back"
    ]
    taken = plan(sheet(report()), sheet(report()), live, decided=decided, take_back=True)
    [change] = taken.changes
    assert ([each.field for each in change.differences], change.drift) == ([*edit], ())


def test_what_the_task_decided_and_nobody_changed_is_unchanged() -> None:
    for take_back in (False, True):
        found = plan(
            sheet(report()),
            sheet(report()),
            sheet(report(**DECIDED)),
            decided={"report": DECIDED},
            take_back=take_back,
        )
        assert actions(found) == {"report": "unchanged"}


def test_a_persons_word_is_not_overwritten_by_what_the_file_now_says() -> None:
    facts: dict[str, Any] = {"decided": {"report": DECIDED}}
    last, live = sheet(report()), sheet(report(**DECIDED | {"queue": "ops"}))
    assert plan(sheet(report(queue="slow")), last, live, **facts).lines() == [
        '! schedule report  drift: queue is "ops" (set by a person), the file says "slow"; '
        "put it into the file, or --take-back"
    ]
    agreed = plan(sheet(report(queue="ops")), last, live, **facts)
    assert actions(agreed) == {"report": "unchanged"}


# What the file has no more, and what it never had.


def test_what_the_file_no_longer_has_is_removed_only_if_asked() -> None:
    last = live = sheet(backup(), report())
    kept = plan(sheet(backup()), last, live)
    assert kept.lines() == ["? schedule report  no longer in the file; --prune removes it"]
    assert (kept.is_empty, kept.has_drift, kept.record) == (True, False, last)
    pruned = plan(sheet(backup()), kept.record, live, prune=True)
    assert pruned.lines() == ["- schedule report"]
    assert pruned.record == sheet(backup())


def test_what_is_gone_from_both_the_file_and_the_store_is_forgotten() -> None:
    found = plan(ScheduleFile(), sheet(backup()), ScheduleFile(), prune=True)
    assert (found.changes, found.record) == ((), ScheduleFile())


def test_what_the_file_never_had_is_left_alone() -> None:
    found = plan(sheet(backup()), sheet(backup()), sheet(backup(), report()), prune=True)
    assert actions(found) == {"backup": "unchanged"}


def test_what_somebody_else_owns_is_not_taken_by_its_name() -> None:
    file, live = sheet(backup(queue="mail")), sheet(backup())
    found = plan(file, None, live, owners={"backup": "code"})
    assert found.lines() == ["! schedule backup  belongs to code; --take-back makes it the file's"]
    assert (found.is_empty, found.has_drift, found.record) == (True, True, ScheduleFile())
    taken = plan(file, None, live, owners={"backup": "code"}, take_back=True)
    assert taken.lines() == [
        '~ schedule backup  owner: "code" -> "file", queue: "default" -> "mail"'
    ]
    assert (taken.changes[0].entry, taken.record) == (backup(queue="mail"), file)


def test_what_is_taken_from_code_keeps_what_its_task_decided() -> None:
    live = sheet(report(queue="slow", overlap="allow"))
    found = plan(sheet(report()), None, live, owners={"report": "code"}, take_back=True)
    assert found.lines() == [
        '~ schedule report  owner: "code" -> "file", overlap: "allow" -> "skip"'
    ]


def test_what_a_newer_version_wrote_is_compared_by_its_words() -> None:
    live = sheet(backup(overlap="of_tomorrow"))
    assert plan(sheet(backup()), None, live).lines() == [
        '~ schedule backup  overlap: "of_tomorrow" -> "skip"'
    ]


def test_what_somebody_else_owns_by_now_is_not_pruned() -> None:
    last = live = sheet(backup())
    for owner, found in (("code", {}), ("api", {}), ("person", {"backup": "remove"})):
        assert (
            actions(plan(ScheduleFile(), last, live, owners={"backup": owner}, prune=True)) == found
        )


def test_what_the_file_owns_and_nobody_remembers_applying_follows_the_file() -> None:
    found = plan(sheet(backup(queue="b")), None, sheet(backup(queue="a")))
    assert found.lines() == ['~ schedule backup  queue: "a" -> "b"']


# Queues and limits.


def test_queues_and_limits_are_planned_as_schedules_are() -> None:
    file = ScheduleFile(
        queues={"mail": QueueEntry(name="mail", concurrency=5, rate="60/m", paused=True)},
        limits={"crm:{id}": LimitEntry(name="crm:{id}", rate="5/s")},
    )
    assert plan(file, None, ScheduleFile()).lines() == [
        "+ queue mail  concurrency 5, rate 60/m, paused",
        '+ limit "crm:{id}"  rate 5/s',
    ]
    assert plan(file, file, file).is_empty
    assert plan(ScheduleFile(), file, file, prune=True).lines() == [
        "- queue mail",
        '- limit "crm:{id}"',
    ]


def test_the_fields_of_a_queue_are_judged_one_by_one() -> None:
    found = plan(
        queues(mail={"concurrency": 9, "rate": "5/s"}),
        queues(mail={"concurrency": 5, "rate": "5/s"}),
        queues(mail={"concurrency": 5, "rate": "1/s"}),
    )
    assert found.lines() == [
        "~ queue mail  concurrency: 5 -> 9",
        '! queue mail  drift: rate is "1/s" (set by a person), the file says "5/s"; '
        "put it into the file, or --take-back",
    ]


def test_the_same_rate_in_other_words_is_no_change() -> None:
    one, other = limits(crm={"rate": "60/m"}), limits(crm={"rate": "60 / 60s"})
    assert actions(plan(one, one, other)) == {"crm": "unchanged"}


def test_the_numbers_of_a_limit_are_one_choice() -> None:
    last = limits(crm={"concurrency": 1, "rate": "5/s"})
    found = plan(limits(crm={"concurrency": 1}), last, limits(crm={"rate": "5/s"}))
    assert actions(found) == {"crm": "drift"}


# What holds for any three.

some_entries = st.lists(
    st.builds(
        lambda name, said: ScheduleEntry(**{"name": name, "rule": "every 5m", "task": "t"} | said),
        st.sampled_from(["a", "b", "c"]),
        st.fixed_dictionaries(
            {},
            optional={
                "rule": st.sampled_from(["every 1m", "every 5m"]),
                "queue": st.sampled_from(["default", "mail"]),
                "overlap": st.sampled_from(["skip", "allow"]),
                "paused": st.booleans(),
                "args": st.dictionaries(st.sampled_from(["x"]), st.integers(0, 2)),
            },
        ),
    ),
    max_size=3,
).map(lambda found: sheet(*found))


flags = st.fixed_dictionaries({"prune": st.booleans(), "take_back": st.booleans()})


def applied(found: FilePlan, live: ScheduleFile) -> ScheduleFile:
    """The store after the plan was carried out."""
    there = dict(live.schedules)
    for change in found.changes:
        if change.action == "remove":
            del there[change.name]
        elif change.is_work:
            assert isinstance(change.entry, ScheduleEntry)
            there[change.name] = change.entry
    return ScheduleFile(schedules=there)


@given(some_entries, some_entries, some_entries, flags)
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(
    file: ScheduleFile, last: ScheduleFile, live: ScheduleFile, asked: dict[str, Any]
) -> None:
    found = plan(file, last, live, **asked)
    again = plan(file, found.record, applied(found, live), **asked)
    assert again.is_empty
    assert not (asked["take_back"] and again.has_drift)


@given(some_entries, some_entries, some_entries)
def test_taking_all_back_and_pruning_leaves_what_the_file_says(
    file: ScheduleFile, last: ScheduleFile, live: ScheduleFile
) -> None:
    found = plan(file, last, live, prune=True, take_back=True)
    after = applied(found, live)
    others = set(live.schedules) - set(last.schedules) - set(file.schedules)
    assert set(after.schedules) == set(file.schedules) | others
    for name, entry in file.schedules.items():
        assert (after.schedules[name].rule, after.schedules[name].args) == (entry.rule, entry.args)
