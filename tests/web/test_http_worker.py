"""A worker in another language, over HTTP: plain curl, and a shell script to follow."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from duly import Duly, Retry
from duly.app.job import Job
from tests.app.programs import Programs, programs_in
from tests.app.shop import hold, put_up
from tests.app.waiting import eventually
from tests.infrastructure.served import Served, served

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "http-worker"
AT_ONCE = Retry(attempts=3, backoff="constant", first="10ms", cap="10ms", jitter=False)


@dataclass(frozen=True)
class Answer:
    status: int
    value: Any


@dataclass(frozen=True)
class Guest:
    """A worker that is nothing but curl."""

    at: Served
    worker: int

    def ask(self, what: str, **words: object) -> Answer:
        return curl(self.at, f"work/{what}", worker=self.worker, **words)

    def claim(self, wait: str = "10s", limit: int = 1) -> list[dict[str, Any]]:
        answer = self.ask("claim", wait=wait, limit=limit)
        assert answer.status == 200, answer.value
        return list(answer.value["jobs"])


def curl(at: Served, path: str, /, **words: object) -> Answer:
    """A POST of the words; a GET, if there are none."""
    body = json.dumps(words) if words else ""
    command = [*asking(at, path), *(["--data", "@-"] if words else [])]
    done = subprocess.run(command, input=body, capture_output=True, text=True, check=True)
    text, _, status = done.stdout.rpartition("\n")
    return Answer(int(status), json.loads(text) if text else None)


@contextmanager
def waiting_claim(guest: Guest) -> Iterator["subprocess.Popen[str]"]:
    """A claim that has waited for a second, and waits on."""
    said = json.dumps({"worker": guest.worker, "wait": "30s"})
    command = [*asking(guest.at, "work/claim"), "--data", said]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
        yield waiting
        waiting.kill()


def asking(at: Served, path: str) -> list[str]:
    command = ["curl", "--silent", "--show-error", "--write-out", "\n%{http_code}"]
    headers = [f"Authorization: Bearer {at.secret}", "Content-Type: application/json"]
    said = [part for header in headers for part in ("--header", header)]
    return [*command, *said, f"{at.url}/api/v1/{path}"]


def registered(at: Served, *tasks: str, **words: object) -> Guest:
    answer = curl(at, "work/register", name="a guest", tasks=tasks, **words)
    assert answer.status == 200, answer.value
    return Guest(at, answer.value["worker"])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "duly.db")


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with programs_in(tmp_path) as found:
        yield found


@pytest.fixture
def app(url: str) -> Iterator[Duly]:
    app = Duly(url)
    yield app
    app.close()


@pytest.fixture
def here(url: str) -> Iterator[Served]:
    with served(url) as found:
        yield found


@pytest.fixture
def node(programs: Programs, url: str) -> None:
    """Somebody who makes due jobs ready and takes lost ones back, and runs none of ours."""
    programs.worker("--queues", "elsewhere", DULY_URL=url)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tasks"
    made.mkdir()
    return made


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@contextmanager
def working(
    at: Served, tasks: Path, said: Path, lease: int = 60
) -> Iterator["subprocess.Popen[bytes]"]:
    """The example, on a folder of programs, in a process group of its own."""
    environment = {"DULY_URL": at.url, "DULY_TOKEN": at.secret, "LEASE": str(lease)}
    with said.open("wb") as stream:
        process = subprocess.Popen(
            ["sh", EXAMPLE / "worker.sh", tasks],
            env={**os.environ, **environment},
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        eventually(lambda: "worker " in said.read_text(), "the worker to register")
        yield process
    finally:
        kill(process)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """All of it: the script, its heartbeat, and whatever they run."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def named(app: Duly, name: str, *, retry: Retry | None = AT_ONCE) -> Callable[..., Job[Any]]:
    """A task of which this side knows only the name; what it does is in another language."""

    def elsewhere(**rest: Any) -> Any:  # noqa: ANN401 - whatever the other language takes
        raise AssertionError(f"{name} ran here, with {rest}")

    enqueue: Callable[..., Job[Any]] = app.task(name=name, retry=retry)(elsewhere).enqueue
    return enqueue


def state(job: Job[Any]) -> str:
    job.refresh()
    return str(job.state)


def until(job: Job[Any], wanted: str) -> None:
    eventually(lambda: state(job) == wanted, f"the job to be {wanted}")


def test_the_example_runs_what_is_enqueued_over_http(
    app: Duly, here: Served, tmp_path: Path
) -> None:
    named(app, "greet")
    answer = curl(here, "jobs", task="greet", args={"name": "Ada"})
    assert answer.status in (200, 201), answer.value
    with working(here, EXAMPLE / "tasks", tmp_path / "said"):
        job = app.jobs.get(answer.value["id"])
        until(job, "succeeded")
    assert job.result() == {"greeting": "Hello Ada"}
    assert list(job.logs()) == ["greeting Ada"]
    shown = curl(here, f"jobs/{job.id}").value
    assert (shown["progress"]["percent"], shown["progress"]["message"]) == (50, "half of it")


