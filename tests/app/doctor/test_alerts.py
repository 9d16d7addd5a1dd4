"""The check of alerts: what the settings lack, and what could not be sent."""

from datetime import UTC, datetime

from duly.doctor.checks import judge_alerts
from duly.model.alert import AlertContent, AlertMessage
from duly.settings.tables import AlertSettings, AlertTable

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOOK = AlertTable().read({"to": [{"webhook": "https://h.example.com"}]})


def message(attempts: int, error: str = "") -> AlertMessage:
    content = AlertContent(title="1 problem")
    return AlertMessage(
        id=1, destination="hook", made_at=NOON, content=content, attempts=attempts, error=error
    )


def test_alerts_that_can_be_sent_are_well() -> None:
    assert judge_alerts(HOOK, None, [message(0)]).level == "ok"
    assert "webhook h.example.com" in judge_alerts(HOOK, None, []).said
    assert "nobody is told" in judge_alerts(None, None, []).said
    assert "nobody is told" in judge_alerts(AlertSettings(), None, []).said


def test_a_message_that_could_not_be_sent_is_a_problem() -> None:
    found = judge_alerts(HOOK, None, [message(3, "refused"), message(0)])
    assert (found.level, found.said) == ("problem", "1 message to hook could not be sent: refused")


def test_a_missing_variable_is_a_problem() -> None:
    found = judge_alerts(HOOK, "the environment variable X is not set", [])
    assert found.level == "problem"
