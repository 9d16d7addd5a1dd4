"""``duly import``: from other schedulers to a file, and from there into a store."""

import sqlite3
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.cli.main import main
from duly.files.importers.apscheduler import PRINT_JOBS
from tests.cli.test_plan import duly, said
from tests.cli.test_schedules import plan, store

__all__ = ["store"]

CRONTAB = """\
MAILTO=ada@example.com
PATH=/usr/bin:/bin
# m h  dom mon dow   command
# Nightly backup
30 2 * * * /srv/backup --full >> /var/log/backup.log 2>&1
*/5 * * * * cd /srv && ./tick
@daily echo hello%and a line
@reboot /srv/start
0 9 * * 1-5 curl -fsS https://example.com/report
"""
TIMER = """\
[Unit]
Description=Nightly backup
[Timer]
OnCalendar=*-*-* 02:30
Persistent=true
"""
SERVICE = "[Service]\nExecStart=/srv/backup --full\n"
BEAT = """\
from datetime import timedelta
class Conf:
    timezone = "Europe/Berlin"
    beat_schedule = {"every-minute": {"task": "shop.tick", "schedule": timedelta(minutes=1)}}
class App:
    conf = Conf
schedule = Conf.beat_schedule
number = 7
"""
SHOP = """\
from duly import Duly
app = Duly()
@app.task(name="shop.nightly")
def nightly() -> None: ...
"""
DJANGO = """\
create table django_celery_beat_crontabschedule (id integer, minute text, hour text,
    day_of_week text, day_of_month text, month_of_year text, timezone text);
create table django_celery_beat_periodictask (id integer, name text, task text, args text,
    kwargs text, enabled bool, crontab_id integer, interval_id integer);
insert into django_celery_beat_crontabschedule
    values (1, '30', '2', '*', '*', '*', 'Europe/Berlin');
insert into django_celery_beat_periodictask
    values (1, 'nightly', 'shop.nightly', '[]', '{}', 1, 1, null);
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def imported(*words: str, text: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["import", *words], input=text, prog_name="duly")


def test_a_crontab_is_imported_planned_applied_and_then_nothing_is_left_to_do(store: str) -> None:
    result = imported("crontab", "--zone", "Europe/Berlin", text=CRONTAB)
    assert result.exit_code == 0, result.output
    Path("schedules.toml").write_text(result.stdout)
    assert said("plan") == [
        "+ schedule backup  30 2 * * * Europe/Berlin  shell",
        "+ schedule tick  */5 * * * * Europe/Berlin  shell",
        "+ schedule echo  @daily Europe/Berlin  shell",
        "+ schedule curl  0 9 * * 1-5 Europe/Berlin  shell",
        "4 to add",
    ]
    said("apply")
    assert said("plan") == ["nothing to do: 4 unchanged"]
    assert plan(store, "backup").title == "Nightly backup"
    Path("exported.toml").write_text(duly("export").stdout)
    assert said("plan", "exported.toml", "--name", "schedules.toml") == [
        "nothing to do: 4 unchanged"
    ]


def test_what_could_not_be_carried_is_said_beside_the_file() -> None:
    result = imported("crontab", "-", "--zone", "UTC", text=CRONTAB)
    assert "note: line 1: MAILTO=ada@example.com is not converted" in result.stderr
    assert "note: line 8: @reboot is not a rule about time" in result.stderr
    assert result.stderr.endswith("4 schedules\n")
    assert "note:" not in result.stdout


def test_what_could_not_be_read_is_said_last_and_counted_and_the_rest_is_printed(
    folder: Path,
) -> None:
    wrong = "MAILTO=ada\n61 * * * * /srv/one\n5 * * * * /srv/two\nwhat is this\n"
    result = imported("crontab", "--zone", "UTC", text=wrong)
    assert (result.exit_code, result.stdout.count("[schedules")) == (1, 1)
    assert result.stderr.splitlines()[-4:] == [
        "1 schedule",
        'warning: line 2: minute 61 is out of range 0–59 (field 1 of "61 * * * *"); it is left out',
        'warning: line 4: "what is this" is neither a job nor a variable; it is left out',
        "2 lines could not be read and are left out",
    ]
    (folder / "cron.d").mkdir()
    (folder / "cron.d" / "shop").write_text("61 * * * * root /srv/one\n")
    both = imported("crontab", "cron.d", "--zone", "UTC")
    assert (both.exit_code, both.stdout) == (1, "")
    assert both.stderr.splitlines()[-2:] == [
        'warning: shop: line 1: minute 61 is out of range 0–59 (field 1 of "61 * * * *"); '
        "it is left out",
        "1 line could not be read and is left out",
    ]


def test_a_crontab_needs_a_zone_and_the_machine_is_only_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    result = imported("crontab", text=CRONTAB)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "this machine is Asia/Tokyo: pass --zone Asia/Tokyo" in result.stderr
    assert imported("crontab", "--zone", "Europe/Berln", text=CRONTAB).exit_code == 2


def test_a_folder_of_crontabs_names_users_and_no_schedule_twice(folder: Path) -> None:
    there = folder / "cron.d"
    there.mkdir()
    (there / "one").write_text("0 1 * * * app /srv/backup\n")
    (there / "two").write_text("0 2 * * * app /srv/backup\n")
    (there / "two.dpkg-old").write_text("0 3 * * * app /srv/backup\n")
    result = imported("crontab", str(there), "--zone", "UTC")
    assert "[schedules.backup]" in result.stdout
    assert '[schedules.backup-2]\nrule = "0 2 * * *"' in result.stdout
    assert "0 3 * * *" not in result.stdout
    assert "note: two.dpkg-old: cron does not read a file of such a name" in result.stderr
    assert "note: two: line 1: ran as app" in result.stderr


def test_whether_a_crontab_names_users_can_be_said(folder: Path) -> None:
    (folder / "tab").write_text("0 1 * * * app /srv/backup\n")
    users, none = (
        imported("crontab", "tab", "--zone", "UTC", flag).stdout for flag in ("--system", "--user")
    )
    assert 'shell = "/srv/backup"' in users
    assert 'shell = "app /srv/backup"' in none


def test_timers_are_read_from_a_folder_a_file_and_what_systemctl_prints(folder: Path) -> None:
    units = folder / "units"
    units.mkdir()
    (units / "backup.timer").write_text(TIMER)
    (units / "backup.service").write_text(SERVICE)
    shown = f"# /etc/systemd/system/backup.timer\n{TIMER}\n"
    shown += f"# /etc/systemd/system/backup.service\n{SERVICE}"
    zone = ("--zone", "Europe/Berlin")
    outputs = [
        imported("systemd", "units", *zone).stdout,
        imported("systemd", "units/backup.timer", *zone).stdout,
        imported("systemd", *zone, text=shown).stdout,
    ]
    assert 'command = ["/srv/backup", "--full"]' in outputs[0]
    assert outputs[0] == outputs[1] == outputs[2]
    (units / "backup.timer.d").mkdir()
    (units / "backup.timer.d" / "later.conf").write_text("[Timer]\nRandomizedDelaySec=5m\n")
    assert 'jitter = "5m"' in imported("systemd", "units", *zone).stdout


def test_a_beat_schedule_is_read_from_an_app_or_by_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "beat_of_shop.py").write_text(BEAT)
    for source in ("beat_of_shop:App", "beat_of_shop:schedule", "beat_of_shop.py:App"):
        result = imported("celery-beat", source)
        assert result.exit_code == 0, result.output
        assert 'rule = "every 1m"' in result.stdout
        assert 'task = "shop.tick"' in result.stdout
    wrong = imported("celery-beat", "beat_of_shop:number")
    assert (wrong.exit_code, "neither a Celery app nor" in wrong.stderr) == (2, True)
    bare = imported("celery-beat", "beat_of_shop")
    assert (bare.exit_code, "as beat_of_shop:app" in bare.stderr) == (2, True)
    (folder / "beat_broken.py").write_text("1 / 0")
    broken = imported("celery-beat", "beat_broken:app")
    assert (broken.exit_code, "ZeroDivisionError" in broken.stderr) == (1, True)


def test_jobs_that_apscheduler_printed_are_read_and_it_is_shown_how() -> None:
    line = (
        '{"id": "tick", "name": "tick", "func_ref": "shop:tick", '
        '"trigger": "interval[0:01:00]", "args": [], "kwargs": {}, "timezone": "UTC"}'
    )
    result = imported("apscheduler", text=line)
    assert result.exit_code == 0, result.output
    assert "[schedules.tick]" in result.stdout
    nothing = imported("apscheduler", text="")
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert "for job in scheduler.get_jobs():" in nothing.stderr


def test_the_tables_of_django_celery_beat_are_imported_planned_and_applied(store: str) -> None:
    connection = sqlite3.connect("shop.sqlite3")
    connection.executescript(DJANGO)
    connection.close()
    result = imported("celery-beat", "shop.sqlite3")
    assert result.exit_code == 0, result.output
    assert "note: every task: it is called as in Celery" in result.stderr
    Path("schedules.toml").write_text(result.stdout)
    assert said("plan") == [
        "+ schedule nightly  30 2 * * * Europe/Berlin  shop.nightly",
        "1 to add",
    ]
    Path("shop_of_django.py").write_text(SHOP)
    said("apply", "--app", "shop_of_django.py")
    assert plan(store, "nightly").task == "shop.nightly"
    dump = imported("celery-beat", "-", text="no dump")
    assert (dump.exit_code, "python manage.py dumpdata" in dump.stderr) == (2, True)
    assert imported("celery-beat", "nowhere.sqlite3").exit_code == 3


def test_an_entry_of_beat_with_positional_arguments_is_applied_paused(store: str) -> None:
    Path("beat_of_mail.py").write_text(
        BEAT.replace('"shop.tick",', '"shop.mail", "args": ("ada",),')
    )
    result = imported("celery-beat", "beat_of_mail:App")
    assert "until then it is paused" in result.stderr
    Path("schedules.toml").write_text(result.stdout)
    Path("shop_of_mail.py").write_text(
        "from duly import Duly\napp = Duly()\n"
        '@app.task(name="shop.mail")\ndef mail(to: str) -> None: ...\n'
    )
    said("apply", "--app", "shop_of_mail.py")
    assert said("plan") == ["nothing to do: 1 unchanged"]
    assert plan(store, "every-minute").task == "shop.mail"


def test_a_job_store_of_apscheduler_is_never_opened() -> None:
    connection = sqlite3.connect("jobs.sqlite")
    connection.execute(
        "create table apscheduler_jobs (id text, next_run_time real, job_state blob)"
    )
    connection.close()
    for source in ("jobs.sqlite", "sqlite:///jobs.sqlite", "redis://:secret@host"):
        refused = imported("apscheduler", source)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "is a job store: its jobs are pickles" in refused.stderr
        assert "for job in scheduler.get_jobs():" in refused.stderr
        assert "secret" not in refused.stderr


def test_the_help_shows_the_lines_that_print_the_jobs() -> None:
    shown = imported("apscheduler", "--help").stdout
    assert textwrap.indent(PRINT_JOBS, "  ") in shown
    guide = Path(__file__).parents[2] / "docs" / "from-apscheduler.md"
    assert PRINT_JOBS in guide.read_text()


def test_what_cannot_be_read_is_said(folder: Path) -> None:
    assert imported("crontab", "nowhere", "--zone", "UTC").exit_code == 3
    latin = imported("crontab", "--zone", "UTC", text="# für\n".encode("latin1"))
    assert (latin.exit_code, "stdin is not UTF-8 at byte 3" in latin.stderr) == (2, True)
    assert imported("systemd", str(folder / "none.timer"), "--zone", "UTC").exit_code == 3
