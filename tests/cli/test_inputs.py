"""What has no end is not read to the end, and what is long is read in the time that it takes."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.cli.inputs import MOST_BYTES
from duly.cli.main import main
from duly.files.file_text import MOST_ENTRIES

TOO_MUCH = "has more than 10 MB"


@pytest.mark.parametrize(
    "words",
    [
        "import crontab",
        "import systemd",
        "import celery-beat -",
        "import apscheduler",
        "import crontab /dev/zero",
        "import apscheduler /dev/zero",
        "plan /dev/zero",
    ],
)
def test_a_device_without_an_end_is_refused(words: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duly", *words.split()]
    # As little memory as will do: who reads on dies of it, and not the machine.
    limited = ["prlimit", f"--as={1 << 30}", *command]
    with Path("/dev/zero").open("rb") as zero:
        done = subprocess.run(
            limited, stdin=zero, cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert TOO_MUCH in done.stderr


def test_the_files_of_a_folder_are_counted_together(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"#" * (MOST_BYTES // 2 + 1))
    done = CliRunner().invoke(main, ["import", "crontab", str(tmp_path), "--zone", "UTC"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{tmp_path}/b {TOO_MUCH}" in done.stderr


def test_more_than_a_file_of_schedules_may_have_is_refused() -> None:
    lines = "".join(f"{minute % 60} 3 * * * x\n" for minute in range(MOST_ENTRIES + 1))
    done = CliRunner().invoke(main, ["import", "crontab", "--zone", "UTC"], input=lines)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "more than 10,000 entries or 1,000,000 characters" in done.stderr


def test_what_is_no_crontab_at_all_is_not_told_line_by_line() -> None:
    done = CliRunner().invoke(main, ["import", "crontab", "--zone", "UTC"], input="x\n" * 30_000)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Error: there are more than 20,000 things in it" in done.stderr
    assert "line 20001: is it what it was taken for?" in done.stderr


def test_variables_that_every_job_carries_do_not_grow_without_an_end() -> None:
    variables = "".join(f"V{number}={'x' * 1_000}\n" for number in range(100))
    jobs = "".join(f"{minute} * * * * job\n" for minute in range(60))
    done = CliRunner().invoke(main, ["import", "crontab", "--zone", "UTC"], input=variables + jobs)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "take it in parts" in done.stderr


def test_what_could_not_be_carried_is_told_without_secrets_or_commands() -> None:
    crontab = "DB_PASSWORD=hunter2$x\n\x1b]0;pwned\x07 odd\n0 3 * * * x\n"
    done = CliRunner().invoke(main, ["import", "crontab", "--zone", "UTC"], input=crontab)
    assert done.exit_code == 1
    assert "DB_PASSWORD=*** is kept" in done.stderr
    assert "]0;pwned  odd" in done.stderr
    assert "\x1b" not in done.stderr
    assert "hunter2$x" in done.stdout
