"""What falls into a pause is skipped, or made up for as after an outage: never lost."""

import pytest

from duly.model.fire import Cause
from duly.model.schedule import Pause
from duly.policy.firing import skipped_by_pause
from tests.policy.deciding import at, decided, rows, schedule


def test_a_pause_that_ended_by_itself_skips_what_fell_into_it() -> None:
    pause = Pause(since=at("2026-06-02 20:00"), until=at("2026-06-02 23:00"), by="ana", note="move")
    firing = decided(schedule("every 1h", "2026-06-02 20:00", pause=pause), "2026-06-03 00:00")
    assert rows(firing) == ["02 21:00 to 02 23:00 (3) skipped paused", "03 00:00 queued"]
    said = "the schedule was paused by ana since Tue 2026-06-02 20:00 UTC: move"
    assert firing.entries[0].reason == said


def test_a_pause_that_catches_up_is_an_outage() -> None:
    pause = Pause(since=at("2026-06-02 20:00"), until=at("2026-06-02 23:00"), catch_up=True)
    firing = decided(schedule("every 1h", "2026-06-02 20:00", pause=pause), "2026-06-02 23:00")
    assert rows(firing) == ["02 21:00 to 02 22:00 (2) merged", "02 23:00 queued"]


@pytest.mark.parametrize("until", [None, at("2026-06-03 09:00")])
@pytest.mark.parametrize("rule", ["every 1h", "spaced 1h"])
def test_while_a_schedule_is_paused_nothing_is_decided(rule: str, until: object) -> None:
    pause = Pause(since=at("2026-06-02 20:00"), until=until)  # type: ignore[arg-type]
    found = schedule(rule, "2026-06-02 20:00", pause=pause, next_at=pause.until)
    firing = decided(found, "2026-06-03 08:59")
    assert firing.entries == []
    assert (firing.cursor, firing.next_at) == (found.cursor, until)


def test_days_left_out_stay_left_out_in_a_pause() -> None:
    found = schedule("0 9 * * *", "2026-06-04 10:00", zone="UTC", exclude="Sat,Sun lasting=1d")
    entries = skipped_by_pause(found, at("2026-06-09 08:00"), frozenset())
    assert [(entry.count, entry.cause) for entry in entries] == [
        (2, Cause.EXCLUDED),
        (2, Cause.PAUSED),
    ]
    assert entries[1].covers_from == at("2026-06-05 09:00")
    assert entries[1].due_at == at("2026-06-08 09:00")


def test_a_pause_without_a_moment_leaves_no_row() -> None:
    found = schedule("0 9 * * *", "2026-06-04 10:00", zone="UTC")
    assert skipped_by_pause(found, at("2026-06-05 08:00"), frozenset()) == []
    assert (
        skipped_by_pause(schedule("spaced 1m", "2026-06-04"), at("2026-06-05"), frozenset()) == []
    )
