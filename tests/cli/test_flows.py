"""``duly jobs show`` of a flow: its steps below each other, and what a step says about its flow."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from duly import Duly, JobFailed, Step
from duly.app.flows import Flow
from duly.cli import main
from duly.cli.job_text import DEEPEST, depths_of
from tests.app.waiting import eventually


class Office(NamedTuple):
    app: Duly
    etl: Flow[[], int]


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    monkeypatch.setenv("DULY_URL", str(tmp_path / "duly.db"))
    app = Duly()

    @app.task
    def extract() -> list[int]:
        return [1, 2, 3]

    @app.task(retry=None)
    def transform(item: int) -> int:
        return item

    @app.task(retry=None)
    def enrich() -> None:
        if not (tmp_path / "mended").exists():
            raise ConnectionError("refused\x1b[2J")

    @app.task
    def load(items: list[int]) -> int:
        return sum(items)

    @app.flow
    def etl() -> Step[int]:
        rows = extract.step()
        parts = transform.map(rows.result)
        extra = enrich.step().named("customers")
        loaded = load.step(parts.result)
        rows >> extra >> loaded
        return loaded

    yield Office(app, etl)
    app.close()


@pytest.fixture
def broken(office: Office) -> int:
    """A flow of which one step has failed."""
    job = office.etl.enqueue()
    with office.app.running(), pytest.raises(JobFailed):
        job.result("30s")
    return job.id


def command(*words: str) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def steps_of(text: str) -> list[str]:
    lines = text.partition("STEPS\n")[2].partition("\n\n")[0].splitlines()
    return [" ".join(line.split()) for line in lines]


def test_a_flow_shows_its_steps_with_marks_words_and_what_they_follow(broken: int) -> None:
    shown = command("jobs", "show", str(broken))
    assert shown.exit_code == 0, shown.output
    extract, transform, customers, load = steps_of(shown.stdout)
    assert extract.startswith("● extract succeeded ")
    assert transform.startswith(("● transform succeeded 3/3 ", "⊘ transform cancelled "))
    assert customers.startswith("✕ customers failed ")
    assert "raised ConnectionError: refused" in customers
    assert "\x1b" not in shown.stdout
    assert load == "⊘ load cancelled - - after transform, customers"
    drawn = [line for line in shown.stdout.splitlines() if line.lstrip()[:2] in ("● ", "✕ ", "⊘ ")]
    assert [len(line) - len(line.lstrip()) for line in drawn] == [2, 4, 4, 2]


def test_programs_read_the_same(broken: int) -> None:
    found = json.loads(command("jobs", "show", str(broken), "-o", "json").stdout)
    flow = found["flow"]
    assert (flow["steps"], flow["failed"], flow["first_failed"]) == (4, 1, 3)
    assert [one["name"] for one in flow["items"]] == ["extract", "transform", "customers", "load"]
    assert [one["before"] for one in flow["items"]] == [[], [1], [1], [2, 3]]
    step = json.loads(command("jobs", "show", str(flow["items"][2]["job_id"]), "-o", "json").stdout)
    assert (step["parent"], step["step"], step["part"], step["flow"]) == (broken, 3, 1, None)
    [listed] = json.loads(command("jobs", "task:etl", "-o", "json").stdout)
    assert listed["flow"] == {"steps": 4, "remaining": 0, "failed": 1}


def test_a_part_says_where_it_stands_in_which_flow(broken: int) -> None:
    numbers = command("jobs", f"flow:{broken}", "task:transform", "-o", "name").stdout.split()
    said = [command("jobs", "show", number).stdout for number in numbers]
    found = sorted(line.strip() for text in said for line in text.splitlines() if "part " in line)
    assert found == [
        f"is        step 2 (transform, part {part} of 3) of flow {broken} etl" for part in (1, 2, 3)
    ]


def test_a_list_of_jobs_says_how_far_a_flow_is(broken: int) -> None:
    [_, line] = command("jobs", "task:etl").stdout.splitlines()
    assert '1 of 4 steps failed: step "customers"' in line


def test_why_names_the_step_and_how_to_go_on(broken: int) -> None:
    said = command("why", str(broken)).stdout
    assert 'and failed: step "customers": ' in said
    assert f"duly jobs retry {broken}" in said


def test_the_status_lists_what_waits_for_an_answer(office: Office) -> None:
    @office.app.flow(title="Refund {order}")
    def refund(order: int) -> None:
        office.app.wait_for("refund.approved", key="order:{order}", timeout="1h")

    assert "waiting" not in command("status").stdout
    flow = refund.enqueue(7)
    with office.app.running():
        eventually(lambda: office.app.jobs.list(f"flow:{flow.id}"), "the question")
    [step] = office.app.jobs.list(f"flow:{flow.id}")
    line = command("status").stdout.partition("waiting for an answer\n")[2].splitlines()[0]
    assert line.startswith(f"  {step.id}  Refund 7  refund.approved about order:7  until ")
    [told] = json.loads(command("status", "-o", "json").stdout)["awaiting"]
    assert (told["id"], told["flow"], told["name"]) == (step.id, flow.id, "Refund 7")
    assert (told["event"], told["key"]) == ("refund.approved", "order:7")


def test_who_retries_a_flow_is_told_from_where_it_goes_on(
    office: Office, broken: int, tmp_path: Path
) -> None:
    (tmp_path / "mended").touch()
    done = command("jobs", "retry", str(broken))
    assert (done.exit_code, done.stdout) == (0, f"{broken}\n")
    assert f"job {broken}: the flow continues from 1 failed step" in done.stderr
    with office.app.running():
        assert office.app.jobs.get(broken).result("30s") == 6
    assert [line.split()[0] for line in steps_of(command("jobs", "show", str(broken)).stdout)] == [
        "●"
    ] * 4


def test_who_retries_a_step_is_told_that_its_flow_goes_on(broken: int) -> None:
    flow = json.loads(command("jobs", "show", str(broken), "-o", "json").stdout)["flow"]
    step = flow["items"][2]["job_id"]
    done = command("jobs", "retry", str(step))
    assert f"job {step}: its flow, job {broken}, continues from 1 failed step" in done.stderr


def test_a_chain_goes_straight_down_and_a_fork_comes_back_where_it_ends() -> None:
    assert depths_of([(), (1,), (2,), (3,)]) == [0, 0, 0, 0]
    assert depths_of([(), (1,), (1,), (2, 3), (4,)]) == [0, 1, 1, 0, 0]
    assert depths_of([(), (1,), (1,), (2,), (2,), (4, 5), (3, 6)]) == [0, 1, 1, 2, 2, 1, 0]
    forks = [(), *[(n // 2,) for n in range(2, 5_000)]]
    assert max(depths_of(forks)) == min(DEEPEST, 12)