@pytest.mark.usefixtures("node")
def test_a_program_that_fails_is_tried_again_unless_it_says_that_it_is_no_use(
    app: Duly, here: Served, folder: Path, tmp_path: Path
) -> None:
    program(folder, "stumble", f'mkdir "{tmp_path}/tried" || {{ echo 42; exit 0; }}; exit 3')
    program(folder, "refuse", "exit 65")
    stumbling, refusing = named(app, "stumble")(), named(app, "refuse")()
    with working(here, folder, tmp_path / "said"):
        until(stumbling, "succeeded")
        until(refusing, "failed")
    assert stumbling.result() == 42
    assert [one.outcome for one in stumbling.attempts][:1] == ["raised"]
    assert "ExitCode: 3" in (stumbling.attempts[0].error or "")
    assert len(refusing.attempts) == 1


@pytest.mark.usefixtures("node")
def test_the_job_of_a_worker_that_is_killed_comes_back_to_another(
    app: Duly, here: Served, folder: Path, tmp_path: Path
) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    program(
        folder, "wait_for_it", f'touch "{began}"; while ! [ -e "{go}" ]; do sleep 0.1; done; echo 1'
    )
    job = named(app, "wait_for_it")()
    with working(here, folder, tmp_path / "first", lease=3) as first:
        eventually(began.exists, "it to begin")
        kill(first)
    go.touch()
    with working(here, folder, tmp_path / "second", lease=3):
        until(job, "succeeded")
    assert [one.outcome for one in job.attempts][:1] == ["lost"]


@pytest.mark.usefixtures("node")
def test_a_job_may_run_longer_than_the_lease_of_a_worker_that_is_alive(
    app: Duly, here: Served, folder: Path, tmp_path: Path
) -> None:
    program(folder, "take_long", "sleep 7; echo 1")  # the lease and the reaper's margin, and more
    job = named(app, "take_long")()
    with working(here, folder, tmp_path / "said", lease=3):
        until(job, "succeeded")
    assert job.reason == "succeeded at attempt 1"


