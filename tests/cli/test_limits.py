"""``duly limits``: what jobs have met, and what an operator says counts."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from duly.app import Store
from duly.cli import main
from duly.cli.capacity import limits
from duly.model.limit import NamedLimit, Rate
from duly.store.values import CAREFUL, ClaimRequest
from tests.cli.test_schedules import on, store
from tests.factories import call, profile

__all__ = ["store"]

CUSTOMER = NamedLimit(
    name="crm:17", template="crm:{customer_id}", concurrency=1, rate=Rate.parse("5/s")
)


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, ["limits", *words])


def done(*words: str) -> str:
    result = duly(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def listed() -> dict[str, Any]:
    [found] = json.loads(done("-o", "json"))
    return dict(found)


@pytest.fixture
def crowd(store: str) -> None:
    """Three jobs of one customer: one runs, and two wait behind it."""

    async def met(there: Store) -> None:
        await there.jobs.enqueue([call(limits=(CUSTOMER,))] * 3)
        worker = await there.work.register(profile(), lease=timedelta(hours=1))
        request = ClaimRequest(
            queue="default", tasks=("work",), worker=worker.id, limit=10, shelf=CAREFUL
        )
        assert len((await there.work.claim(request)).jobs) == 1

    on(store, met)


@pytest.mark.usefixtures("crowd")
def test_a_bare_noun_lists_what_jobs_have_met() -> None:
    lines = [line.split() for line in done("-o", "wide").splitlines()]
    assert lines == [
        ["LIMIT", "CONCURRENCY", "RATE", "RUNNING", "WAITING", "TEMPLATE"],
        ["crm:17", "1", "5/s", "1", "2", "crm:{customer_id}"],
    ]
    assert "TEMPLATE" not in done()
    assert done("list", "-o", "name") == "crm:17\n"
    assert listed() == {
        "name": "crm:17",
        "template": "crm:{customer_id}",
        "concurrency": 1,
        "rate": "5/s",
        "running": 1,
        "waiting": 2,
    }


@pytest.mark.usefixtures("crowd")
def test_what_is_set_counts_for_more_than_code_until_it_is_reset() -> None:
    assert done("set", "crm:17", "--concurrency", "3") == "set  crm:17  concurrency 3  rate 5/s\n"
    assert (listed()["concurrency"], listed()["rate"]) == (3, "5/s")
    assert done("set", "crm:17", "--rate", "none") == "set  crm:17  concurrency 3  rate -\n"
    assert (listed()["concurrency"], listed()["rate"]) == (3, None)
    done("set", "crm:17", "--concurrency", "none", "--rate", "none")
    assert (listed()["concurrency"], listed()["rate"]) == (None, None)
    assert done("reset", "crm:17") == "reset  crm:17\n"
    assert (listed()["concurrency"], listed()["rate"]) == (1, "5/s")


@pytest.mark.usefixtures("crowd")
def test_what_is_set_for_a_template_counts_for_its_names() -> None:
    said = done("set", "crm:{customer_id}", "--rate", "100/m")
    assert said == "set  crm:{customer_id}  concurrency 1  rate 100/m\n"
    assert (listed()["concurrency"], listed()["rate"]) == (1, "100/m")


@pytest.mark.usefixtures("crowd")
def test_a_name_that_no_job_has_met_is_set_and_doubted() -> None:
    result = duly("set", "crm:{custmer_id}", "--concurrency", "2")
    assert result.exit_code == 0
    assert (
        'no job has used a limit "crm:{custmer_id}" yet; did you mean "crm:{customer_id}"?'
        in result.stderr
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say what to set"),
        (["--concurrency", "0"], "concurrency=0: expected a whole number from 1"),
        (["--concurrency", "many"], "--concurrency many: a whole number from 1, or none"),
        (["--rate", "often"], 'write it as "5/s"'),
    ],
)
@pytest.mark.usefixtures("crowd")
def test_what_cannot_be_a_limit_is_refused(words: list[str], said: str) -> None:
    result = duly("set", "crm:17", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert (listed()["concurrency"], listed()["rate"]) == (1, "5/s")


def test_where_no_limit_was_met_that_is_said_beside_the_output() -> None:
    result = duly()
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no job has used a limit yet" in result.stderr


@pytest.mark.parametrize("words", [[], ["set", "a", "--rate", "5/s"], ["reset", "a"]])
def test_nothing_makes_a_store(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.db"
    result = CliRunner().invoke(main, ["limits", *words], env={"DULY_URL": str(path)})
    assert (result.exit_code, result.stdout) == (5, "")
    assert not path.exists()


def test_every_verb_explains_itself_with_examples() -> None:
    for name in limits.commands:
        assert "  duly limits" in duly(name, "--help").stdout.partition("\n\n")[2]
