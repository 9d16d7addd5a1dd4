"""The table [alerts]: what it takes, and what it refuses and why."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from duly.errors import InvalidValue
from duly.settings import Settings, load
from duly.settings.tables import AlertSettings, filled

WHOLE = """
[alerts]
name = "shop"
url = "https://duly.example.com"
on = ["failed", "late"]
late_after = "10m"
queue_depth = 1000
queue_age = "15m"
ping = "${WATCH}"

[alerts.pings]
nightly = "https://hc.example.com/uuid"

[[alerts.to]]
webhook = "https://hooks.example.com/secret/path"
headers = { Authorization = "Bearer ${TOKEN}" }
on = ["failed"]

[[alerts.to]]
name = "people"
email = ["ops@example.com"]
smtp = "smtps://mail.example.com"
from = "duly@example.com"
user = "duly"
password = "${SMTP_PASSWORD}"
"""


def loaded(folder: Path, text: str) -> Settings:
    (folder / "duly.toml").write_text(text)
    return load({}, {}, folder)


def test_the_whole_table_is_read_and_its_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = loaded(tmp_path, WHOLE)
    found = settings.alerts
    assert found is not None
    assert (found.name, found.on, found.queue_depth) == ("shop", ("failed", "late"), 1000)
    assert (found.late_after, found.queue_age) == (timedelta(minutes=10), timedelta(minutes=15))
    hook, mail = found.to
    assert (hook.name, hook.way, hook.on) == ("webhook hooks.example.com", "webhook", ("failed",))
    assert (mail.name, mail.recipients, mail.sender) == (
        "people",
        ("ops@example.com",),
        "duly@example.com",
    )
    shown = settings.shown("alerts")
    assert shown == "webhook hooks.example.com, people, ping, ping of nightly"
    assert "secret" not in repr(settings)


def test_the_examples_of_the_page_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/alerts.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    first, second = (loaded(tmp_path, text).alerts for text in examples)
    assert first is not None
    assert second is not None
    assert [one.way for one in first.to] == ["webhook", "email", "apprise"]
    assert (second.ping, list(second.pings)) == ("${WATCH_URL}", ["nightly"])


def test_without_the_table_nothing_is_told(tmp_path: Path) -> None:
    assert load({}, {}, tmp_path).alerts is None
    assert not AlertSettings().is_active


def test_in_the_environment_it_is_json(tmp_path: Path) -> None:
    found = load({}, {"DULY_ALERTS": '{"to": [{"webhook": "https://h.example.com"}]}'}, tmp_path)
    assert found.alerts is not None
    assert [one.name for one in found.alerts.to] == ["webhook h.example.com"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[alerts]\nevry = '5m'", "did you mean every?"),
        ("[alerts]\non = ['failled']", "did you mean failed?"),
        ("[alerts]\nlate_after = 5", "alerts.late_after"),
        ("alerts = 3", "a table"),
        ("[alerts]\nto = 3", "write [[alerts.to]]"),
        ("[[alerts.to]]\nname = 'x'", "number 1: give one of webhook"),
        ("[[alerts.to]]\napprise = 'json://h'\nsign = 'X'", "sign is not for apprise"),
        ("[[alerts.to]]\nwebhook = 'hooks.example.com'", "begins with https://"),
        ("[[alerts.to]]\nwebhook = 'https://a.example'\nsmtp = 'smtp://x'", "smtp is not for"),
        ("[[alerts.to]]\nemail = ['a@example.com']\nfrom = 'b@example.com'", "needs smtp"),
        ("[alerts.pings]\nnightly = 'nowhere'", "alerts.pings.nightly"),
        (
            "[[alerts.to]]\nwebhook = 'https://a.example/1'\n"
            "[[alerts.to]]\nwebhook = 'https://a.example/2'",
            "two are called",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        loaded(tmp_path, text)
    assert said in str(refused.value)


def test_a_variable_is_looked_up_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCH", raising=False)
    with pytest.raises(InvalidValue, match="WATCH is not set"):
        filled("${WATCH}/fail")
    monkeypatch.setenv("WATCH", "https://w.example.com")
    assert filled("${WATCH}/fail") == "https://w.example.com/fail"
