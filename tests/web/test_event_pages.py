"""The pages about what starts work, as readers see them. On SQLite, unless ``url`` is another."""

from collections.abc import Iterator
from html import unescape

import pytest

from duly import Duly
from tests.app.waiting import eventually
from tests.infrastructure.web import Site, site

HOSTILE = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def here(url: str) -> Iterator[Site]:
    app = Duly(url)

    @app.task
    def thank(invoice_id: int) -> int:
        return invoice_id

    app.schedules.add("on invoice.*", thank, name="thank")  # type: ignore[arg-type]
    with site(app) as found:
        yield found


def raw(here: Site, path: str, *, status: int = 200) -> str:
    headers = here.bearer(f"reader {len(here.app.tokens.list())}", "operator")
    answer = here.client.get(path, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.text


def reacted(here: Site, number: str) -> None:
    with here.app.running():
        eventually(lambda: here.app.events.reactions(number), "a reaction")


def test_whatever_is_in_an_event_is_shown_as_text(here: Site) -> None:
    number = here.app.emit("invoice.paid", {"invoice_id": 7, "note": HOSTILE}, key=HOSTILE)
    reacted(here, number)
    for path in ("/schedules/events", f"/schedules/events/{number}", "/schedules/thank"):
        page = raw(here, path)
        assert "<img src=x" not in page, path
        assert "invoice.paid" in page, path
    assert HOSTILE in unescape(raw(here, f"/schedules/events?key={HOSTILE.replace(' ', '+')}"))


def test_a_name_that_cannot_be_one_is_said_beside_the_box(here: Site) -> None:
    page = unescape(raw(here, "/schedules/events?name=a*b"))
    assert 'role="alert"' in page
    assert "a star stands at the end" in page


def test_an_event_that_is_not_there_is_said(here: Site) -> None:
    page = unescape(raw(here, "/schedules/events/12345678", status=404))
    assert "there is no event 12345678" in page


def test_what_could_not_react_needs_somebody_who_cannot_run_it_without_an_event(
    here: Site,
) -> None:
    reacted(here, here.app.emit("invoice.sent"))
    page = unescape(raw(here, "/"))
    assert 'has no field "invoice_id"' in page
    assert "/api/v1/schedules/thank/run" not in page
    assert "1 item needs attention." in page


def test_lists_name_the_event_where_others_have_a_moment(here: Site) -> None:
    page = raw(here, "/schedules")
    assert '<span class="quiet">on</span> <span class="mono">invoice.*</span>' in page
    assert "exhausted" not in page


def test_history_names_each_event(here: Site) -> None:
    number = here.app.emit("invoice.paid", {"invoice_id": 7})
    reacted(here, number)
    page = raw(here, "/schedules/thank")
    assert f'/schedules/events/{number}">invoice.paid</a>' in page
    assert "Lateness" not in page


def test_where_nothing_reacts_and_nothing_happened_the_first_step_is_taught(here: Site) -> None:
    here.app.schedules.remove("thank")
    page = unescape(raw(here, "/schedules/events"))
    assert '@duly.on("doc.changed")' in page
    assert 'duly.emit("doc.changed", {"doc_id": 7})' in page
