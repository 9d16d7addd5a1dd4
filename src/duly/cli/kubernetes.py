"""``duly k8s render``: the manifests of an app for Kubernetes."""

import json
from typing import Any, Final

import click

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
    click.echo(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests(**words)}, indent=2)
    )


def manifests(
    *, image: str, app: str, name: str, secret: str, workers: int, schedulers: int, host: str
) -> list[dict[str, Any]]:
    def container(*command: str, **more: Any) -> dict[str, Any]:
        return {
            "name": "duly",
            "image": image,
            "command": ["duly", *command],
            "envFrom": [{"secretRef": {"name": secret}}],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
            },
            **more,
        }

    def pod(role: str, what: dict[str, Any], **more: Any) -> dict[str, Any]:
        spec = {"containers": [what], "terminationGracePeriodSeconds": STOP_SECONDS, **more}
        return {"metadata": {"labels": _labels(name, role)}, "spec": spec}

    def deployment(role: str, replicas: int, what: dict[str, Any]) -> dict[str, Any]:
        selector = {"matchLabels": _labels(name, role)}
        spec = {"replicas": replicas, "selector": selector, "template": pod(role, what)}
        return _object("apps/v1", "Deployment", f"{name}-{role}", spec)

    probe = {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 10}
    hosts = ["--hosts", host] if host else []
    served = container(
        *["web", app, "--host", "0.0.0.0", "--port", str(PORT), *hosts],  # noqa: S104 - in its pod
        ports=[{"name": "http", "containerPort": PORT}],
        readinessProbe=probe,
        livenessProbe={**probe, "httpGet": {"path": "/healthz", "port": "http"}},
    )
    migrating = container("db", "migrate")
    port = {"name": "http", "port": 80, "targetPort": "http"}
    return [
        _object(
            "batch/v1",
            "Job",
            f"{name}-migrate",
            {
                "backoffLimit": 10,
                "ttlSecondsAfterFinished": 600,
                "template": pod("migrate", migrating, restartPolicy="OnFailure"),
            },
        ),
        deployment("scheduler", schedulers, container("scheduler", app)),
        deployment("worker", workers, container("worker", app)),
        deployment("web", 1, served),
        _object(
            "v1",
            "Service",
            f"{name}-web",
            {"selector": _labels(name, "web"), "ports": [port]},
        ),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            f"{name}-scheduler",
            {"maxUnavailable": 1, "selector": {"matchLabels": _labels(name, "scheduler")}},
        ),
    ]


def _labels(name: str, role: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/component": role}


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
