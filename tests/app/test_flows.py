"""How many jobs come in a minute and how many end, as somebody sees it who looks on."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.store.activity import LENGTHS, MOST_COUNTED, Depth, EndedStats
from duly.views.charts import Charts, QueueRateMeter, QueueRates

START = datetime(2027, 1, 4, 10, 0, tzinfo=UTC)
NONE = (0,) * (len(LENGTHS) + 1)


class Known(Charts):
    """Charts that have found this out."""

    def __init__(self, minutes: dict[datetime, int]) -> None:
        super().__init__()
        self._minutes = minutes

    def minute(self, start: datetime) -> dict[str, EndedStats]:
        ended = self._minutes.get(start)
        if ended is None:
            return {}
        words = {"waiting": NONE, "running": NONE, "lateness": NONE}
        one = EndedStats(start=start, queue="mail", succeeded=ended, failed=0, others=0, **words)
        return {"mail": one}


def mail(ready: int) -> list[Depth]:
    return [Depth(queue="mail", ready=ready)]


def test_what_ended_is_counted_over_the_last_sixty_seconds() -> None:
    charts = Known({START: 10, START - timedelta(minutes=1): 60})
    found = QueueRateMeter().look(mail(5), charts, now=START + timedelta(seconds=15))
    assert found["mail"].ended == pytest.approx(10 + 60 * 0.75)


def test_what_came_is_what_ended_and_what_the_queue_has_grown_by() -> None:
    flows, charts = QueueRateMeter(), Known({START: 60})
    assert flows.look(mail(100), charts, now=START)["mail"].came is None
    later = START + timedelta(seconds=30)
    assert flows.look(mail(160), charts, now=later)["mail"].came == pytest.approx(60 + 120)


def test_a_queue_that_shrinks_still_takes_in() -> None:
    flows, charts = QueueRateMeter(), Known({START: 60})
    flows.look(mail(100), charts, now=START)
    found = flows.look([], charts, now=START + timedelta(seconds=30))
    assert found["mail"] == QueueRates(came=0.0, ended=60.0)


def test_what_was_seen_more_than_a_minute_ago_is_forgotten() -> None:
    flows, charts = QueueRateMeter(), Known({})
    flows.look(mail(0), charts, now=START)
    flows.look(mail(1_000), charts, now=START + timedelta(seconds=50))
    found = flows.look(mail(1_010), charts, now=START + timedelta(seconds=70))
    assert found["mail"].came == pytest.approx(30)


def test_what_is_too_much_to_be_counted_has_no_rate() -> None:
    flows, charts = QueueRateMeter(), Known({})
    flows.look(mail(MOST_COUNTED + 1), charts, now=START)
    found = flows.look(mail(MOST_COUNTED + 1), charts, now=START + timedelta(seconds=30))
    assert found["mail"].came is None


def test_what_could_not_be_counted_before_has_not_come_since() -> None:
    flows, charts = QueueRateMeter(), Known({START: 60})
    flows.look(mail(MOST_COUNTED + 1), charts, now=START)
    found = flows.look(mail(MOST_COUNTED), charts, now=START + timedelta(seconds=30))
    assert found["mail"].came is None


def test_however_many_look_at_once_one_look_is_remembered() -> None:
    flows, charts = QueueRateMeter(), Known({})
    for place in range(100):
        flows.look(mail(place), charts, now=START + place * timedelta(milliseconds=5))
    assert len(flows._looks) == 1


def test_a_clock_that_was_set_back_is_no_growth() -> None:
    flows, charts = QueueRateMeter(), Known({})
    flows.look(mail(0), charts, now=START)
    found = flows.look(mail(50), charts, now=START - timedelta(hours=1))
    assert found["mail"].came is None
