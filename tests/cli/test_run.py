"""``duly run``: values by their types, a job for the workers, and an exit code by what became."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.cli import main
from duly.errors import PayloadError
from duly.model.states import State
from tests.app.programs import Programs
from tests.app.shop import put_up
from tests.cli import office
from tests.infrastructure.tables import with_tables

APP = "tests.cli.office"


@pytest.fixture(autouse=True)
def office_is_open(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DULY_URL", url)
    monkeypatch.setenv("DULY_APP", APP)
    importlib.reload(office)
    yield
    office.duly.close()


@pytest.fixture
def store(office_is_open: None) -> None:
    """It is there, and empty."""
    office.duly.jobs.count()


@pytest.fixture
def at_work(office_is_open: None) -> Iterator[None]:
    with office.duly.running(scheduler=False):
        yield


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["run", *words])


@pytest.mark.usefixtures("store")
def test_it_prints_the_number_of_a_job_that_waits_for_a_worker() -> None:
    done = command("typed", "text=hello")
    assert done.exit_code == 0
    job = office.duly.jobs.get(int(done.stdout))
    assert (job.task, job.state) == ("typed", State.READY)


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("text=3", {"text": "3"}),
        ("text={}", {"text": "{}"}),
        ("text=", {"text": ""}),
        ('text="quoted"', {"text": '"quoted"'}),
        ("text=a=b c", {"text": "a=b c"}),
        ("n=-3", {"n": -3}),
        ("part=2.5", {"part": 2.5}),
        ("day=2026-03-05", {"day": "2026-03-05"}),
        ("day=null", {"day": None}),
        ("yes=true", {"yes": True}),
        ("yes=1", {"yes": True}),
        ("rows=[1, 2]", {"rows": [1, 2]}),
        ('box={"size": 3, "label": "x"}', {"box": {"size": 3, "label": "x"}}),
        ("either=7", {"either": 7}),
        ("either=seven", {"either": "seven"}),
        ("maybe=7", {"maybe": "7"}),
        ("colour=red", {"colour": "red"}),
        ("bare=[1]", {"bare": [1]}),
        ("bare=plain", {"bare": "plain"}),
    ],
)
def test_a_value_is_read_by_the_type_of_its_parameter(typed: str, read: dict[str, object]) -> None:
    text = [] if typed.startswith("text=") else ["text=x"]
    done = command("typed", *text, typed, "--wait", "--timeout", "9s")
    assert done.exit_code == 0, done.stderr
    names = ["text", "n", "part", "day", "yes", "rows", "box", "either", "maybe", "colour", "bare"]
    given = dict(zip(names, json.loads(done.stdout), strict=True))
    assert {name: given[name] for name in read} == read


@pytest.mark.usefixtures("at_work")
def test_names_that_only_kwargs_take_are_read_by_their_type() -> None:
    done = command("many", "a=1", "b=2", "--wait")
    assert json.loads(done.stdout) == {"a": 1, "b": 2}
    refused = command("many", "a=x")
    assert (refused.exit_code, "a=x" in refused.stderr) == (2, True)


def test_a_built_in_task_needs_no_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DULY_APP", raising=False)
    monkeypatch.setenv("DULY_URL", str(with_tables(tmp_path / "duly.db")))
    done = command("duly.send", "target=main", "task=shop.add", "args=[2,3]")
    assert done.exit_code == 0, done.stderr
    shown = CliRunner().invoke(main, ["jobs", "show", done.stdout.strip(), "-o", "json"])
    assert json.loads(shown.stdout)["args"] == {
        "target": "main",
        "task": "shop.add",
        "args": [2, 3],
    }
    monkeypatch.setenv("DULY_APP", APP)
    assert command("duly.shell", "line=true").exit_code == 0
    refused = command("duly.send", "taks=x")
    assert (refused.exit_code, "did you mean task=?" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["tpyed", "text=x"], 3, 'there is no task "tpyed"; did you mean "typed"?'),
        (["typed", "txt=x"], 2, 'typed has no parameter "txt"; did you mean text=?'),
        (["typed", "zzz=x"], 2, 'typed has no parameter "zzz"; the task is typed(text: str'),
        (["typed", "x"], 2, '"x": arguments need names: text=x'),
        (["typed"], 2, "missing a required argument: 'text'"),
        (["typed", "text=x", "text=y"], 2, "text= was given before"),
        (["typed", "text=x", "n=three"], 2, "typed: n=three: that is no int"),
        (
            ["typed", "text=x", "rows=[1,x]"],
            2,
            "typed: rows=[1,x]: that is not JSON: expecting value at character 4\n",
        ),
        (
            ["typed", "text=x", 'rows=[1,"x"]'],
            2,
            "Error: typed: argument `rows[1]`: expected int, got str\n",
        ),
        (
            ["typed", "text=x", 'box={"size":"a"}'],
            2,
            "Error: typed: argument `box.size`: expected int, got str\n",
        ),
        (
            ["typed", "text=x", "day=tomorrow"],
            2,
            "Error: typed: day=tomorrow: write a date as 2026-03-05\n",
        ),
        (["typed", "text=x", "colour=blue"], 2, "colour=blue"),
        (["typed", "text=x", "--timeout", "1s"], 2, "--timeout needs --wait"),
        (["typed", "text=x", "--wait", "--timeout", "1"], 2, "--timeout 1: expected a duration"),
        (["typed", "text=x", "--run-after", "30"], 2, '--run-after 30: give a unit, "30s"'),
        (["typed", "text=x", "--run-after", "soon"], 2, '"soon" is not a time'),
        (["typed", "text=x", "--priority", "huge"], 2, "priority"),
        (["typed", "text=x", "--app", "no.such"], 3, 'there is no module "no"'),
    ],
)
@pytest.mark.usefixtures("store")
def test_what_cannot_be_run_is_refused_before_anything_is_promised(
    words: list[str], code: int, said: str
) -> None:
    done = command(*words)
    assert (done.exit_code, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr
    assert office.duly.jobs.count() == 0


def test_what_is_wrong_is_said_in_the_words_of_python() -> None:
    with pytest.raises(PayloadError) as refused:
        office.typed.bind("x", box=office.Box(size="a")).asked()  # type: ignore[arg-type]
    told = command("typed", "text=x", 'box={"size":"a"}')
    assert told.stderr == f"Error: {refused.value}\n"


def test_it_makes_no_store(tmp_path: Path) -> None:
    (tmp_path / "duly.db").unlink()
    done = command("typed", "text=x")
    assert (done.exit_code, done.stdout) == (5, "")
    assert "no database at" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("store")
def test_what_is_said_about_the_job_is_kept() -> None:
    done = command(
        "typed", "text=x", "--queue", "slow", "--key", "k", "--run-after", "1h", "--tenant", "acme",
        "--priority", "high", "--tag", "a", "--tag", "b",
    )  # fmt: skip
    job = office.duly.jobs.get(int(done.stdout))
    assert (job.queue, job.key, job.tenant, job.tags) == ("slow", "k", "acme", ("a", "b"))
    assert job.state is State.SCHEDULED
    again = command("typed", "text=y", "--key", "k", "--run-after", "2099-01-01T00:00Z")
    assert again.stdout == done.stdout
    assert job.refresh().due_at.year == 2099
    command("typed", "text=y", "--key", "k", "--run-after", "12-24 18:00 UTC")
    assert (job.refresh().due_at.month, job.due_at.day) == (12, 24)


@pytest.mark.usefixtures("at_work")
def test_waiting_shows_what_the_job_says_and_then_its_result(tmp_path: Path) -> None:
    sign = str(tmp_path / "sign")
    put_up(f"{sign}.go")
    done = command("recite", f"sign={sign}", "--wait", "--timeout", "9s")
    assert (done.exit_code, json.loads(done.stdout)) == (0, sign)
    for line in ("the first line", "50 % half of it", "the last line"):
        assert line in done.stderr
    assert done.stderr.index("the first line") < done.stderr.index("the last line")


@pytest.mark.usefixtures("at_work")
def test_waiting_for_a_job_that_fails_exits_with_one() -> None:
    done = command("spoil", "text=the relay is down", "--wait")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Traceback (most recent call last)" in done.stderr
    assert "attempt 1 of 1 raised ValueError: the relay is down" in done.stderr.splitlines()[-1]


@pytest.mark.usefixtures("at_work")
def test_waiting_tells_of_an_attempt_that_failed_and_when_the_next_one_is(
    programs: Programs,
) -> None:
    waiting = programs.start("-m", "duly", "run", "falter", "--wait")
    waiting.hear("attempt 1 of 2 raised ValueError: nobody answers")
    assert waiting.is_alive


@pytest.mark.usefixtures("store")
def test_waiting_has_an_end_and_the_job_goes_on() -> None:
    done = command("typed", "text=x", "--wait", "--timeout", "300ms")
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr.splitlines()[-1].endswith(
        "is ready after 300ms: it waits for a worker: none is running; start one: duly worker"
    )
    assert office.duly.jobs.count("state:ready") == 1


@pytest.mark.usefixtures("store")
def test_what_is_said_is_heard_while_the_job_runs(programs: Programs, tmp_path: Path) -> None:
    sign = str(tmp_path / "sign")
    waiting = programs.start("-m", "duly", "run", "recite", f"sign={sign}", "--wait")
    programs.start("-m", "duly", "worker", APP)
    waiting.hear("half of it")
    assert waiting.is_alive
    put_up(f"{sign}.go")
    assert waiting.end() == 0
    assert waiting.said.rstrip().endswith(json.dumps(sign))


def test_without_an_app_it_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DULY_APP")
    monkeypatch.chdir(tmp_path)
    done = command("typed", "text=x")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "duly run TASK --app shop.tasks, or set DULY_APP" in done.stderr


@pytest.mark.usefixtures("store")
def test_whoever_waits_where_nobody_works_is_told_why_it_takes_so_long() -> None:
    done = command("typed", "text=x", "--wait", "--timeout", "2500ms")
    number, waits, _ = done.stderr.splitlines()[-3:]
    assert waits == f"{number}: it waits for a worker: none is running; start one: duly worker"


@pytest.mark.usefixtures("store")
def test_whoever_waits_for_a_paused_queue_is_told_how_to_resume_it() -> None:
    office.duly.queues.pause("default")
    done = command("typed", "text=x", "--wait", "--timeout", "300ms")
    assert done.stderr.splitlines()[-1].endswith(
        'it waits: queue "default" is paused; resume it: duly queues resume default'
    )
