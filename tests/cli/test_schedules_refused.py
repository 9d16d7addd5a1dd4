"""``duly schedules``: what cannot be done is refused with its reason, and changes nothing."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.cli import main
from duly.cli.schedules import schedules
from tests.cli.test_formats import at_terminal
from tests.cli.test_schedules import done, duly, store

__all__ = ["store"]

REFUSED = {
    "what to run is not said": (["every 5m"], "--task NAME KEY=VALUE…, or -- and a command"),
    "nothing behind the dashes": (
        ["every 5m", "--"],
        "--task NAME KEY=VALUE…, or -- and a command",
    ),
    "a task and a command": (["every 5m", "--task", "a", "--", "b"], "--task NAME KEY=VALUE…, or"),
    "an argument before a command": (
        ["every 5m", "x=1", "--", "b"],
        '"x=1": put the arguments of a',
    ),
    "no pair": (
        ["every 5m", "--task", "a", "b"],
        '"b": write an argument of a task as KEY=VA',
    ),
    "a key twice": (["every 5m", "--task", "a", "b=1", "b=2"], '"b" is given twice'),
    "no zone": (
        ["Mon 02:00", "--task", "a"],
        "\n    Mon 02:00\n             ^\n\nThis machine is in",
    ),
    "no such zone": (["Mon 02:00", "--zone", "Europe/Berln", "--task", "a"], "mean Europe/Berlin"),
    "no rule": (["every 5", "--task", "a"], 'write "5s" or "5m"'),
    "no length": (["every 5m", "--task", "a", "--jitter", "5"], 'jitter: "5" is not a'),
    "no time": (
        ["every 5m", "--task", "a", "--end", "soon"],
        '"soon" is not a time; write it as 2026',
    ),
    "a time without a zone": (
        ["every 5m", "--task", "a", "--end", "2090-01-01"],
        "T00:00Z, or a zone",
    ),
    "no choice": (
        ["every 5m", "--task", "a", "--overlap", "no"],
        "'no' is not one of 'skip', 'queue_",
    ),
    "no priority": (
        ["every 5m", "--task", "a", "--priority", "top"],
        "priority='top': expected \"high\", ",
    ),
    "no name": (["every 5m", "--task", "a", "--name", ""], "name: a name must not be empty"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_added_is_refused_with_its_reason(words: list[str], said: str) -> None:
    result = duly("add", *words)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert done("-o", "name") == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say what to change"),
        (["--rule", "Mon 02:00"], "\n    Mon 02:00\n             ^"),
        (["--zone", "Europe/Berln"], "did you mean Europe/Berlin"),
        (["--dst", "never"], 'dst="never" is not a choice'),
        (["--start", "soon"], '"soon" is not a time'),
        (["--priority", "101"], "priority=101"),
        (["--at-most", "0"], "0 is not in the range"),
    ],
    ids=" ".join,
)
def test_an_edit_that_cannot_be_is_refused_and_changes_nothing(words: list[str], said: str) -> None:
    done("add", "2090-01-01T00:00Z", "--task", "a")
    before = done("show", "a", "-o", "json")
    result = duly("edit", "a", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert done("show", "a", "-o", "json") == before


@pytest.mark.parametrize("until", ["yesterday", "1990-01-01", "5"])
def test_a_pause_ends_in_the_future(until: str) -> None:
    done("add", "every 5m", "--task", "a")
    result = duly("pause", "a", "--until", until)
    assert (result.exit_code, result.stdout) == (2, "")
    assert until in result.stderr
    assert done().splitlines()[1].split()[-1] == "a"
    assert "paused" not in done()


@pytest.mark.parametrize("words", [[], ["list"], ["show", "a"], ["pause", "a"], ["remove", "a"]])
def test_only_adding_makes_a_store(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.db"
    result = CliRunner().invoke(main, ["schedules", *words], env={"DULY_URL": str(path)})
    assert (result.exit_code, result.stdout) == (5, "")
    assert f"no database at {path}" in result.stderr
    assert not path.exists()


def test_an_option_before_the_verb_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    done("add", "every 5m", "--task", "a")
    result = duly("--store", str(tmp_path / "other.db"), "pause", "a")
    assert result.exit_code == 2
    assert "the verb comes first: duly schedules pause …; as a text: text:pause" in result.stderr


def test_timers_are_schedules_and_not_in_the_help() -> None:
    done("add", "every 5m", "--task", "a")
    assert CliRunner().invoke(main, ["timers", "-o", "name"]).stdout == "a\n"
    assert "timers" not in CliRunner().invoke(main, ["--help"]).stdout


def test_every_verb_explains_itself_with_examples() -> None:
    for name, verb in schedules.commands.items():
        text = duly(name, "--help").stdout
        assert "  duly schedules" in text.partition("Options:")[0].partition("\n\n")[2], name
        assert verb.help is not None
        assert name in text


@pytest.mark.parametrize(("answer", "left"), [("y", ""), ("n", "a\n"), ("", "a\n")])
def test_at_a_terminal_somebody_is_asked_before_a_schedule_goes(
    store: str, answer: str, left: str
) -> None:
    done("add", "every 5m", "--task", "a")
    code, text = at_terminal("schedules", "remove", "a", answer=answer)
    assert 'Remove "a", every 5m? [y/N]' in text
    assert (code, done("-o", "name")) == (0 if answer == "y" else 1, left)
