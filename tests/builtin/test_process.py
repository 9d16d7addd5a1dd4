"""``shell`` and ``command``: real programs, what they are given, and what becomes of their end."""

import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from duly.builtin.process_group import LONGEST_LINE
from duly.builtin.shell import CommandFailed, command, shell
from duly.errors import Permanent
from duly.model.journal import MOST_LINES
from duly.testing import context

NOON = datetime(2027, 1, 3, 12, tzinfo=UTC)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="duly.job"):
        yield caplog


def lines(said: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in said.records]


async def test_a_line_is_for_the_shell() -> None:
    assert await shell("echo one | tr a-z A-Z && echo two") == {"exit": 0, "tail": "ONE\ntwo"}


async def test_a_command_is_not_for_the_shell() -> None:
    found = await command(["printf", "%s\n", "$HOME | *", ""])
    assert found["tail"] == "$HOME | *"


async def test_what_it_prints_is_in_the_log_and_errors_are_warnings(
    said: pytest.LogCaptureFixture,
) -> None:
    await shell("echo out; sleep 0.1; echo err >&2")
    assert lines(said) == [("INFO", "out"), ("WARNING", "err")]


async def test_the_log_is_the_one_of_its_job(said: pytest.LogCaptureFixture) -> None:
    with context(due_at=NOON, task="duly.shell"):
        await shell("echo out")
    assert said.records[0].name == "duly.job.duly.shell"


async def test_it_is_given_what_it_reads() -> None:
    text = "ä\n" * 100_000
    assert (await command(["wc", "-c"], stdin=text))["tail"] == "300000"


async def test_it_has_nothing_to_read_unless_something_is_said() -> None:
    assert (await command(["wc", "-c"]))["tail"] == "0"


async def test_it_runs_in_the_folder_that_is_said(tmp_path: Path) -> None:
    assert (await command(["pwd"], cwd=str(tmp_path)))["tail"] == str(tmp_path)


async def test_a_folder_that_is_not_there_is_for_good(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match=r'cwd=".*/nowhere": there is no such folder'):
        await command(["pwd"], cwd=str(tmp_path / "nowhere"))


async def test_it_sees_little_of_the_environment_of_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    monkeypatch.setenv("LC_TIME", "C")
    found = str((await command(["env"], env={"SAID": "so", "HOME": "/"}))["tail"]).splitlines()
    names = {line.partition("=")[0] for line in found}
    assert {"PATH", "LC_TIME", "SAID", "HOME"} <= names
    assert "HOME=/" in found
    assert "DATABASE_PASSWORD" not in names


async def test_it_knows_its_job() -> None:
    with context(due_at=NOON, attempt=2, task="duly.shell"):
        found = await shell("echo $DULY_JOB_ID $DULY_ATTEMPT $DULY_DUE_AT ${DULY_SCHEDULE-none}")
    assert found["tail"] == "0 2 2027-01-03T12:00:00+00:00 none"


async def test_an_exit_that_is_not_0_is_an_error_and_shows_the_last_lines() -> None:
    with pytest.raises(CommandFailed) as caught:
        await shell("seq 20; echo no disk >&2; exit 3")
    first, _, *last = str(caught.value).splitlines()
    assert first == "exit 3: no disk"
    assert last == ["Its last lines:", *map(str, range(12, 21)), "no disk"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("exit 3", "exit 3"),
        ("exit 255", "exit 255"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("sh -c 'kill -KILL $$'; exit $?", "exit 137 (as shells say of SIGKILL): Killed"),
    ],
)
async def test_how_it_ended_is_said(line: str, message: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        await shell(line)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-program"], "exit 127: no-such-program: it was not found; see PATH"),
        (["/etc/passwd"], "exit 126: /etc/passwd: not executable: Permission denied"),
        (["{folder}/text"], "exit 126: {folder}/text: it is no program; a script begins with #!"),
        (["{folder}/script"], "it was not found; nor is what its first line names"),
        (["sh", "-c", "no-such-program"], "exit 127 (a command was not found): sh:"),
        (["sh", "-c", "/etc/passwd"], "exit 126 (a command is not executable): sh:"),
        (["echo", "a\0b"], "echo: it cannot be started with these words: embedded null byte"),
        ([], "command: no program is named"),
    ],
)
async def test_what_cannot_be_started_is_not_tried_again(
    tmp_path: Path, argv: list[str], message: str
) -> None:
    for name, text in {"text": "just words", "script": "#!/no/interpreter\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    with pytest.raises(Permanent) as caught:
        await command([word.format(folder=tmp_path) for word in argv])
    assert message.format(folder=tmp_path) in str(caught.value)


async def test_a_program_that_is_in_no_folder_of_the_path_is_not_found(tmp_path: Path) -> None:
    """The kernel says "permission denied" of both, and shells go on looking."""
    closed, folders = tmp_path / "closed", tmp_path / "folders"
    (folders / "no-such-program").mkdir(parents=True)
    closed.mkdir(mode=0)
    for folder in (closed, folders):
        with pytest.raises(Permanent) as caught:
            await command(["no-such-program"], env={"PATH": f"{folder}:/usr/bin:/bin"})
        assert "exit 127: no-such-program: it was not found; see PATH" in str(caught.value)


async def test_a_folder_of_the_path_that_may_not_be_searched_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    with pytest.raises(Permanent) as caught:
        await command(["no-such-program"], env={"PATH": f"{closed}:/usr/bin:/bin"})
    is_closed = not os.access(closed, os.X_OK)  # to root, nothing is
    assert str(caught.value).endswith(f"of which {closed} may not be searched") == is_closed


async def test_an_empty_line_is_refused() -> None:
    with pytest.raises(Permanent, match="the line is empty"):
        await shell("  ")


async def test_bytes_that_are_no_text_are_replaced(said: pytest.LogCaptureFixture) -> None:
    found = await shell(r"printf 'a\377b\000c\n\303'; sleep 0.1; printf '\244'")
    assert lines(said) == [("INFO", "a\ufffdb\0c"), ("INFO", "ä")]
    assert found["tail"] == "a\ufffdb\ufffdc\nä"


async def test_a_line_without_end_is_cut_and_counted(said: pytest.LogCaptureFixture) -> None:
    found = await shell("head -c 300000 /dev/zero | tr '\\0' x; echo; echo next")
    first, second = (text for _, text in lines(said))
    assert first == "x" * LONGEST_LINE + f"… ({300_000 - LONGEST_LINE:,} characters more)"
    assert second == "next"
    assert len(str(found["tail"])) == 2_000


async def test_of_a_progress_bar_the_end_is_logged(said: pytest.LogCaptureFixture) -> None:
    await shell(r"printf '1%%\r50%%\r100%%\r\n'")
    assert lines(said) == [("INFO", "100%")]


async def test_a_flood_is_read_to_its_end_and_not_logged(said: pytest.LogCaptureFixture) -> None:
    found = await shell("yes | head -n 3000000; echo the end")
    assert len(said.records) == MOST_LINES
    assert str(found["tail"]).endswith("\ny\nthe end")