def test_the_script_stops_what_runs_too_long_and_what_is_cancelled(
    app: Duly, here: Served, folder: Path, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    program(folder, "hang", "sleep 600")
    program(folder, "wait", f'touch "{began}"; sleep 600')
    named(app, "hang")
    asked = curl(here, "jobs", task="hang", timeout="1s", attempts=1)
    hanging, waiting = app.jobs.get(asked.value["id"]), named(app, "wait")()
    with working(here, folder, tmp_path / "said", lease=3):
        until(hanging, "failed")
        eventually(began.exists, "the other to begin")
        waiting.cancel(reason="no need")
        until(waiting, "cancelled")
    assert "TimedOut: it ran longer than it may" in hanging.reason
    assert "no need" in waiting.reason


def test_a_script_that_is_told_to_stop_gives_its_job_back_and_ends(
    app: Duly, here: Served, folder: Path, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    program(folder, "wait_for_ever", f'touch "{began}"; exec sleep 600')
    job = named(app, "wait_for_ever")()
    with working(here, folder, tmp_path / "said") as process:
        eventually(began.exists, "it to begin")
        process.terminate()
        assert process.wait(15) == 0
    assert state(job) == "ready"
    assert app.workers.list() == []


@pytest.mark.usefixtures("node")
def test_what_is_said_under_a_lost_fence_is_refused_and_named(app: Duly, here: Served) -> None:
    job = named(app, "work")()
    silent = registered(here, "work", lease="3s")
    [lost] = silent.claim()
    other = registered(here, "work")
    [found] = other.claim(wait="20s")
    assert (found["id"], found["attempt"]) == (job.id, 2)
    assert found["fence"] > lost["fence"]
    old = {"id": lost["id"], "fence": lost["fence"]}
    refused = silent.ask("finish", done=[{**old, "result": "too late"}]).value
    assert refused["kept"] == []
    assert [one["id"] for one in refused["refused"]] == [job.id]
    assert "does not hold it under fence" in refused["refused"][0]["why"]
    assert silent.ask("log", **old, lines=[{"text": "too late"}]).status == 409
    assert silent.ask("progress", **old, percent=99).status == 409
    assert silent.ask("renew").status == 409
    assert silent.ask("claim").status == 409
    assert silent.ask("held").status == 409
    mine = {"id": found["id"], "fence": found["fence"], "result": "in time"}
    assert other.ask("finish", done=[mine]).value == {"kept": [job.id], "refused": []}
    # Whoever did not hear the answer says it again.
    assert other.ask("finish", done=[mine]).value == {"kept": [job.id], "refused": []}
    assert job.result() == "in time"
    assert list(job.logs()) == []


def test_one_worker_cannot_end_what_another_runs(app: Duly, here: Served) -> None:
    job = named(app, "work")()
    one, other = registered(here, "work"), registered(here, "work")
    [found] = one.claim()
    mine = {"id": found["id"], "fence": found["fence"]}
    assert other.ask("finish", done=[mine]).value["kept"] == []
    assert other.ask("log", **mine, lines=[{"text": "not mine"}]).status == 409
    assert state(job) == "running"


def test_nobody_speaks_for_a_worker_that_another_token_registered(app: Duly, here: Served) -> None:
    ours = replace(here, secret=app.tokens.create("ours", role="operator").secret)
    theirs = replace(here, secret=app.tokens.create("theirs", role="admin").secret)
    job = named(app, "work")()
    guest = registered(ours, "work")
    [found] = guest.claim()
    mine = {"id": found["id"], "fence": found["fence"]}
    thief = Guest(theirs, guest.worker)
    for what, words in (
        ("renew", {}),
        ("claim", {}),
        ("held", {}),
        ("end", {}),
        ("finish", {"done": [{**mine, "result": "stolen"}]}),
        ("log", {**mine, "lines": [{"text": "stolen"}]}),
        ("progress", {**mine, "percent": 99}),
    ):
        answer = thief.ask(what, **words)
        assert answer.status == 403, what
        assert "was registered by somebody else" in answer.value["detail"]
    assert state(job) == "running"
    assert guest.ask("finish", done=[{**mine, "result": "ours"}]).value["kept"] == [job.id]
    assert (job.result(), list(job.logs())) == ("ours", [])


def test_what_is_said_of_jobs_over_http_is_in_the_audit_log(app: Duly, here: Served) -> None:
    ours = replace(here, secret=app.tokens.create("ours", role="operator").secret)
    first, second = named(app, "work")(), named(app, "work", retry=None)()
    guest = registered(ours, "work", slots=2)
    held = {job["id"]: {"id": job["id"], "fence": job["fence"]} for job in guest.claim(limit=2)}
    done, failed = [held[first.id]], [{**held[second.id], "error": "ValueError: no"}]
    for _ in range(2):  # whoever did not hear the answer says it again
        guest.ask("finish", done=done, failed=failed)
    entries = [entry for entry in app.audit.list(who="ours") if entry.action == "jobs.settle"]
    assert [(entry.how, json.loads(entry.details)) for entry in entries] == [
        ("token", {}),
        ("token", {"succeeded": [first.id], "raised": [second.id]}),
    ]


@pytest.fixture
def in_python(programs: Programs, url: str) -> None:
    programs.worker(DULY_URL=url)


@pytest.mark.usefixtures("in_python")
def test_the_jobs_of_native_workers_are_out_of_reach(
    app: Duly, here: Served, tmp_path: Path
) -> None:
    sign = str(tmp_path / "sign")
    held = named(app, hold.name)(sign=sign)
    eventually(Path(f"{sign}.began").exists, "the worker in Python to begin")
    [python] = [one.id for one in app.workers.list()]
    fence = curl(here, "store/jobs/get", number=held.id).value["fence"]
    mine = {"id": held.id, "fence": fence}
    native = Guest(here, python)
    for what, words in (
        ("renew", {}),
        ("claim", {}),
        ("held", {}),
        ("end", {}),
        ("finish", {"done": [{**mine, "result": "stolen"}]}),
        ("log", {**mine, "lines": [{"text": "stolen"}]}),
        ("progress", {**mine, "percent": 99}),
    ):
        answer = native.ask(what, **words)
        assert answer.status == 409, what
        assert "was never registered over HTTP" in answer.value["detail"]
    assert state(held) == "running"
    put_up(f"{sign}.go")
    assert held.result("20s") == sign
    assert list(held.logs()) == []


@pytest.mark.usefixtures("in_python")
def test_the_limit_of_a_queue_holds_beside_a_worker_in_python(
    app: Duly, here: Served, tmp_path: Path
) -> None:
    app.queues.set("default", concurrency=1)
    sign = str(tmp_path / "sign")
    held = named(app, hold.name)(sign=sign)
    eventually(Path(f"{sign}.began").exists, "the worker in Python to begin")
    job = named(app, "work")()
    guest = registered(here, "work")
    assert guest.claim(wait="1s") == []
    [python] = [one.id for one in app.workers.list() if one.id != guest.worker]
    assert Guest(here, python).ask("claim").status == 409  # it has a process of its own
    put_up(f"{sign}.go")
    [found] = guest.claim()
    assert (found["id"], state(held)) == (job.id, "succeeded")


def test_a_claim_that_waits_is_answered_as_soon_as_there_is_work(app: Duly, here: Served) -> None:
    with waiting_claim(registered(here, "work")) as waiting:
        began = monotonic()
        job = named(app, "work")()
        said = waiting.communicate(timeout=20)[0]
        assert monotonic() - began < 5
    assert json.loads(said.rpartition("\n")[0])["jobs"][0]["id"] == job.id


def test_a_server_that_stops_lets_nobody_wait(here: Served) -> None:
    with waiting_claim(registered(here, "work")) as waiting:
        began = monotonic()
        assert here.stop() == 0
        assert monotonic() - began < 5
        assert waiting.communicate(timeout=5)[0].rpartition("\n")[2] == "200"


def test_no_more_is_claimed_than_there_are_slots_and_what_is_held_is_told_again(
    app: Duly, here: Served
) -> None:
    work = named(app, "work")
    first, second = work(password="hunter2"), work()
    guest = registered(here, "work")
    [found] = guest.claim(limit=5)
    assert (found["id"], found["args"]) == (first.id, {"password": "hunter2"})
    full = guest.ask("claim")
    assert full.status == 409
    assert f"holds 1 ({first.id})" in full.value["detail"]
    assert guest.ask("held").value["jobs"] == [found]
    assert guest.ask("renew").value["jobs"] == [first.id]
    end = {"id": found["id"], "fence": found["fence"], "error": "Oops: password=hunter2"}
    assert guest.ask("finish", failed=[{**end, "retry": "10m"}]).value["kept"] == [first.id]
    first.refresh()
    assert first.reason == "attempt 1 of 3 raised Oops: password=***; next try in 10m"
    assert [one["id"] for one in guest.claim(limit=5)] == [second.id]


def test_a_worker_hears_what_is_to_be_stopped_and_what_it_is_told(app: Duly, here: Served) -> None:
    job = named(app, "work")()
    guest = registered(here, "work", slots=2)
    [found] = guest.claim()
    job.cancel(reason="not wanted any more")
    app.workers.drain("a guest")
    named(app, "work")()
    heard = guest.ask("renew").value
    assert heard["cancel"] == {str(job.id): "cancelled: not wanted any more"}
    assert heard["order"] == "drain"
    drained = guest.ask("claim", wait="0s").value
    assert drained == {"order": "drain", "jobs": []}
    end = {"id": found["id"], "fence": found["fence"]}
    assert guest.ask("finish", cancelled=[end]).value["kept"] == [job.id]
    assert state(job) == "cancelled"
    assert "not wanted any more" in job.reason


def test_what_is_given_back_loses_no_try_and_what_is_left_behind_is_lost(
    app: Duly, here: Served
) -> None:
    job = named(app, "work")()
    guest = registered(here, "work")
    [found] = guest.claim()
    end = {"id": found["id"], "fence": found["fence"]}
    assert guest.ask("finish", given_back=[end]).value["kept"] == [job.id]
    [again] = guest.claim()
    assert (again["id"], again["attempt"]) == (job.id, 1)
    assert guest.ask("finish", done=[end]).value["kept"] == []  # that was under another fence
    assert state(job) == "running"
    assert guest.ask("end").status == 204
    assert guest.ask("renew").status == 409


def test_what_had_to_start_by_now_is_not_given_to_anybody(app: Duly, here: Served) -> None:
    @app.task(name="work")
    def work() -> None: ...

    job = work.using(start_within="1ms").enqueue()
    assert registered(here, "work").claim(wait="1s") == []
    assert state(job) == "expired"


def test_a_result_that_is_too_large_fails_its_job_for_good(app: Duly, here: Served) -> None:
    job = named(app, "work")()
    guest = registered(here, "work")
    [found] = guest.claim()
    end = {"id": found["id"], "fence": found["fence"], "result": "x" * 1_100_000}
    assert guest.ask("finish", done=[end]).value["kept"] == [job.id]
    assert state(job) == "failed"
    assert "PayloadError" in (job.error or "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"lease": "1s"}, "the minimum is 3s"),
        ({"lease": "60"}, '"60s"'),
        ({"slots": 0}, "1 to 1,000"),
        ({"tasks": []}, "tasks"),
        ({"resources": {"gpu": -1}}, "gpu"),
    ],
)
def test_a_worker_that_makes_no_sense_is_refused(
    here: Served, words: dict[str, object], said: str
) -> None:
    answer = curl(here, "work/register", **{"name": "a guest", "tasks": ["work"], **words})
    assert answer.status == 422
    assert said in answer.value["detail"]
