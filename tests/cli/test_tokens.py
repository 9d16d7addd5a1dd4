"""``duly tokens``, and what the command leaves in the audit log. On SQLite."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from duly.app import Store
from duly.app.access import login
from duly.cli import main
from duly.clock import now
from duly.model.access import Actor, Token, hash_of
from duly.model.outcome import Raised
from duly.testing.clock import VirtualClock
from duly.views.today import status
from tests.cli.test_schedules import on, store
from tests.conformance.world import World
from tests.factories import call

__all__ = ["store"]

REFUSED = Raised(error="ConnectionError", message="refused")


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def done(*words: str) -> Result:
    result = duly(*words)
    assert result.exit_code == 0, result.output
    return result


def found(url: str, secret: str) -> Token | None:
    """What a request with the secret would find."""
    return on(url, lambda there: there.access.find_token(hash_of(secret)))


def entries(url: str) -> list[tuple[str, str, str, str]]:
    there = on(url, lambda there: there.access.audit())
    assert on(url, lambda there: there.access.verify_audit()) is None
    return [(one.who, one.how, one.action, one.subject) for one in there[::-1]]


def test_a_bare_noun_lists_and_teaches_the_first_step() -> None:
    result = done("tokens")
    assert result.stdout == ""
    assert "no tokens; create one: duly tokens create NAME --role viewer" in result.stderr


def test_the_secret_alone_is_on_standard_output_and_only_once(store: str) -> None:
    result = done("tokens", "create", "ci", "--role", "operator", "--tenant", "acme")
    secret = result.stdout.removesuffix("\n")
    assert re.fullmatch(r"duly_[\w-]{43}", secret)
    said = 'token "ci": operator, tenant acme, expires '
    assert said in result.stderr
    assert "It is not stored and cannot be shown again" in result.stderr
    token = found(store, secret)
    assert token is not None
    assert (token.name, token.role, token.tenant, token.created_by) == (
        "ci",
        "operator",
        "acme",
        login(),
    )
    assert token.expires_at is not None
    assert (token.expires_at - token.created_at).days in (89, 90)
    for output in ("table", "wide", "json", "jsonl", "name"):
        assert secret[5:] not in done("tokens", "-o", output).output


def test_a_list_says_what_each_may_do_and_until_when() -> None:
    done("tokens", "create", "wall", "--role", "viewer", "--expires", "never")
    done("tokens", "create", "ci", "--role", "admin", "--expires", "36h")
    lines = [re.split(r"  +", line) for line in done("tokens").stdout.splitlines()]
    assert lines[0] == ["NAME", "ROLE", "TENANT", "STATE", "EXPIRES", "LAST USED"]
    assert lines[1][:4] == ["ci", "admin", "-", "valid"]
    assert lines[1][4].startswith("in 1 d ")
    assert lines[2] == ["wall", "viewer", "-", "valid", "never", "-"]
    wide = done("tokens", "-o", "wide").stdout.splitlines()
    assert (wide[0].split()[-2:], wide[1].split()[-1]) == (["CREATED", "BY"], login())
    assert done("tokens", "-o", "name").stdout == "ci\nwall\n"
    [ci, wall] = json.loads(done("tokens", "list", "-o", "json").stdout)
    assert (ci["name"], ci["role"], ci["created_by"]) == ("ci", "admin", login())
    assert (wall["expires_at"], wall["revoked_at"], wall["last_used_at"]) == (None, None, None)


def test_a_revoked_token_is_not_known_any_more_and_its_name_is_free(store: str) -> None:
    secret = done("tokens", "create", "ci", "--role", "viewer").stdout.strip()
    assert found(store, secret) is not None
    assert done("tokens", "revoke", "ci").stdout == "revoked  ci\n"
    assert found(store, secret) is None
    assert done("tokens", "-o", "name").stdout == ""
    assert done("tokens", "--all").stdout.splitlines()[1].split()[3] == "revoked"
    again = duly("tokens", "revoke", "ci")
    assert (again.exit_code, again.stdout) == (3, "")
    assert 'there is no token "ci"' in again.stderr
    assert done("tokens", "create", "ci", "--role", "viewer").stdout.strip() != secret


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ci"], 2, "--role"),
        (["ci", "--role", "root"], 2, "viewer"),
        (["ci", "--role", "viewer", "--expires", "90"], 2, "90"),
        (["ci", "--role", "viewer", "--expires", "2020-01-01"], 2, "is in the past"),
        (["", "--role", "viewer"], 2, "must not be empty"),
        (["n" * 101, "--role", "viewer"], 2, "the maximum is 100"),
        (["taken", "--role", "viewer"], 1, 'a token "taken" exists already: revoke it first'),
    ],
)
def test_what_cannot_be_a_token_is_refused(words: list[str], code: int, said: str) -> None:
    done("tokens", "create", "taken", "--role", "viewer")
    result = duly("tokens", "create", *words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert done("tokens", "--all", "-o", "name").stdout == "taken\n"


def test_a_shell_can_keep_the_secret(store: str) -> None:
    """The real command, and what it says to people is not among it."""
    words = [sys.executable, "-m", "duly", "tokens", "create", "ci", "--role", "viewer"]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    assert found(store, made.stdout.strip()) is not None
    assert "database: " in made.stderr


def test_what_the_command_changes_is_in_the_audit_log_under_who_typed_it(store: str) -> None:
    done("schedules", "add", "every 1000h", "--name", "report", "--task", "work")
    done("schedules", "edit", "report", "--rule", "every 2000h")
    done("schedules", "pause", "report", "--note", "holiday")
    done("schedules", "resume", "report")
    done("schedules", "run", "report")
    done("queues", "pause", "mail")
    done("limits", "set", "crm", "--concurrency", "2")
    done("limits", "reset", "crm")
    done("jobs", "cancel", "task:work", "--yes")
    done("tokens", "create", "ci", "--role", "viewer")
    done("tokens", "revoke", "ci")
    done("schedules", "remove", "report", "--yes")
    mine = [(action, subject) for who, how, action, subject in entries(store) if who == login()]
    assert mine == [
        ("schedules.add", "schedule:report"),
        ("schedules.edit", "schedule:report"),
        ("schedules.pause", "schedule:report"),
        ("schedules.resume", "schedule:report"),
        ("schedules.run", "schedule:report"),
        ("queues.set", "queue:mail"),
        ("limits.set", "limit:crm"),
        ("limits.reset", "limit:crm"),
        ("jobs.cancel", "jobs"),
        ("tokens.create", "token:ci"),
        ("tokens.revoke", "token:ci"),
        ("schedules.remove", "schedule:report"),
    ]
    assert {how for _, how, _, _ in entries(store)} == {"command"}


def test_looking_leaves_nothing_in_the_audit_log(store: str) -> None:
    for words in (["status"], ["schedules"], ["jobs"], ["queues"], ["workers"], ["tokens"]):
        done(*words)
    assert duly("schedules", "pause", "nothing").exit_code == 3
    assert entries(store) == []


def test_status_does_not_speak_of_what_was_acknowledged(store: str) -> None:
    on(store, failed)
    assert duly("status").exit_code == 1
    on(store, acknowledge)
    result = done("status")
    assert result.stdout.splitlines()[0] == "● Nothing is scheduled yet."
    on(store, failed)
    again = duly("status", "-o", "json")
    assert again.exit_code == 1
    assert [need["moments"] for need in json.loads(again.stdout)["needs"]] == [1]


async def failed(there: Store) -> None:
    world = World(there, VirtualClock(now()))
    await world.enqueue(call())
    await world.end(await world.begin(), REFUSED)


async def acknowledge(there: Store) -> None:
    [need] = (await status(there)).needs
    assert need.matter is not None
    await there.acting(Actor("ada", "person")).access.acknowledge(need.matter)
