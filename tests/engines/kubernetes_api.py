"""A small server that speaks the part of the Kubernetes API that duly uses.

It is no Kubernetes: there is no scheduler and no container. It checks each Job against the
published schema, runs the container's command as a process here, and answers as an API server
would: 409 for a second Job of a name, a Job that stays while its pods end, logs with times,
termination messages.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jsonschema_rs

from duly import clock

ROOT = Path(__file__).parents[2]
TOKEN = "the-token-of-the-service-account"
TERMINATION_LOG = "/dev/termination-log"
Answer = tuple[int, object]


def misfits(thing: dict[str, Any]) -> list[str]:
    """Return what Kubernetes' schema has against an object."""
    published = json.loads((Path(__file__).parent / "kubernetes-1.37.json").read_text())
    found = f"#/$defs/{published['kinds'][thing['kind']]}"
    schema = jsonschema_rs.validator_for({"$ref": found, "$defs": published["$defs"]})
    return [f"{error.instance_path}: {error.message}" for error in schema.iter_errors(thing)]


def now() -> str:
    return clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


class RunningJob:
    """A Job with its only pod, which is a process here."""

    def __init__(self, manifest: dict[str, Any], folder: Path) -> None:
        self.manifest = manifest
        self.name: str = manifest["metadata"]["name"]
        self.log: list[str] = []
        self.deleted_at: str | None = None
        self.created_at = now()
        self.waiting: dict[str, str] | None = None  # why the container does not start
        pod = manifest["spec"]["template"]["spec"]
        [container] = pod["containers"]
        self._grace: int = pod["terminationGracePeriodSeconds"]
        self._message = folder / f"{self.name}.message"
        words = {"python": sys.executable, TERMINATION_LOG: str(self._message)}
        self.process = subprocess.Popen(
            [words.get(word, word) for word in container["command"]],
            cwd=ROOT,
            env={**os.environ, **{one["name"]: one["value"] for one in container["env"]}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def end(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def delete(self) -> None:
        """Ask the pod to end, and kill it after its grace."""
        if self.deleted_at is None:
            self.deleted_at = now()
            self.end(signal.SIGTERM)
            threading.Timer(self._grace, self.end, (signal.SIGKILL,)).start()

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None and not self._reader.is_alive()

    def as_job(self) -> dict[str, Any]:
        status: dict[str, Any] = {}
        if self.is_over:
            kind = "Failed" if self.process.returncode else "Complete"
            status["conditions"] = [
                {"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}
            ]
        deleted = {} if self.deleted_at is None else {"deletionTimestamp": self.deleted_at}
        return {**self.manifest, "metadata": {**self.manifest["metadata"], **deleted}} | {
            "status": status
        }

    def as_pod(self) -> dict[str, Any]:
        state: dict[str, Any] = {"running": {}}
        if self.waiting is not None:
            state = {"waiting": self.waiting}
        elif self.is_over:
            code = self.process.returncode
            ended = {"exitCode": 128 - code if code < 0 else code, "reason": "Error"}
            if self._message.exists():
                ended["message"] = self._message.read_text()[:4096]
            state = {"terminated": ended}
        return {
            "metadata": {"name": f"{self.name}-x1y2z", "creationTimestamp": self.created_at},
            "status": {"containerStatuses": [{"name": "job", "state": state}]},
        }

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self.log.append(f"{now()} {line}")


class KubernetesServer:
    def __init__(self, folder: Path) -> None:
        self.jobs: dict[str, RunningJob] = {}
        self.created = 0
        self.is_down = False
        self.refused = 0
        self._folder = folder

    def answer(  # noqa: PLR0911 - one for each request
        self, method: str, url: str, token: str, body: bytes
    ) -> Answer:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Unauthorized"}
        if self.is_down:
            self.refused += 1
            return 503, {"message": "the server is currently unable to handle the request"}
        found = re.fullmatch(
            r"/(apis/batch/v1|api/v1)/namespaces/work/(jobs|pods)(?:/([a-z0-9-]+))?(/log)?",
            parts.path,
        )
        assert found is not None, url
        self._forget()
        match method, found[2], found[3], found[4]:
            case "POST", "jobs", None, None:
                return self._create(json.loads(body))
            case "GET", "jobs", None, None:
                label, _, value = query["labelSelector"].partition("=")
                jobs = [job.as_job() for job in self.jobs.values()]
                return 200, {"items": [j for j in jobs if j["metadata"]["labels"][label] == value]}
            case "GET", "pods", None, None:
                label, _, name = query["labelSelector"].partition("=")
                assert label == "batch.kubernetes.io/job-name"
                return 200, {"items": [self.jobs[name].as_pod()] if name in self.jobs else []}
            case "GET", "pods", pod, "/log":
                return self._log(str(pod), query)
            case _, "jobs", name, None if name in self.jobs:
                if method == "DELETE":
                    assert query["propagationPolicy"] == "Foreground"
                    self.jobs[str(name)].delete()
                return 200, self.jobs[str(name)].as_job()
            case _:
                return 404, {"message": "not found"}

    def close(self) -> None:
        for job in self.jobs.values():
            job.end(signal.SIGKILL)
            job.process.wait()

    def _create(self, manifest: dict[str, Any]) -> Answer:
        if wrong := misfits(manifest):
            return 422, {"message": "; ".join(wrong)}
        name = manifest["metadata"]["name"]
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
            return 422, {"message": f"{name}: not a name of RFC 1123"}
        if name in self.jobs:
            return 409, {"message": f'jobs.batch "{name}" already exists'}
        self.jobs[name] = RunningJob(manifest, self._folder)
        self.created += 1
        return 201, self.jobs[name].as_job()

    def _log(self, pod: str, query: dict[str, str]) -> Answer:
        job = self.jobs.get(pod.removesuffix("-x1y2z"))
        if job is None or job.waiting is not None:
            return 400, {"message": "the container is waiting to start"}
        since = query.get("sinceTime", "")[:19]  # whole seconds, as Kubernetes has it
        return 200, "".join(line for line in list(job.log) if line[:19] >= since)

    def _forget(self) -> None:
        for name, job in list(self.jobs.items()):
            if job.deleted_at is not None and job.is_over:
                del self.jobs[name]


@contextmanager
def kubernetes_at(folder: Path) -> Iterator[tuple[KubernetesServer, str]]:
    """The server and its address; ``folder`` becomes that of a service account."""
    server = KubernetesServer(folder)
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "namespace").write_text("work")

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, said = server.answer(
                self.command, self.path, self.headers["Authorization"], body
            )
            data = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _do  # noqa: N815 - as http.server has it

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()
        server.close()
