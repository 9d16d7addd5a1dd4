"""Kubernetes as an engine: a job is a Job of ``batch/v1``, named by its key.

The API is called over plain HTTPS with the token of the service account: a handful of requests need
no client library. Kubernetes refuses a second Job of the same name, which is how the next worker
finds it. The program writes its report as the container's termination message.
"""

import json
import os
import ssl
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from duly import clock
from duly.builtin.http_exchange import (
    HttpFailed,
    HttpRequest,
    HttpResponse,
    Target,
    asked,
    connected,
)
from duly.engines.report import PAUSES, environment, failure, looks, program, read_json
from duly.errors import EngineUnavailable
from duly.registry.definition import EngineJob

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LONGEST_REPORT: Final = 4096  # bytes that Kubernetes keeps of a termination message
KEPT_FOR: Final = 3600  # seconds that a finished Job stays, for a worker that was lost meanwhile
ANSWER_SECONDS: Final = 10.0
MOST_LOG: Final = 900_000  # bytes of one answer
CONTAINER: Final = "job"
FAMILY: Final = "duly.dev/family"  # the label that all tries of a job have


class KubernetesRefused(Exception):
    """The API server refused a request."""


class Kubernetes:
    """A Kubernetes cluster, and the image in which jobs run.

    ``container`` and ``pod`` are merged into the container and the spec of the pod, as in
    ``container={"resources": {"limits": {"nvidia.com/gpu": 1}}}``. In a pod, the address, the
    token and the namespace are those of its service account.
    """

    def __init__(
        self,
        image: str,
        *,
        namespace: str | None = None,
        container: Mapping[str, Any] | None = None,
        pod: Mapping[str, Any] | None = None,
        api: str | None = None,
        account: str | Path = ACCOUNT,
    ) -> None:
        self.image = image
        self.container: dict[str, Any] = dict(container or {})
        self.pod: dict[str, Any] = dict(pod or {})
        self._namespace = namespace
        self._api = api
        self._account = Path(account)

    async def keys(self, family: str) -> list[str]:
        found = await self._call("GET", "jobs", _labelled(FAMILY, family.strip("-")))
        return [one["metadata"]["name"] for one in found["items"]]

    async def start(self, job: EngineJob) -> bool:
        body = json.dumps(self.manifest(job)).encode()
        while True:
            made = await self._ask("POST", "jobs", body=body)
            if made.status != 409:
                break
            found = await self._call("GET", f"jobs/{job.key}")
            if found is not None and "deletionTimestamp" not in found["metadata"]:
                return False
            await clock.sleep(PAUSES[0])  # it is being deleted
        self._accept(made, f"creating the Job {job.key}")
        return True

    async def report(self, job: EngineJob) -> str:
        watch = _Watch(job)
        async for _ in looks():
            # In this order: pods and logs of a Job that has ended are complete.
            status = await self._call("GET", f"jobs/{job.key}")
            pods = await self._call(
                "GET", "pods", _labelled("batch.kubernetes.io/job-name", job.key)
            )
            for pod in pods["items"]:
                await self._read_log(pod, watch)
            report = watch.report(status, pods["items"])
            if report is not None:
                if not report.startswith('["DoneFrame"'):
                    await self._delete(job.key)  # a retry by hand may use the name again
                return report
        raise AssertionError("unreachable")

    async def end(self, key: str, grace: timedelta) -> None:  # noqa: ARG002 - it is in the manifest
        await self._delete(key)
        while await self._call("GET", f"jobs/{key}") is not None:
            await clock.sleep(PAUSES[0])  # until its pods are gone

    def manifest(self, job: EngineJob) -> dict[str, Any]:
        """Return the Job that runs one try."""
        grace = max(1, round(job.grace.total_seconds()))
        command = program(job.module, "/dev/termination-log")
        variables = [{"name": name, "value": said} for name, said in environment(job).items()]
        container = {
            "name": CONTAINER,
            "image": self.image,
            "command": [*command, "--most", str(LONGEST_REPORT)],
            **self.container,
            "env": [*variables, *self.container.get("env", ())],
        }
        labels = {"app.kubernetes.io/managed-by": "duly", FAMILY: job.family.strip("-")}
        spec: dict[str, Any] = {
            "backoffLimit": 0,  # duly retries
            "ttlSecondsAfterFinished": KEPT_FOR,
            # A drained node is no failure of the job: Kubernetes starts another pod.
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "Ignore",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    }
                ]
            },
            "template": {
                "metadata": {"labels": labels, "annotations": {"duly.dev/task": job.task}},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": grace,
                    **self.pod,
                    "containers": [container, *self.pod.get("containers", ())],
                },
            },
        }
        if job.timeout is not None:  # also if no worker is there to end it
            spec["activeDeadlineSeconds"] = max(1, round(job.timeout.total_seconds())) + grace
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": job.key, "labels": labels},
            "spec": spec,
        }

    async def _delete(self, name: str) -> None:
        # In the foreground: the Job is there until its pods are gone.
        await self._call("DELETE", f"jobs/{name}", {"propagationPolicy": "Foreground"})

    async def _read_log(self, pod: Mapping[str, Any], watch: "_Watch") -> None:
        name = pod["metadata"]["name"]
        asking = {"container": CONTAINER, "timestamps": "true", "limitBytes": str(MOST_LOG)}
        if since := watch.since(name):
            asking["sinceTime"] = since
        found = await self._ask("GET", f"pods/{name}/log", asking)
        if found.status == 200:  # else there is no container yet, or no log any more
            watch.read(name, found.body.decode(errors="replace"))

    # The API:

    async def _call(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - an object of Kubernetes
        """Return the object; None if there is none."""
        found = await self._ask(method, path, query)
        if found.status == 404:
            return None
        self._accept(found, f"{method} {path}")
        return read_json(found.body, "Kubernetes")

    def _accept(self, found: HttpResponse, what: str) -> None:
        if found.status in (429, 500, 502, 503, 504):
            raise EngineUnavailable(f"Kubernetes answered {found.status} to {what}")
        if found.status >= 300:
            raise KubernetesRefused(f"{what}: {found.status}: {_message(found.body)}")

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
    ) -> HttpResponse:
        group = "apis/batch/v1" if path.startswith("jobs") else "api/v1"
        text = f"?{urlencode(query)}" if query else ""
        try:
            url = f"{self._address()}/{group}/namespaces/{self._place()}/{path}{text}"
            target = Target.of(url)
            request = HttpRequest(method=method, target=target, headers=self._headers(), body=body)
            async with clock.Timeout(ANSWER_SECONDS):
                line = await connected(target, target.host, tls=self._tls(target))
                return await asked(request, line)
        except (OSError, TimeoutError, HttpFailed) as error:
            why = str(error) or "no answer in time"
            raise EngineUnavailable(f"Kubernetes is unavailable: {why}") from None

    def _address(self) -> str:
        if self._api is not None:
            return self._api.rstrip("/")
        host = os.environ.get("KUBERNETES_SERVICE_HOST")
        if not host:
            raise KubernetesRefused(
                "this worker does not run in Kubernetes: name the API server with "
                'Kubernetes(…, api="https://…", account="…"), a folder with token and ca.crt'
            )
        shown = f"[{host}]" if ":" in host else host
        return f"https://{shown}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"

    def _place(self) -> str:
        return self._namespace or (self._account / "namespace").read_text().strip()

    def _headers(self) -> dict[str, str]:
        # Read for every request: Kubernetes replaces the token within the hour.
        token = (self._account / "token").read_text().strip()
        return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def _tls(self, target: Target) -> ssl.SSLContext | None:
        if target.scheme == "http":
            return None
        return ssl.create_default_context(cafile=str(self._account / "ca.crt"))


