"""Jobs on Kubernetes, against a server of the tests that speaks its API (no cluster runs here).

The manifests are checked against the published schema; the container's command really runs.
"""

import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from duly.engine.executors import on_engine
from duly.engine.executors.on_engine import run_remote
from duly.engines import Kubernetes, Ray, kubernetes, ray, report
from duly.engines.kubernetes import KubernetesRefused
from duly.engines.report import LONGEST_REQUEST
from duly.errors import EngineUnavailable, Permanent
from duly.registry.definition import Definition, EngineJob
from duly.store.store import Store
from tests.builtin.server import SILENCE, answered, serving
from tests.engine.workshop import at_work, memory_store, until
from tests.engines import heavy
from tests.engines.kubernetes_api import KubernetesServer, kubernetes_at, misfits


@pytest.fixture
def api(tmp_path: Path) -> Iterator[tuple[KubernetesServer, str]]:
    with kubernetes_at(tmp_path) as found:
        yield found


@pytest.fixture
def server(api: tuple[KubernetesServer, str]) -> KubernetesServer:
    return api[0]


@pytest.fixture
def engine(
    api: tuple[KubernetesServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Kubernetes:
    monkeypatch.setattr(kubernetes, "PAUSES", (0.05,))
    monkeypatch.setattr(report, "PAUSES", (0.05,))
    monkeypatch.setattr(on_engine, "PAUSES", (0.05,))
    return Kubernetes("shop:1", api=api[1], account=tmp_path)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


def on(engine: Kubernetes, *names: str) -> list[Definition]:
    return [replace(getattr(heavy, name).definition, engine=engine) for name in names]


def job_for_engine(**changes: object) -> EngineJob:
    facts: dict[str, object] = {
        "key": "duly-7-0123456789-1-0123456789",
        "family": "duly-7-0123456789-",
        "task": "train",
        "module": "shop.tasks",
        "request": "{}",
        "timeout": timedelta(hours=1),
        "grace": timedelta(seconds=10),
        "heard": print,
        "note": print,
    }
    return EngineJob(**{**facts, **changes})  # type: ignore[arg-type]


async def log(store: Store, number: int) -> str:
    return "\n".join(line.text for line in await store.journal.logs(number, after=0, limit=100))


def test_the_manifest_is_what_the_published_schema_allows_and_takes_the_users_parts() -> None:
    engine = Kubernetes(
        "shop:1",
        container={
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "env": [{"name": "REGION", "value": "eu"}],
        },
        pod={"serviceAccountName": "train", "nodeSelector": {"gpu": "yes"}},
    )
    made = engine.manifest(job_for_engine())
    assert misfits(made) == []
    assert misfits({**made, "spec": {**made["spec"], "retries": 3}}) != []
    assert made["spec"]["activeDeadlineSeconds"] == 3610
    pod = made["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["terminationGracePeriodSeconds"]) == ("train", 10)
    [container] = pod["containers"]
    assert [one["name"] for one in container["env"]] == ["DULY_REQUEST", "REGION"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}


async def test_a_job_runs_as_a_kubernetes_job_with_its_log_and_result(
    engine: Kubernetes, server: KubernetesServer, store: Store
) -> None:
    async with at_work(store, *on(engine, "add_days", "give_up")) as worker:
        [number] = await worker.enqueue("add_days", day="2026-02-27", days=2)
        [hopeless] = await worker.enqueue("give_up")
        job = await worker.ended(number)
        assert '"day":"2026-03-01"' in str(job.result)
        said = await log(store, number)
        assert [said.count(word) for word in ("started", "counting", "careful")] == [1, 1, 1]
        failed = await worker.ended(hopeless)
        assert "there is no point" in failed.reason
        # A success stays for a worker that was lost meanwhile; a failure makes room for a retry.
        await until(lambda: all(one.is_over for one in server.jobs.values()))
        assert [one.deleted_at is None for one in server.jobs.values()].count(True) == 1


@pytest.mark.thorough("three runs of a program")
async def test_the_next_worker_finds_the_job_and_a_cancel_ends_it(
    engine: Kubernetes, server: KubernetesServer, store: Store, tmp_path: Path
) -> None:
    sign, other = str(tmp_path / "sign"), str(tmp_path / "other")
    async with at_work(store, *on(engine, "hold")) as worker:
        [number], [cancelled] = (
            await worker.enqueue("hold", sign=sign),
            await worker.enqueue("hold", sign=other),
        )
        await until(lambda: bool(heavy.runs(sign) and heavy.runs(other)))
        await store.jobs.cancel(cancelled, reason="not needed")
        await worker.ended(cancelled)
        [running] = server.jobs.values()  # the other was gone before its job had ended
        await worker.leave(cold=True)
    server.is_down = True
    async with at_work(store, *on(engine, "hold")) as worker:
        await until(lambda: server.refused > 0)
        server.is_down = False
        heavy.let_go(sign)
        assert (await worker.ended(number)).result == '"held"'
    assert server.created == 2
    assert "found again" in (said := await log(store, number))
    assert "503" in said
    assert running.deleted_at is None


async def test_a_job_cancelled_while_no_worker_holds_it_is_ended_by_the_next_worker(
    engine: Kubernetes, server: KubernetesServer, store: Store, tmp_path: Path
) -> None:
    sign = str(tmp_path / "sign")
    async with at_work(store, *on(engine, "hold")) as worker:
        [number] = await worker.enqueue("hold", sign=sign)
        await until(lambda: bool(heavy.runs(sign)))
        await worker.leave(cold=True)
    await store.jobs.cancel(number, reason="not needed")
    [running] = server.jobs.values()
    assert not running.is_over
    async with at_work(store, *on(engine, "hold")):
        await until(lambda: running.is_over)
    assert not server.jobs


@pytest.mark.thorough("two runs of a program")
async def test_a_failed_try_gets_a_new_job_and_a_container_without_a_report_is_one(
    engine: Kubernetes, server: KubernetesServer, store: Store, tmp_path: Path
) -> None:
    sign = str(tmp_path / "sign")
    [hold] = on(engine, "hold")
    async with at_work(store, replace(hold, retry=heavy.QUICK)) as worker:
        [number] = await worker.enqueue("hold", sign=sign)
        await until(lambda: bool(heavy.runs(sign)))
        [first] = server.jobs.values()
        first.waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        first.end(signal.SIGKILL)
        await until(lambda: len(heavy.runs(sign)) == 2)
        heavy.let_go(sign)
        await worker.ended(number)
    assert server.created == 2


async def test_a_job_that_somebody_deletes_or_an_image_that_cannot_be_pulled_is_told(
    engine: Kubernetes, server: KubernetesServer, store: Store, tmp_path: Path
) -> None:
    async with at_work(store, *on(engine, "run_long")) as worker:
        [number] = await worker.enqueue("run_long", sign=str(tmp_path / "sign"), timeout="1m")
        await until(lambda: bool(server.jobs))
        [running] = server.jobs.values()
        running.waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        while "waits: ImagePullBackOff: no such image" not in await log(store, number):
            await worker.worker.runner.journal.write()  # type: ignore[attr-defined]
        running.delete()
        running.end(signal.SIGKILL)
        assert "was deleted, and not by duly" in (await worker.ended(number)).reason


async def test_arguments_that_are_too_large_and_a_refused_request_fail_the_try(
    engine: Kubernetes, server: KubernetesServer, tmp_path: Path
) -> None:
    with pytest.raises(Permanent, match="arguments are too large"):
        await run_remote(engine, job_for_engine(request="x" * (LONGEST_REQUEST + 1)))
    engine.container["imagePolicy"] = "Always"
    with pytest.raises(KubernetesRefused, match=r"422.*imagePolicy"):
        await run_remote(engine, job_for_engine())
    (tmp_path / "token").write_text("another")
    with pytest.raises(KubernetesRefused, match="401: Unauthorized"):
        await run_remote(engine, job_for_engine())
    with pytest.raises(KubernetesRefused, match="does not run in Kubernetes"):
        await run_remote(Kubernetes("shop:1", account=tmp_path), job_for_engine())
    assert not server.created


@pytest.mark.parametrize("kind", [Kubernetes, Ray])
@pytest.mark.parametrize(
    "told",
    [
        (SILENCE, "no answer in time|timed out"),
        (answered(200, b"<html>Welcome</html>"), "answered no JSON: <html>Welcome"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "is unavailable|answered no JSON"),
        (answered(503), "answered 503"),
    ],
)
async def test_an_api_that_hangs_hangs_up_or_answers_nonsense_is_unavailable(
    kind: type, told: tuple[bytes, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, said = told
    (tmp_path / "token").write_text("token")
    monkeypatch.setattr(kubernetes, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(ray, "ANSWER_SECONDS", 0.3)
    async with serving() as server:
        server.answers = dict.fromkeys(
            ("/apis/batch/v1/namespaces/work/jobs", "/api/jobs/"), answer
        )
        engine = (
            Ray(server.url())
            if kind is Ray
            else Kubernetes("shop:1", api=server.url(), namespace="work", account=tmp_path)
        )
        with pytest.raises(EngineUnavailable, match=said):
            await run_remote(engine, job_for_engine())
