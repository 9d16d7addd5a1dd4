"""Flows over HTTP: the steps, the jobs of a step, and where a job stands."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from duly import Duly, JobFailed, Step
from tests.app.waiting import eventually
from tests.infrastructure.web import site
from tests.web.api.conftest import Api


@pytest.fixture
def api(url: str) -> Iterator[Api]:
    app = Duly(url)

    @app.task
    def extract(many: int) -> list[int]:
        return [*range(many)]

    @app.task(retry=None)
    def transform(item: int, refused: int = -1) -> int:
        if item == refused:
            raise ValueError(f"token=hunter2 {item}")
        return item * 2

    @app.task
    def load(items: list[int]) -> int:
        return sum(items)

    @app.flow
    def etl(many: int, refused: int = -1) -> Step[int]:
        parts = transform.map(extract.step(many).result, refused=refused)
        return load.step(parts.result)

    @app.flow
    def ask() -> Step[dict[str, object]]:
        return app.wait_for("order.paid", timeout="1h").named("payment")

    with site(app) as found:
        yield Api(found)


def run(api: Api, task: str, **args: int) -> int:
    number: int = api.post("/jobs", {"task": task, "args": args})["id"]
    app = api.site.app
    with app.running(), suppress(JobFailed):
        app.jobs.get(number).result("30s")
    return number


def test_a_flow_tells_its_steps(api: Api) -> None:
    number = run(api, "etl", many=3)
    found = api.get(f"/jobs/{number}/flow", role="viewer")
    assert (found["id"], found["sentence"]) == (number, "3 of 3 steps are done")
    assert [(one["number"], one["name"], one["kind"], one["state"], one["before"]) for one in
            found["items"]] == [
        (1, "extract", "step", "succeeded", []),
        (2, "transform", "map", "succeeded", [1]),
        (3, "load", "step", "succeeded", [2]),
    ]  # fmt: skip
    assert [one["parts"] for one in found["items"]] == [1, 3, 1]
    assert all(one["critical"] and one["took"] for one in found["items"])


def test_the_jobs_of_a_step_come_in_parts_of_a_list(api: Api) -> None:
    number = run(api, "etl", many=3)
    path = f"/jobs/{number}/flow/2/parts"
    first = api.get(f"{path}?limit=2")
    assert ([one["part"] for one in first["items"]], first["next"]) == ([1, 2], "2")
    second = api.get(f"{path}?limit=2&after={first['next']}")
    assert ([one["part"] for one in second["items"]], second["next"]) == ([3], None)
    job = api.get(f"/jobs/{second['items'][0]['job_id']}")
    assert (job["parent"], job["step"], job["part"], job["flow"]) == (number, 2, 3, None)
    listed = api.get(f"/jobs?filter=flow:{number} task:transform")["items"]
    assert sorted(one["part"] for one in listed) == [1, 2, 3]


def test_a_failed_flow_says_which_step_failed_first_and_goes_on_from_there(api: Api) -> None:
    number = run(api, "etl", many=3, refused=1)
    found = api.get(f"/jobs/{number}/flow")
    assert (found["first_failed"], found["failed"]) == (2, 1)
    assert "ValueError" in found["items"][1]["reason"]
    assert "hunter2" not in str(found)
    [row] = api.get("/jobs?filter=task:etl")["items"]
    assert row["flow"] == {"steps": 3, "remaining": 0, "failed": 1}
    assert api.get(f"/jobs/{number}")["flow"] == found
    csrf = {"content-type": "application/x-www-form-urlencoded", "hx-request": "true"}
    said = api.ask("POST", f"/jobs/{number}/retry", headers=csrf).text
    assert f"Flow {number} continues from its failed steps." in said


def test_a_step_that_asks_says_for_what(api: Api) -> None:
    app = api.site.app
    number: int = api.post("/jobs", {"task": "ask"})["id"]
    with app.running():
        path = f"/jobs/{number}/flow"
        eventually(lambda: api.ask("GET", path).status_code == 200, "its steps")
    [step] = api.get(path)["items"]
    assert (step["name"], step["kind"], step["state"]) == ("payment", "wait", "running")
    assert (step["awaits"]["event"], step["awaits"]["key"]) == ("order.paid", None)
    assert step["awaits"]["until"] is not None


def test_what_is_no_flow_and_no_step_is_refused_with_what_there_is(api: Api) -> None:
    plain = run(api, "extract", many=1)
    status, said = api.refused("GET", f"/jobs/{plain}/flow")
    assert (status, "has no steps: it is no flow" in said) == (409, True)
    number = run(api, "etl", many=1)
    for wrong in ("0", "4", "load", "9" * 40):
        status, said = api.refused("GET", f"/jobs/{number}/flow/{wrong}/parts")
        no_such = f"flow {number} has no such step: they are numbers, 1 to 3"
        assert (status, said) == (404, no_such)


def test_somebody_of_another_tenant_sees_nothing_of_it(api: Api) -> None:
    number = run(api, "etl", many=1)
    assert api.refused("GET", f"/jobs/{number}/flow", tenant="acme")[0] == 404
    assert api.refused("GET", f"/jobs/{number}/flow/1/parts", tenant="acme")[0] == 404