class _Watch:
    """The part of a Job that one worker has seen: its log, and the reasons why it waits."""

    def __init__(self, job: EngineJob) -> None:
        self._job = job
        self._read_until: dict[str, str] = {}  # by pod: the time of the last line
        self._told: set[str] = set()

    def since(self, pod: str) -> str | None:
        return self._read_until.get(pod)

    def read(self, pod: str, text: str) -> None:
        """Pass on the new lines; each begins with its time."""
        for line in text.splitlines():
            at, _, said = line.partition(" ")
            if at > self._read_until.get(pod, ""):
                self._read_until[pod] = at
                self._job.heard(said)

    def report(
        self, status: Mapping[str, Any] | None, pods: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Return the report of a Job that has ended; None if it has not."""
        if status is None:
            return failure(f"the Job {self._job.key} was deleted, and not by duly")
        for condition in status.get("status", {}).get("conditions", ()):
            if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
                return _ended(pods) or failure(_words(condition))
        for pod in pods:
            self._tell(pod)
        return None

    def _tell(self, pod: Mapping[str, Any]) -> None:
        """Say once why a pod does not start: no node has room, the image cannot be pulled."""
        found = pod.get("status", {})
        waiting = [
            one.get("state", {}).get("waiting") for one in found.get("containerStatuses", ())
        ]
        unmet = [one for one in found.get("conditions", ()) if one["status"] == "False"]
        for reason in (*filter(None, waiting), *unmet):
            words = _words(reason)
            if reason.get("reason") in _QUIET or words in self._told:
                continue
            self._told.add(words)
            self._job.note(f"the pod {pod['metadata']['name']} waits: {words}")


_QUIET: Final = {"ContainerCreating", "PodInitializing", "ContainersNotReady", "PodCompleted", None}


def _ended(pods: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the report of the last pod, or how its container ended."""
    for pod in sorted(
        pods, key=lambda one: str(one["metadata"]["creationTimestamp"]), reverse=True
    ):
        for container in pod.get("status", {}).get("containerStatuses", ()):
            ended = container.get("state", {}).get("terminated")
            if container["name"] == CONTAINER and ended is not None:
                how = f"{ended.get('reason', 'Error')}, exit {ended['exitCode']}"
                left = f"the container ended without a report: {how}"
                return str(ended.get("message") or failure(left))
    return None


def _labelled(label: str, value: str) -> dict[str, str]:
    return {"labelSelector": f"{label}={value}"}


def _words(reason: Mapping[str, Any]) -> str:
    return ": ".join(filter(None, (reason.get("reason"), reason.get("message"))))


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
