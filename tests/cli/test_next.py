"""``duly next`` as a user meets it."""

import json
import platform
import re

import pytest
from click.testing import CliRunner, Result

from duly import __version__
from duly.cli import main
from duly.store.sqlite.connection import sqlite3


def duly(*words: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(main, words)


def test_the_sentence_comes_first_then_the_moments() -> None:
    shown = duly("next", "Mon..Fri 09:00 Europe/Berlin", "--from", "2026-11-13T12:00Z", "-n", "2")
    assert shown.exit_code == 0
    assert shown.stdout == (
        "Weekdays at 09:00 Europe/Berlin.\n"
        "\n"
        "Europe/Berlin            OFFSET  UTC                   IN\n"
        "Mon 2026-11-16 09:00:00  +01:00  2026-11-16T08:00:00Z  in 2 d 20 h\n"
        "Tue 2026-11-17 09:00:00  +01:00  2026-11-17T08:00:00Z  in 3 d 20 h\n"
    )


def test_a_rule_without_quotes_is_told_to_have_them() -> None:
    shown = duly("next", "0", "2", "*", "*", "*")
    assert shown.exit_code == 2
    assert 'put the rule in quotes: duly next "0 2 * * * Europe/Berlin"' in shown.stderr


def test_json_is_a_list_of_utc_times() -> None:
    shown = duly("next", "every 90m", "--from", "2026-11-13T12:00Z", "-n", "2", "-o", "json")
    assert json.loads(shown.stdout) == ["2026-11-13T13:30:00Z", "2026-11-13T15:00:00Z"]


def test_a_rule_without_a_zone_is_shown_in_utc() -> None:
    shown = duly("next", "*/20 * * * *", "--from", "2026-11-13T12:00Z", "-n", "2")
    assert shown.stdout == (
        "Every 20 minutes.\n"
        "\n"
        "UTC                       IN\n"
        "Fri 2026-11-13T12:20:00Z  in 20 min\n"
        "Fri 2026-11-13T12:40:00Z  in 40 min\n"
    )


def test_a_zone_given_beside_the_rule_is_used_and_shown() -> None:
    shown = duly("next", "0 9 * * *", "--zone", "Asia/Kolkata", "--from", "2026-11-13", "-n", "1")
    assert "Fri 2026-11-13 09:00:00  +05:30  2026-11-13T03:30:00Z  in 9 h" in shown.stdout


def test_a_rule_that_ends_says_so() -> None:
    shown = duly("next", "2026-12-24T18:00Z", "--from", "2026-11-13T12:00Z")
    assert shown.stdout.endswith("\nNothing after 2026-12-24 18:00:00 UTC.\n")


def test_a_fixed_delay_shows_one_moment() -> None:
    shown = duly("next", "spaced 10m", "--from", "2026-11-13T12:00Z")
    assert shown.stdout == (
        "10 minutes after the end of the last run.\n"
        "\n"
        "After a run that ends at 2026-11-13T12:00:00Z: 2026-11-13T12:10:00Z.\n"
    )


def test_notes_warn_of_clock_changes() -> None:
    shown = duly("next", "02:30 Europe/Berlin", "--from", "2027-03-01", "--dst", "systemd")
    assert "Note: 2027-03-28 02:30 does not exist in Europe/Berlin: will not run.\n" in shown.stdout


def test_a_wrong_rule_is_pointed_at_and_exits_with_2() -> None:
    shown = duly("next", "0 9 * foo *", "--zone", "UTC")
    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert shown.stderr == (
        'Error: "foo" is not a month (field 4 of "0 9 * foo *"); did you mean feb?\n'
        "\n"
        "    0 9 * foo *\n"
        "          ^\n"
    )


def test_a_missing_zone_offers_the_machines_own() -> None:
    shown = duly("next", "0 9 * * *", TZ="Europe/Berlin")
    assert shown.exit_code == 2
    assert shown.stderr.endswith('This machine is in Europe/Berlin: "0 9 * * * Europe/Berlin"\n')


@pytest.mark.parametrize(
    "words",
    [
        ["next"],
        ["next", "every 5m", "-n", "0"],
        ["next", "every 5m", "--from", "soon"],
        ["next", "every 5m", "--zone", "Europe/Berln"],
        ["next", "0 9 * * *", "--zone", "Europe/Berln"],
        ["next", "0 9 * * * UTC", "--dst", "sometimes"],
        ["next", "every 5m", "-o", "xml"],
        ["nxt"],
    ],
)
def test_wrong_words_exit_with_2_and_nothing_on_stdout(words: list[str]) -> None:
    shown = duly(*words)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr


def test_a_missing_zone_is_offered_where_it_belongs() -> None:
    shown = duly("next", "every 5m - *-12-24..31 lasting=24h", TZ="Asia/Tokyo")
    assert '"every 5m - *-12-24..31 Asia/Tokyo lasting=24h"' in shown.stderr
    assert "This machine" not in duly("next", "0 9 * * *", TZ="Mars/Base").stderr


def test_a_wrong_start_is_told_as_such() -> None:
    shown = duly("next", "spaced 10m", "--from", "2026-01-01T00:00")
    assert "--from: " in shown.stderr
    assert "needs an offset, as in 2026-01-01T00:00Z, or a zone" in shown.stderr


def test_help_teaches_with_examples() -> None:
    shown = duly("next", "--help").stdout
    assert "\\b" not in shown
    assert '\n    duly next "Mon..Fri 09:00 Europe/Berlin"\n' in shown
    for example in ('duly next "Mon..Fri 09:00 Europe/Berlin"', "holidays(DE-BE)", "RRULE:FREQ="):
        assert example in shown


def test_the_version_is_known() -> None:
    shown = duly("--version").stdout
    python = re.escape(platform.python_version())
    libraries = rf"SQLite {sqlite3.sqlite_version}, psycopg [\d.]+"
    assert re.fullmatch(rf"duly {__version__} \(Python {python}, tables 1, {libraries}\)\n", shown)


def test_the_version_names_the_store_if_one_is_configured_without_its_password() -> None:
    shown = duly("--version", DULY_URL="postgresql://me:secret@db/shop").stdout
    assert shown.endswith(", store postgresql://me:***@db/shop)\n")
    assert ", store " not in duly("--version", DULY_URL="nonsense://").stdout
