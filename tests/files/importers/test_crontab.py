"""What becomes of a crontab."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from duly.errors import RuleError, ZoneMissing
from duly.files import ScheduleEntry
from duly.files.file_text import read, write
from duly.files.importers.crontab import from_crontab
from duly.rules import Rule, parse

HERE = Path(__file__).parent
BERLIN = "Europe/Berlin"


def imported(text: str, **options: object) -> list[ScheduleEntry]:
    found = from_crontab(text, **{"zone": BERLIN} | options)  # type: ignore[arg-type]
    return list(found.sheet.schedules.values())


def notes(text: str) -> list[str]:
    """Those about the lines, without the last, which is about cron itself."""
    return [note for note in from_crontab(text, zone=BERLIN).notes if "every line" not in note]


@pytest.mark.parametrize(("crontab", "jobs"), [("crontab", 50), ("cron_d", 13)])
def test_a_crontab_from_the_real_world_becomes_what_was_written_down(
    crontab: str, jobs: int
) -> None:
    found = from_crontab((HERE / f"{crontab}.txt").read_text(), zone=BERLIN).sheet
    expected = read((HERE / f"{crontab}.toml").read_text())
    assert len(expected.schedules) == jobs
    without_notes = [replace(entry, note="") for entry in found.schedules.values()]
    assert without_notes == list(expected.schedules.values())


@pytest.mark.parametrize("crontab", ["crontab", "cron_d"])
def test_what_is_written_is_the_file_that_was_expected(crontab: str) -> None:
    found = from_crontab((HERE / f"{crontab}.txt").read_text(), zone=BERLIN).sheet
    assert write(found) == (HERE / f"{crontab}.toml").read_text()


def test_the_notes_of_a_real_crontab_name_every_line_that_lost_something() -> None:
    said = from_crontab((HERE / "crontab.txt").read_text(), zone=BERLIN).notes
    assert [note.split(": ")[0] for note in said] == [
        *("line 10", "line 57", "line 58", "line 69"),  # mail, two @reboot, ~
        *("line 79", "line 80", "line 82", "line 86"),  # PATH, SHELL, CRON_TZ, TZ
        *("line 89", "line 90"),  # a minute 61, a field too few
        "every line",
    ]


def test_a_crontab_without_a_zone_is_refused_with_the_one_of_the_machine() -> None:
    with pytest.raises(ZoneMissing) as refused:
        from_crontab("0 2 * * * backup", machine_zone=BERLIN)
    assert str(refused.value) == (
        "a crontab has no zone; this machine is Europe/Berlin: pass --zone Europe/Berlin"
    )


def test_a_machine_that_does_not_know_its_zone_asks_for_one() -> None:
    with pytest.raises(ZoneMissing, match=r"^a crontab has no zone: pass the one it ran in, as"):
        from_crontab("0 2 * * * backup")


def test_a_zone_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(RuleError, match="Europe/Berlin"):
        from_crontab("", zone="Europe/Berlinn")


def test_a_crontab_that_says_its_zone_needs_no_other() -> None:
    [entry] = imported("CRON_TZ='Asia/Tokyo'\n0 2 * * * backup", zone=None)
    assert entry.zone == "Asia/Tokyo"


def test_a_zone_holds_for_the_lines_below_it_alone() -> None:
    first, second = imported("0 2 * * * one\nCRON_TZ=Asia/Tokyo\n0 2 * * * two")
    assert (first.zone, second.zone) == (BERLIN, "Asia/Tokyo")


def test_an_unknown_cron_zone_is_noted_and_the_given_one_holds() -> None:
    text = "CRON_TZ=Mars/Base\n0 2 * * * backup"
    assert imported(text)[0].zone == BERLIN
    [note] = notes(text)
    assert note.startswith("line 1: CRON_TZ=Mars/Base is not converted: ")


def test_the_day_of_the_month_or_the_weekday_is_enough_as_in_cron() -> None:
    [entry] = imported("30 4 1,15 * 5 payday", zone="UTC")
    rule = parse(entry.rule, zone=entry.zone, name=entry.name)
    assert isinstance(rule, Rule)
    november = rule.between(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
    assert [moment.day for moment in november] == [1, 6, 13, 15, 20, 27]


@pytest.mark.parametrize(
    ("line", "shell", "stdin"),
    [
        (r"echo a\%b", "echo a%b", None),
        ("cat%one%two", "cat", "one\ntwo\n"),
        ("cat%one%", "cat", "one\n"),
        ("cat%", "cat", None),
        (r"cat%100\% of it", "cat", "100% of it\n"),
        (r"echo 'a%b'", "echo 'a", "b'\n"),  # quotation marks protect nothing
        (r"printf '\n\\'%x", r"printf '\n\\'", "x\n"),
        (r"echo \\%x", r"echo \\", "x\n"),  # the backslash is escaped, not the percent sign
        ("echo \\", "echo \\", None),
    ],
)
def test_a_percent_sign_ends_the_command_as_in_cron(
    line: str, shell: str, stdin: str | None
) -> None:
    [entry] = imported(f"0 2 * * * {line}")
    assert (entry.shell, entry.stdin) == (shell, stdin)


def test_variables_hold_for_the_jobs_below_them() -> None:
    first, second = imported("A=1\n0 2 * * * one\n'B' = ' two words '\nA=2\n0 3 * * * two")
    assert (first.env, second.env) == ({"A": "1"}, {"A": "2", "B": " two words "})


def test_home_is_where_a_command_starts() -> None:
    [entry] = imported("HOME=/srv\n0 2 * * * ./backup")
    assert (entry.cwd, entry.env) == ("/srv", {"HOME": "/srv"})


def test_another_shell_is_called_by_name() -> None:
    [entry] = imported("SHELL=/bin/bash\n0 2 * * * diff <(a) <(b)")
    assert (entry.shell, entry.command) == (None, ("/bin/bash", "-c", "diff <(a) <(b)"))


def test_the_usual_shell_and_mail_to_nobody_are_no_loss() -> None:
    assert notes('SHELL=/bin/sh\nMAILTO=""\n0 2 * * * /srv/backup') == []


def test_a_random_delay_is_jitter() -> None:
    first, second = imported("RANDOM_DELAY=45\n0 2 * * * a\nRANDOM_DELAY=0\n0 2 * * * b")
    assert (first.jitter, second.jitter) == ("45m", None)


@pytest.mark.parametrize(
    ("when", "rule"),
    [
        ("~ * * * *", "H * * * *"),
        ("0~29 2~4 * * *", "H(0-29) H(2-4) * * *"),
        ("10~ ~5 * * mon~fri", "H(10-59) H(0-5) * * H(1-5)"),
        ("0 0 5~10 jan~mar *", "0 0 H(5-10) H(1-3) *"),
        ("~/10 * * * *", "H/10 * * * *"),
    ],
)
def test_what_cron_picks_at_random_is_picked_by_the_name(when: str, rule: str) -> None:
    [entry] = imported(f"{when} backup")
    assert entry.rule == rule


def test_a_comment_directly_above_is_the_title() -> None:
    text = "# far away\n\n# Nightly\n# backup\n0 2 * * * a\n0 3 * * * b"
    assert [entry.title for entry in imported(text)] == ["Nightly backup", ""]


def test_a_job_switched_off_is_no_title_and_no_job() -> None:
    text = "# old\n#0 2 * * * old\n#@daily older\n0 3 * * * new"
    [entry] = imported(text)
    assert (entry.name, entry.title) == ("new", "")


def test_a_line_of_dashes_or_the_heading_of_the_columns_is_no_title() -> None:
    text = "# ------\n0 2 * * * a\n# m h dom mon dow command\n0 2 * * * b"
    assert [entry.title for entry in imported(text)] == ["", ""]


def test_a_very_long_comment_is_cut() -> None:
    [entry] = imported(f"# {'word ' * 100}\n0 2 * * * a")
    assert len(entry.title) == 200
    assert entry.title.endswith("…")


def test_a_user_is_found_before_the_command_if_every_line_has_one() -> None:
    text = "0 2 * * * root /srv/backup\n0 3 * * * www-data php cron.php"
    assert [entry.shell for entry in imported(text)] == ["/srv/backup", "php cron.php"]


def test_a_line_without_a_user_makes_it_a_crontab_of_a_user() -> None:
    text = "0 2 * * * root /srv/backup\n0 3 * * * /srv/www"
    assert [entry.shell for entry in imported(text)] == ["root /srv/backup", "/srv/www"]


def test_who_asks_decides_whether_there_are_users() -> None:
    [entry] = imported("0 2 * * * ada /srv/backup", system=True)
    assert (entry.shell, entry.note) == ("/srv/backup", "ran as ada")
    [entry] = imported("0 2 * * * root /srv/backup", system=False)
    assert (entry.shell, entry.note) == ("root /srv/backup", "")


def test_users_are_noted_with_their_lines() -> None:
    text = "0 2 * * * root /a\n0 3 * * * ada /b\n0 4 * * * root /c\n"
    assert notes(text) == [
        "lines 1 and 3: ran as root; duly runs a command as the user who started the worker: start "
        "one as root with a queue of its own, or write sudo -u root before the command",
        "line 2: ran as ada; duly runs a command as the user who started the worker: start "
        "one as ada with a queue of its own, or write sudo -u ada before the command",
    ]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("@reboot /srv/start", "line 1: @reboot is not a rule about time, so "),
        ("0 2 * * *", 'line 1: "0 2 * * *" is neither a job nor a variable; it is left out'),
        ("0 25 * * * late", "line 1: hour 25 is out of range 0–23"),
        ("0 0 31 2 * never", 'line 1: "0 0 31 2 *" never occurs'),
        ("@dayly typo", 'line 1: "@dayly" is not one of @yearly'),
        ("RANDOM_DELAY=soon", "line 1: RANDOM_DELAY=soon is not a number of minutes; left out"),
        ("MAILFROM=me", "line 1: MAILFROM=me is not converted: [alerts] in duly.toml sends mail"),
        ("0 2 * * * a\0b", "line 1: schedules.toml: [schedules.a-b] shell = "),
        ("LOGNAME=me", "line 1: LOGNAME is not converted: cron itself does not heed it"),
    ],
)
def test_what_cannot_be_carried_is_left_out_and_noted(text: str, note: str) -> None:
    assert imported(text) == []
    [said] = notes(text)
    assert said.startswith(note)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("PATH=$PATH:/x\n0 2 * * * a", "line 1: PATH=$PATH:/x is kept as it is"),
        ("TZ=UTC\n0 2 * * * a", "line 1: TZ=UTC becomes env of the commands"),
        ("5/15 * * * * a", "line 1: 5/15 means from 5 on in steps"),
        ("0 2 * * * ./a", "line 1: cron starts in the user's home"),
        ("0 2 * * * bin/a", "line 1: cron starts in the user's home"),
    ],
)
def test_what_is_carried_otherwise_is_noted(text: str, note: str) -> None:
    assert len(imported(text)) == 1
    assert any(said.startswith(note) for said in notes(text))


def test_lines_may_end_as_on_windows_and_begin_with_blanks() -> None:
    [entry] = imported("  0 2 * * *   backup  --all \r\n\r\n")
    assert (entry.rule, entry.shell) == ("0 2 * * *", "backup  --all")


def test_an_empty_crontab_is_an_empty_sheet_and_needs_no_zone() -> None:
    found = from_crontab("# nothing yet\n")
    assert (dict(found.sheet.schedules), found.notes) == ({}, ())
