"""The table [targets]: what it takes, and what it refuses and why."""

import pytest

from duly.errors import InvalidValue
from duly.settings.tables import TargetTable

NATS = {"kind": "nats", "url": "nats://nats"}


def test_a_broker_reports_if_its_settings_say_so() -> None:
    tables = {"one": NATS, "two": {**NATS, "outcome": "report", "for_queues": ["mail"]}}
    one, two = TargetTable().read(tables)
    assert (one.reports, one.for_queues) == (False, ())
    assert (two.reports, two.for_queues) == (True, ("mail",))


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"one": {"url": "nats://nats"}}, "targets.one: it needs a kind, one of celery, rq"),
        ({"one": {"kind": "nats"}}, "targets.one: it needs the address of its server"),
        ({"one": {**NATS, "queue": "mail"}}, "targets.one: queue is for rq and dramatiq"),
        (
            {name: {**NATS, "for_queues": ["mail"]} for name in ("one", "two")},
            "targets.two: the queue mail belongs to targets.one",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_place(tables: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        TargetTable().read(tables)
    assert said in str(refused.value)
