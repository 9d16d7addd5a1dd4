"""``duly alerts``: what was sent, and a test message to a real receiver."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.app import Store
from duly.cli import main
from duly.clock import Timeout, sleep
from duly.model.alert import AlertChanges, AlertContent
from tests.builtin.server import answered, serving
from tests.cli.test_schedules import on, store
from tests.conformance.world import MINUTE

__all__ = ["store"]


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


async def two_messages(there: Store) -> None:
    await there.alerts.turn("me", MINUTE)
    messages = tuple((to, AlertContent(title=f"about {to}")) for to in ("mail", "hook"))
    await there.alerts.change("me", AlertChanges(messages=messages))
    for message in await there.alerts.due(["mail", "hook"], longest=MINUTE):
        if message.destination == "mail":
            await there.alerts.sent(message.id)
        else:
            await there.alerts.failed(message.id, "connection refused", pause=MINUTE)


def test_a_bare_noun_lists_what_was_sent_and_what_is_pending(store: str) -> None:
    assert "no messages" in duly("alerts").stderr
    on(store, two_messages)
    listed = json.loads(duly("alerts", "-o", "json").stdout)
    states = {one["destination"]: (one["state"], one["error"]) for one in listed}
    assert states == {"mail": ("sent", None), "hook": ("pending", "connection refused")}
    [pending] = json.loads(duly("alerts", "--pending", "-o", "json").stdout)
    assert pending["title"] == "about hook"


def test_a_test_needs_a_receiver_and_knows_its_name(tmp_path: Path) -> None:
    def tried(text: str, *words: str) -> tuple[int, str]:
        (tmp_path / "duly.toml").write_text(text)
        command = [sys.executable, "-m", "duly", "alerts", "test", *words]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return found.returncode, found.stderr

    code, said = tried("")
    assert (code, "no [[alerts.to]]" in said) == (2, True)
    code, said = tried('[[alerts.to]]\nname = "a"\nwebhook = "http://127.0.0.1:9"', "--to", "b")
    assert (code, "there are a" in said) == (2, True)


@pytest.mark.parametrize(
    "role",
    [
        "up --no-web",
        *(
            pytest.param(role, marks=pytest.mark.thorough("repeats it with another command"))
            for role in ("scheduler", "worker")
        ),
    ],
)
async def test_every_node_alerts_as_the_settings_file_says(tmp_path: Path, role: str) -> None:
    async with serving() as server:
        server.answers["/watch"] = answered(200)
        (tmp_path / "duly.toml").write_text(f'[alerts]\nping = "{server.url("/watch")}"')
        (tmp_path / "tasks.py").write_text("from duly import Duly\n\nduly = Duly()\n")
        command = [sys.executable, "-m", "duly", *role.split()]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            async with Timeout(60):
                while not server.asked:
                    await sleep(0.05)
        finally:
            process.terminate()
            await process.wait()
    assert server.asked[0].path == "/watch"


async def test_a_test_message_is_sent_to_every_receiver(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers |= {"/good": answered(200), "/bad": answered(404)}
        lines = [
            f'[[alerts.to]]\nname = "{one}"\nwebhook = "{server.url(f"/{one}")}"'
            for one in ("good", "bad")
        ]
        (tmp_path / "duly.toml").write_text("\n".join(lines))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "duly", "alerts", "test"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
    lines = said.decode().splitlines()
    assert (process.returncode, lines[0]) == (1, "good: sent")
    assert lines[1].startswith("bad: not sent: POST ")
    assert "This is a test" in json.loads(server.asked[0].body)["text"]
