"""``duly k8s render``: the manifests of an app for Kubernetes."""

import json
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import click

Object: TypeAlias = dict[str, Any]

PORT: Final = 8400
STOP_SECONDS: Final = 60  # more than stop-timeout, which is 25 s


@click.group("k8s")
def k8s() -> None:
    """Run an app on Kubernetes.

    \b
      duly k8s render --image registry.example.com/shop:1.4 | kubectl apply -f -

    \b
    Exit codes: 0 success, 2 invalid usage.
    """


@k8s.command("render")
@click.option("--image", required=True, help="The image of the app, in which duly is installed.")
@click.option("--app", default="tasks.py", show_default=True, help="The app, as duly up takes it.")
@click.option("--name", default="duly", show_default=True, help="The prefix of all names.")
@click.option(
    "--secret",
    default="duly",
    show_default=True,
    help="The Secret whose entries become environment variables; it has DULY_URL.",
)
@click.option(
    "--workers", type=click.IntRange(1), default=2, show_default=True, help="How many worker pods."
)
@click.option(
    "--schedulers",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="How many scheduler pods; each of them is enough.",
)
@click.option("--host", default="", help="The host name under which the dashboard is opened.")
def render(**words: Any) -> None:
    """Print manifests for kubectl: migration, schedulers, workers, dashboard.

    The database is a PostgreSQL that exists. Schedulers and workers are equal among themselves; any
    pod may be killed at any time.

    \b
      kubectl create secret generic duly --from-literal DULY_URL=postgresql://…
      duly k8s render --image registry.example.com/shop:1.4 | kubectl apply -f -

    \b
    Exit codes: 0 success, 2 invalid usage.
    """
    items = Manifests(**words).items()
    click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The objects of an app: a migration, schedulers, workers and the dashboard."""

    image: str
    app: str
    name: str
    secret: str
    workers: int
    schedulers: int
    host: str

    def items(self) -> list[Object]:
        migration = self._pod(
            "migrate", self._container("db", "migrate"), restartPolicy="OnFailure"
        )
        job = {"backoffLimit": 10, "ttlSecondsAfterFinished": 600, "template": migration}
        port = {"name": "http", "port": 80, "targetPort": "http"}
        service = {"selector": self._labels("web"), "ports": [port]}
        budget = {"maxUnavailable": 1, "selector": {"matchLabels": self._labels("scheduler")}}
        return [
            self._object("batch/v1", "Job", "migrate", job),
            self._deployment("scheduler", self.schedulers, self._container("scheduler", self.app)),
            self._deployment("worker", self.workers, self._container("worker", self.app)),
            self._deployment("web", 1, self._web()),
            self._object("v1", "Service", "web", service),
            self._object("policy/v1", "PodDisruptionBudget", "scheduler", budget),
        ]

    def _web(self) -> Object:
        probe = {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 10}
        hosts = ["--hosts", self.host] if self.host else []
        return self._container(
            *["web", self.app, "--host", "0.0.0.0", "--port", str(PORT), *hosts],  # noqa: S104 - in its pod
            ports=[{"name": "http", "containerPort": PORT}],
            readinessProbe=probe,
            livenessProbe={**probe, "httpGet": {"path": "/healthz", "port": "http"}},
        )

    def _container(self, *command: str, **more: Any) -> Object:
        return {
            "name": "duly",
            "image": self.image,
            "command": ["duly", *command],
            "envFrom": [{"secretRef": {"name": self.secret}}],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
            },
            **more,
        }

    def _pod(self, role: str, container: Object, **more: Any) -> Object:
        spec = {"containers": [container], "terminationGracePeriodSeconds": STOP_SECONDS, **more}
        return {"metadata": {"labels": self._labels(role)}, "spec": spec}

    def _deployment(self, role: str, replicas: int, container: Object) -> Object:
        selector, template = {"matchLabels": self._labels(role)}, self._pod(role, container)
        spec = {"replicas": replicas, "selector": selector, "template": template}
        return self._object("apps/v1", "Deployment", role, spec)

    def _object(self, version: str, kind: str, role: str, spec: Object) -> Object:
        metadata = {"name": f"{self.name}-{role}"}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}

    def _labels(self, role: str) -> dict[str, str]:
        return {"app.kubernetes.io/name": self.name, "app.kubernetes.io/component": role}
