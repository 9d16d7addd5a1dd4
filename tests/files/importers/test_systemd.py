"""What becomes of systemd's timers."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from duly.errors import ZoneMissing
from duly.files import ScheduleEntry
from duly.files.file_text import read, write
from duly.files.importers.systemd import from_shown_units, from_units
from duly.files.importers.systemd_units import read_span, split_words

UNITS = Path(__file__).parent / "units"
BERLIN = "Europe/Berlin"
DAILY = "[Timer]\nOnCalendar=daily\n"


def real(*names: str) -> dict[str, str]:
    return {
        f"/lib/systemd/system/{path.name}": path.read_text()
        for name in names
        for path in sorted(UNITS.glob(f"{name}.*"))
    }


def only(texts: Mapping[str, str], **options: str | None) -> ScheduleEntry:
    found = from_units(texts, **{"zone": BERLIN} | options)
    [entry] = found.sheet.schedules.values()
    return entry


def service(text: str) -> ScheduleEntry:
    return only({"a.timer": DAILY, "a.service": f"[Service]\nType=oneshot\n{text}"})


def timer(text: str) -> ScheduleEntry:
    return only({"a.timer": f"[Timer]\n{text}", "a.service": "[Service]\nExecStart=/bin/a\n"})


def notes(texts: Mapping[str, str]) -> list[str]:
    return list(from_units(texts, zone=BERLIN).notes)


def test_apt_daily_waits_for_the_network_but_does_not_insist() -> None:
    assert only(real("apt-daily")) == ScheduleEntry(  # noqa: S604 - nothing is run here
        name="apt-daily",
        rule="*-*-* 6,18:00",
        zone=BERLIN,
        shell="{ /usr/lib/apt/apt-helper wait-online || true; } && "
        "/usr/lib/apt/apt.systemd.daily update",
        title="Daily apt download activities",
        missed="latest",
        dst="systemd",
        jitter="12h",
    )


def test_fstrim_is_a_program_with_its_arguments() -> None:
    assert only(real("fstrim")) == ScheduleEntry(
        name="fstrim",
        rule="weekly",
        zone=BERLIN,
        command=(
            *("/sbin/fstrim", "--listed-in", "/etc/fstab:/proc/self/mountinfo"),
            *("--verbose", "--quiet-unsupported"),
        ),
        title="Discard unused blocks once a week",
        missed="latest",
        dst="systemd",
        jitter="1h40m",
    )
    assert notes(real("fstrim")) == [
        "fstrim.service: ConditionVirtualization is not checked: put a test before the command",
        "fstrim.service: PrivateDevices, PrivateNetwork and SystemCallFilter are not converted: "
        "duly puts no limits and no fence around a command; write systemd-run, nice or their like "
        "before it where they matter",
        "fstrim.timer: AccuracySec= lets systemd start up to 1h late to save power; duly starts on "
        'time: write jitter = "1h" where that spread a load',
        "fstrim.timer: ConditionVirtualization and ConditionPathExists are not checked: put a test "
        "before the command",
    ]


def test_logrotate_and_certbot() -> None:
    logrotate, certbot = only(real("logrotate")), only(real("certbot"))
    assert logrotate.command == ("/usr/sbin/logrotate", "/etc/logrotate.conf")
    assert (logrotate.rule, logrotate.jitter, logrotate.missed) == ("daily", "1h", "latest")
    assert certbot.command == ("/usr/bin/certbot", "-q", "renew", "--no-random-sleep-on-renew")
    assert (certbot.rule, certbot.jitter) == ("*-*-* 00,12:00:00", "12h")


def test_man_db_runs_its_three_commands_one_after_the_other() -> None:
    entry = only(real("man-db"))
    assert entry.shell == (
        "/usr/bin/install -d -o man -g man -m 0755 /var/cache/man && "
        "/usr/bin/find /var/cache/man -type f -name '*.gz' -atime +6 -delete && "
        "/usr/bin/mandb --quiet"
    )
    assert entry.note == "ran as man"
    said = " ".join(notes(real("man-db")))
    assert "its 3 commands become one line" in said
    assert "it ran with all privileges" in said
    assert "User=man: duly runs a command as the user who started the worker" in said


def test_tmpfiles_clean_is_a_fixed_rate_without_a_zone() -> None:
    texts = real("systemd-tmpfiles-clean")
    assert only(texts, zone=None) == ScheduleEntry(
        name="systemd-tmpfiles-clean",
        rule="every 24h",
        command=("systemd-tmpfiles", "--clean"),
        title="Daily Cleanup of Temporary Directories",
    )
    said = " ".join(notes(texts))
    assert "OnBootSec=15min is not converted" in said
    assert "SuccessExitStatus=DATAERR is not converted: every exit code but 0 is a failure" in said


def test_all_of_them_can_be_written_and_read_again() -> None:
    texts = {path.name: path.read_text() for path in UNITS.iterdir()}
    sheet = from_units(texts, zone=BERLIN).sheet
    assert len(sheet.schedules) == 6
    assert read(write(sheet)).schedules.keys() == sheet.schedules.keys()


def test_a_template_runs_for_its_instance() -> None:
    texts = real("pg_dump@")
    entry = only(texts | {"pg_dump@15-main.timer": texts["/lib/systemd/system/pg_dump@.timer"]})
    assert entry.name == "pg_dump@15-main"
    assert entry.title == "Weekly Dump of PostgreSQL Cluster 15-main"
    assert entry.env == {"KEEP": "3"}
    assert entry.shell == (
        "/usr/bin/pg_backupcluster 15-main createdirectory && "
        "/usr/bin/pg_backupcluster 15-main dump && "
        "/usr/bin/pg_backupcluster 15-main expiredumps $KEEP"
    )
    assert entry.rule.startswith("weekly delay=")
    assert entry.jitter is None


def test_a_template_alone_asks_for_an_instance() -> None:
    assert notes(real("pg_dump@")) == [
        "pg_dump@.timer: a template runs for an instance: give it as pg_dump@NAME.timer, for each"
    ]


def test_an_escaped_instance_is_unescaped_where_that_is_asked_for() -> None:
    texts = {
        "a@srv-x\\x2dy.timer": DAILY,
        "a@.service": "[Service]\nExecStart=/bin/a %i %I %p %n 50%%\n",
    }
    assert only(texts).command == (
        *("/bin/a", "srv-x\\x2dy", "srv/x-y", "a", "a@srv-x\\x2dy.service", "50%"),
    )


def test_timers_have_no_zone_of_their_own() -> None:
    with pytest.raises(ZoneMissing) as refused:
        from_units(real("certbot"), machine_zone=BERLIN)
    assert str(refused.value) == (
        "a timer has no zone; this machine is Europe/Berlin: pass --zone Europe/Berlin"
    )


def test_a_rule_that_names_its_zone_needs_no_other() -> None:
    texts = {
        "a.timer": "[Timer]\nOnCalendar=Mon..Fri 09:00 Asia/Tokyo\n",
        "a.service": "[Service]\nExecStart=/bin/a\n",
    }
    assert only(texts, zone=None).zone is None


def test_several_calendars_are_one_rule() -> None:
    entry = timer("OnCalendar=Mon 02:00\nOnCalendar=*-*-01  03:00 UTC\n")
    assert (entry.rule, entry.zone) == ("Mon 02:00 | *-*-01 03:00 UTC", BERLIN)


def test_a_fixed_delay_is_picked_for_all_of_several_calendars() -> None:
    entry = timer("OnCalendar=02:00\nOnCalendar=14:00\nRandomizedDelaySec=1h\nFixedRandomDelay=yes")
    assert entry.rule.startswith("(02:00 | 14:00) delay=")


def test_a_timer_that_is_not_persistent_makes_up_for_nothing() -> None:
    assert timer("OnCalendar=daily\n").missed == "skip"
    assert timer("OnCalendar=daily\nPersistent=no\n").missed == "skip"


def test_counting_from_the_end_of_a_run_is_a_fixed_delay() -> None:
    entry = timer("OnUnitInactiveSec=1h 30min\n")
    assert (entry.rule, entry.missed, entry.dst) == ("spaced 1h30m", None, None)


def test_a_fixed_delay_takes_no_other_and_gets_jitter() -> None:
    entry = timer("OnUnitInactiveSec=1h\nRandomizedDelaySec=5min\nFixedRandomDelay=true\n")
    assert (entry.rule, entry.jitter) == ("spaced 1h", "5m")


def test_a_timer_for_the_boot_alone_is_left_out() -> None:
    texts = {"a.timer": "[Timer]\nOnBootSec=5min\n", "a.service": "[Service]\nExecStart=/bin/a\n"}
    assert notes(texts) == [
        "a.timer: OnBootSec says nothing that recurs; it is left out: start it with the machine, "
        "as before"
    ]


def test_a_timer_without_its_service_is_left_out() -> None:
    assert notes({"a.timer": f"{DAILY}Unit=b.service\n"}) == [
        "a.timer: b.service is not among the files: give it too; left out"
    ]
    assert notes({"a.timer": f"{DAILY}Unit=b.target\n"}) == [
        "a.timer: it starts b.target, which runs nothing; it is left out"
    ]


def test_a_service_without_a_command_is_left_out() -> None:
    assert notes({"a.timer": DAILY, "a.service": "[Service]\nType=oneshot\n"}) == [
        "a.service: it has no ExecStart=; it is left out"
    ]


def test_a_calendar_that_cannot_be_read_is_left_out() -> None:
    texts = {
        "a.timer": "[Timer]\nOnCalendar=Mun 02:00\n",
        "a.service": "[Service]\nExecStart=/bin/a\n",
    }
    [note] = notes(texts)
    assert note.startswith('a.timer: "Mun" is not a weekday')
    assert note.endswith("; it is left out")


def test_files_without_a_timer_say_so() -> None:
    assert notes({"a.service": "[Service]\nExecStart=/bin/a\n"}) == [
        "systemd: there is no .timer among the files, so nothing is due"
    ]


def test_a_drop_in_adds_to_its_unit_and_takes_back() -> None:
    texts = {
        "/lib/systemd/system/a.timer": "[Timer]\nOnCalendar=daily\nPersistent=true\n",
        "/etc/systemd/system/a.timer.d/when.conf": "[Timer]\nOnCalendar=\nOnCalendar=weekly\n",
        "/lib/systemd/system/a.service": "[Service]\nExecStart=/bin/a\n",
    }
    entry = only(texts)
    assert (entry.rule, entry.missed) == ("weekly", "latest")


def test_what_systemctl_cat_prints_is_read_as_well() -> None:
    shown = (
        "# /lib/systemd/system/a.timer\n[Timer]\nOnCalendar=daily\n\n"
        "# /etc/systemd/system/a.timer.d/more.conf\n[Timer]\nPersistent=true\n\n"
        "# /lib/systemd/system/a.service\n[Service]\n# a remark\nExecStart=/bin/a\n"
    )
    [entry] = from_shown_units(shown, zone=BERLIN).sheet.schedules.values()
    assert (entry.name, entry.missed, entry.command) == ("a", "latest", ("/bin/a",))


@pytest.mark.parametrize(
    ("line", "command", "shell"),
    [
        ('/bin/a \'b c\' "d\\"e" f\\x2dg', ("/bin/a", "b c", 'd"e', "f-g"), None),
        ("/bin/a \\\n  --long\\\n  --line", ("/bin/a", "--long", "--line"), None),
        ("/bin/date +%%F $$HOME", ("/bin/date", "+%F", "$HOME"), None),
        ("@/bin/a shown-as b", ("/bin/a", "b"), None),
        (":/bin/a $HOME ${HOME}", ("/bin/a", "$HOME", "${HOME}"), None),
        ("-/bin/a 'b c'", (), "/bin/a 'b c' || true"),
        ("/bin/a $WORDS ${ONE}/x y$z", (), "/bin/a $WORDS \"${ONE}/x\" 'y$z'"),
        ("/bin/a; b", ("/bin/a;", "b"), None),
        ("/bin/a ; /bin/b", (), "/bin/a && /bin/b"),
        ("/bin/find . -exec rm {} \\;", ("/bin/find", ".", "-exec", "rm", "{}", ";"), None),
    ],
)
def test_a_command_is_what_systemd_would_run(
    line: str, command: tuple[str, ...], shell: str | None
) -> None:
    entry = service(f"ExecStart={line}\n")
    assert (entry.command, entry.shell) == (command, shell)


def test_where_and_with_what_it_runs() -> None:
    entry = service(
        "ExecStart=/bin/a\nWorkingDirectory=-/srv\nTimeoutStartSec=5min\n"
        "Environment=A=1 'B=two words'\nEnvironment=C=3\n"
    )
    assert (entry.cwd, entry.timeout) == ("/srv", "5m")
    assert entry.env == {"A": "1", "B": "two words", "C": "3"}


@pytest.mark.parametrize(
    ("setting", "note"),
    [
        ("WorkingDirectory=~", "WorkingDirectory=~ is not converted"),
        ("EnvironmentFile=-/etc/default/a", "EnvironmentFile=-/etc/default/a is not read"),
        ("Restart=on-failure", "Restart=on-failure is not converted"),
        ("ExecStopPost=/bin/b", "ExecStopPost=/bin/b is not converted"),
        ("DynamicUser=yes", "DynamicUser is not converted"),
        ("Environment=A=%h", "%h stands there unfilled: write what it stood for"),
    ],
)
def test_what_a_service_loses_is_noted(setting: str, note: str) -> None:
    texts = {"a.timer": DAILY, "a.service": f"[Service]\nExecStart=/bin/a\n{setting}\n"}
    [said] = notes(texts)
    assert said.startswith(f"a.service: {note}")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1h 30min", 5400), ("2.5s", 2.5), ("1d12h", 129600), ("1M", 30.44 * 86400)],
)
def test_a_length_of_time_is_read_as_systemd_reads_it(text: str, seconds: float) -> None:
    found = read_span(text)
    assert found is not None
    assert found.total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "infinity", "5 parsecs", "soon", "1h x"])
def test_what_is_no_length_of_time_is_none(text: str) -> None:
    assert read_span(text) is None


def test_a_quotation_mark_without_its_fellow_leaves_the_timer_out() -> None:
    assert notes({"a.timer": DAILY, "a.service": "[Service]\nExecStart=/bin/a 'b\n"}) == [
        "a.service: a ' without its fellow; it is left out"
    ]
    assert split_words("a '' b") == ["a", "", "b"]
