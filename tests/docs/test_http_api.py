"""Every request of the page about the HTTP API is made, as it stands there."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from duly import Duly
from tests.infrastructure.served import served

PAGE = (Path(__file__).parents[2] / "docs/http-api.md").read_text()
SCRIPTS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
    line.strip()
    for script in SCRIPTS
    for line in re.split(r"(?m)^(?=curl )", script)
    if line.startswith("curl ")
]


@pytest.mark.timeout(120)
def test_every_request_of_the_page_is_answered(tmp_path: Path) -> None:
    store = tmp_path / "duly.db"
    app = Duly(str(store))
    secret = app.tokens.create("ci", role="operator").secret
    app.close()
    assert len(COMMANDS) > 20
    with served(store, folder=tmp_path) as there:
        number = ""
        for command in COMMANDS:
            said = command.replace("1000", number) if number else command
            answer = asked(said, DULY=there.url, TOKEN=secret)
            assert "/problems/" not in answer, f"{said}\n{answer}"
            found = json.loads(answer)
            if not number and "id" in found:
                number = str(found["id"])
        assert number


def asked(command: str, **environment: str) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return done.stdout
