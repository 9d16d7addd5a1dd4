"""What clock changes did to a schedule is in its ledger: told once, by the row it happened in."""

from dataclasses import replace

from duly.model.policies import Missed
from tests.policy.deciding import at, decided, rows, schedule

BERLIN = "Europe/Berlin"
GAP = "2027-03-28 02:30 does not exist in Europe/Berlin: due at 03:00."
FOLD = "2026-10-25 02:30 happens twice in Europe/Berlin: due once, the first time."


def test_a_moment_moved_by_a_clock_change_says_so_once() -> None:
    found = schedule("30 2 * * *", "2027-03-27 01:30", zone=BERLIN)
    firing = decided(found, "2027-03-28 01:00")
    assert rows(firing) == ["28 01:00 queued"]
    assert firing.entries[0].reason == f"queued on time. {GAP}"
    following = replace(found, cursor=firing.cursor, next_at=firing.next_at)
    assert decided(following, "2027-03-29 00:30").entries[0].reason == "queued on time"


def test_a_moment_dropped_by_a_clock_change_is_told_by_the_next_fire() -> None:
    found = schedule("30 2 * * *", "2026-10-24 00:30", zone=BERLIN)
    first = decided(found, "2026-10-25 00:30")
    assert first.entries[0].reason == "queued on time"
    following = replace(found, cursor=first.cursor, next_at=first.next_at)
    firing = decided(following, "2026-10-26 01:30")
    assert firing.entries[0].reason == f"queued on time. {FOLD}"


def test_a_clock_change_between_a_moment_and_its_late_decision_is_told() -> None:
    found = schedule("30 2 * * *", "2026-10-24 00:30", zone=BERLIN)
    firing = decided(found, "2026-10-25 01:30")
    assert firing.entries[0].reason == f"queued 1 hour late. {FOLD}"


def test_in_a_long_outage_each_clock_change_is_told_by_the_row_it_happened_in() -> None:
    missed = Missed("all", at_most=2)
    found = schedule("30 2 * * *", "2026-10-20", zone=BERLIN, missed=missed, overlap="allow")
    older, moved, newest = decided(found, "2027-03-29 00:30").entries
    assert older.count == 159
    assert older.reason.endswith(f"the newest 2 runs. {FOLD}")
    assert moved.reason == f"queued 23 hours and 30 minutes late. {GAP}"
    assert newest.reason == "queued on time"


def test_a_note_stays_with_the_moment_whose_job_went_on() -> None:
    found = schedule(
        "30 2 * * *", "2027-03-27 12:00", zone=BERLIN, missed=Missed("all"), overlap="queue_one"
    )
    moved, newest = decided(found, "2027-03-29 00:30").entries
    assert moved.reason == f"merged into the run of Mon 2027-03-29 02:30 Europe/Berlin. {GAP}"
    assert newest.reason == "queued on time"


def test_a_year_down_counts_the_moments_that_clock_changes_moved() -> None:
    found = schedule("30 2 * * *", "2026-06-03 12:00", zone=BERLIN)
    merged, newest = decided(found, "2027-06-03 12:00").entries
    assert (merged.count, merged.due_at, newest.due_at) == (
        364,
        at("2027-06-02 00:30"),
        at("2027-06-03 00:30"),
    )
    assert merged.reason == (
        f"merged into the run of Thu 2027-06-03 02:30 Europe/Berlin. {FOLD} {GAP}"
    )


def test_a_rule_of_two_clocks_tells_the_changes_of_both() -> None:
    found = schedule("0 1 * * * UTC | 30 2 * * * Europe/Berlin", "2027-03-27 12:00")
    assert GAP in decided(found, "2027-03-28 01:00").entries[0].reason


def test_elapsed_time_knows_no_clock_changes() -> None:
    found = schedule("every 1h", "2027-03-27 12:00")
    assert "exist" not in " ".join(e.reason for e in decided(found, "2027-03-28 12:00").entries)
