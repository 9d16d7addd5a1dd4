"""The page of a flow, and the form for a step that asks: what they show, and to whom."""

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

import pytest

from duly import Duly, Step
from duly.app.flows import Flow
from duly.model.access import Role
from duly.web.svg.graph import MOST_STEPS
from tests.app.waiting import eventually
from tests.infrastructure.web import Site, site


class Office(NamedTuple):
    site: Site
    long: Flow[[], None]
    ask: Flow[[str], dict[str, object]]

    def page(self, path: str, role: Role = "operator", *, status: int = 200) -> str:
        who = f"who {len(self.site.app.tokens.list())}"
        answer = self.site.client.get(path, headers=self.site.bearer(who, role))
        assert answer.status_code == status, answer.text
        return unescape(answer.text)


@pytest.fixture
def office(url: str) -> Iterator[Office]:
    app = Duly(url)

    @app.task
    def work() -> None:
        pass

    @app.flow
    def long() -> None:
        for number in range(MOST_STEPS + 1):
            work.step().named(f"step {number}")

    @app.flow
    def ask(order: str) -> Step[dict[str, object]]:
        return app.wait_for("order.paid", key="{order}").named("payment")

    with site(app) as found:
        yield Office(found, long, ask)


def asked(office: Office) -> tuple[int, int]:
    """The number of a flow that asks, and of its step."""
    number = office.ask.enqueue("<A 7>").id
    words = f"flow:{number}"
    with office.site.app.running():
        eventually(lambda: office.site.app.jobs.list(words), "the question")
    [job] = office.site.app.jobs.list(words)
    return number, job.id


def test_what_nobody_could_look_at_is_a_table_alone_and_says_so(office: Office) -> None:
    job = office.long.enqueue()
    with office.site.app.running():
        job.result("60s")
    page = office.page(f"/jobs/{job.id}")
    assert "Too many steps to draw." in page
    assert "flow-graph" not in page
    assert page.count('<td class="step-name">') == MOST_STEPS + 1


def test_a_step_that_asks_can_be_answered_by_who_may(office: Office) -> None:
    flow, step = asked(office)
    for path in (f"/jobs/{flow}", f"/jobs/{step}"):
        assert f'hx-get="/jobs/{step}/answer"' in office.page(path)
        seen = office.page(path, "viewer")
        assert re.search(r'<button[^>]+disabled title="needs the operator role">Answer…', seen)
    assert "order.paid" in office.page(f"/jobs/{step}")
    office.page(f"/jobs/{step}/answer", "viewer", status=403)


def test_today_lists_what_waits_for_an_answer(office: Office) -> None:
    flow, step = asked(office)
    page = office.page("/")
    assert "Waiting for an answer" in page
    assert f'<a href="/jobs/{flow}">ask</a>' in page
    assert "waits for <code>order.paid</code> with key <code><A 7></code>" in page
    assert f'hx-get="/jobs/{step}/answer"' in page
    api = office.site.client.get("/api/v1/status", headers=office.site.bearer("api", "viewer"))
    [told] = api.json()["awaiting"]
    assert (told["id"], told["flow"], told["name"]) == (step, flow, "ask")
    assert (told["event"], told["key"], told["until"]) == ("order.paid", "<A 7>", None)
    office.site.app.jobs.get(step).cancel()
    eventually(lambda: "Waiting for an answer" not in office.page("/"), "nobody waits any more")


def test_the_answer_is_the_event_that_is_waited_for(office: Office) -> None:
    _, step = asked(office)
    form = office.page(f"/jobs/{step}/answer")
    assert 'hx-post="/api/v1/events"' in form
    assert '<input type="hidden" name="name" value="order.paid">' in form
    assert '<input type="hidden" name="key" value="<A 7>">' in form
    assert re.search(r'<textarea name="payload"[^>]*>{"approved": true}</textarea>', form)
    office.site.app.jobs.get(step).cancel()
    assert "This step does not wait for an event any more: it is cancelled." in office.page(
        f"/jobs/{step}/answer"
    )


def test_a_step_leads_up_to_its_flow(office: Office) -> None:
    flow, step = asked(office)
    page = office.page(f"/jobs/{step}")
    assert f'Step 1 (payment) of flow <a href="/jobs/{flow}">{flow} ask</a>' in page
    assert "Run again" not in page  # nobody runs it
    assert 'id="log"' not in page
