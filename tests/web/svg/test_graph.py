"""The steps of a flow as a graph."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

from markupsafe import Markup

from duly.model.flow import FlowInfo, StepInfo, StepState
from duly.views.flow import FlowView, flow_view
from duly.web.svg.graph import MOST_STEPS, draw_flow

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NOW = START + 60 * SECOND


def step(number: int, *before: int, state: str = "waiting", **changes: Any) -> StepInfo:
    known: dict[str, Any] = {
        "number": number,
        "name": f"step {number}",
        "task": "work",
        "kind": "step",
        "before": before,
        "when": "all_succeeded",
        "if_failed": "cancel",
        "state": StepState(state),
        "parts": 1,
        "remaining": 0,
        "missed": 0,
        "stopped": 0,
        "reason": "",
        "started_at": None if state == "waiting" else START,
        "ended_at": START + SECOND if state in ("succeeded", "failed") else None,
        "job_id": None if state == "waiting" else 100 + number,
    }
    return StepInfo(**{**known, **changes})


def flow(steps: Sequence[StepInfo]) -> FlowView:
    left = sum(one.ended_at is None for one in steps)
    info = FlowInfo(
        id=7, root=7, result=None, remaining=left, failed=0, opened_at=START, ended_at=None,
        steps=tuple(steps),
    )  # fmt: skip
    return flow_view(info, NOW)


def drawn(*steps: StepInfo) -> str:
    found = draw_flow(flow(steps), lambda one: f"/jobs/{one.job_id}" if one.job_id else None)
    assert isinstance(found, Markup)
    return found


def test_a_step_says_its_name_its_state_by_a_shape_and_a_word_and_how_long_it_took() -> None:
    drawing = drawn(step(0, state="succeeded"), step(1, 0, state="running"), step(2, 1))
    assert re.findall(r'class="mark">(.)</tspan> ([a-z ]+)</text>', drawing) == [
        ("●", "succeeded"),
        ("◐", "running"),
        ("○", "waiting"),
    ]
    assert re.findall(r'class="name"[^>]*>([^<]+)<', drawing) == ["step 0", "step 1", "step 2"]
    assert re.findall(r'class="took"[^>]*>([^<]+)<', drawing) == ["1 s", "1 min"]
    assert re.findall(r"<title>([^<]+)</title>", drawing)[1] == "step 1, running, 1 min"


def test_what_has_a_job_leads_there_and_what_has_none_leads_nowhere() -> None:
    drawing = drawn(step(0, state="succeeded"), step(1, 0))
    assert re.findall(r'<a href="([^"]+)"', drawing) == ["/jobs/100"]
    assert drawing.count("<g class=") == 1


def test_the_way_that_decides_when_it_ends_is_heavier() -> None:
    slow = step(2, 0, state="succeeded", ended_at=START + 9 * SECOND)
    drawing = drawn(step(0, state="succeeded"), step(1, 0, state="succeeded"), slow, step(3, 1, 2))
    kinds = re.findall(r'<path d="[^"]+" class="([^"]+)"', drawing)
    assert kinds == ["way", "way", "way", "way critical"]  # above the others: drawn last
    heavy = re.findall(r'class="step at-\w+ critical" aria-label="([^,]+),', drawing)
    assert heavy == ["step 0", "step 2"]


def test_a_line_past_a_step_that_decides_is_not_heavier() -> None:
    ended = [START + n * SECOND for n in range(4)]
    steps = [step(n, *range(n), state="succeeded", ended_at=ended[n]) for n in range(3)]
    kinds = re.findall(r'<path d="[^"]+" class="([^"]+)"', drawn(*steps))
    assert kinds == ["way", "way critical", "way critical"]


def test_a_list_is_a_stack_with_a_bar_and_a_question_has_a_border_of_its_own() -> None:
    over = step(0, state="running", kind="map", parts=10, remaining=3)
    drawing = drawn(over, step(1, state="running", kind="wait"))
    assert drawing.count("box behind") == 2
    full, part = (float(width) for width in re.findall(r'width="([\d.]+)" height="3"', drawing))
    assert part / full == 0.7
    assert ">7/10</text>" in drawing
    assert "step at-awaiting" in drawing


def test_names_are_text() -> None:
    evil = '"><script>alert(1)</script>'
    drawing = drawn(step(0, state="failed", name=evil, reason=evil))
    assert "<script" not in drawing
    assert evil in unescape(drawing)


def test_long_names_stay_in_their_box() -> None:
    [name] = re.findall(r'class="name"[^>]*>([^<]+)<', drawn(step(0, name="x" * 500)))
    assert name.endswith("…")
    assert len(name) <= 20


def test_what_nobody_could_look_at_is_not_drawn() -> None:
    def chain(length: int) -> FlowView:
        return flow([step(n, *([n - 1] if n else [])) for n in range(length)])

    assert draw_flow(chain(MOST_STEPS), lambda _: None) is not None
    assert draw_flow(chain(MOST_STEPS + 1), lambda _: None) is None
    tangled = [step(n, *range(n)) for n in range(60)]
    assert draw_flow(flow(tangled), lambda _: None) is None
