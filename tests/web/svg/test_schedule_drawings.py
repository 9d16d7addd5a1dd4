"""The drawings about schedules, as text."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from duly.views.schedule_detail import HourLateness
from duly.views.timeline import Bar, LaneOfBars, Timeline
from duly.web.svg.drawing import Axis
from duly.web.svg.gantt import gantt
from duly.web.svg.schedule_charts import Mark, durations, heat_map, outcomes

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
HOSTILE = '"><script>alert(1)</script>'


def bar(start: float, minutes: float, **words: object) -> Bar:
    begin = NOON + start * MINUTE
    usual = Bar(
        start=begin,
        end=begin + minutes * MINUTE,
        state="succeeded",
        job_id=7,
        schedule="nightly",
        task="report",
        queue="default",
    )
    return replace(usual, **words)  # type: ignore[arg-type]


def drawn(*bars: Bar, name: str = "nightly") -> str:
    return gantt(
        Timeline(
            start=NOON - 60 * MINUTE,
            now=NOON,
            end=NOON + 20 * MINUTE,
            lanes=[LaneOfBars(name=name, link=True, bars=bars)],
            more=0,
            cut=None,
            collisions=0,
            zone=None,
        ),
        zone="UTC",
        job=lambda number: f"/jobs/{number}",
        lane=lambda lane: f"/schedules/{lane}",
    )


def tops(drawing: str) -> list[str]:
    return re.findall(r'y="([\d.]+)" [^>]*class="bar ', drawing)


def test_what_was_not_kept_hangs_below_the_line() -> None:
    drawing = outcomes([Mark("succeeded", "02:00: succeeded"), Mark("failed", "03:00: skipped")])
    kept, lost = re.findall(r'y="([\d.]+)" width="4" height="([\d.]+)"', drawing)
    ground = float(kept[0]) + float(kept[1])
    assert float(lost[0]) == ground
    assert "the last 2: 1 succeeded, 1 failed" in drawing
    assert "<title>03:00: skipped</title>" in drawing


def test_the_newest_outcome_is_at_the_right_however_few_there_are() -> None:
    [few] = re.findall(r'<rect x="([\d.]+)"', outcomes([Mark("succeeded", "")]))
    many = re.findall(r'<rect x="([\d.]+)"', outcomes([Mark("succeeded", "")] * 30))
    assert len(many) == 20
    assert many[-1] == few


def test_the_longest_run_is_the_highest() -> None:
    drawing = durations([SECOND, 4 * SECOND, 2 * SECOND], label="three runs")
    heights = [float(one) for one in re.findall(r'height="([\d.]+)" rx', drawing)]
    assert heights.index(max(heights)) == 1
    assert heights[0] < heights[2] < heights[1]


def test_an_hour_in_which_runs_are_late_says_so_in_words_and_not_by_colour_alone() -> None:
    hours = [
        HourLateness(weekday=0, hour=2, runs=9, lateness=0.2 * SECOND),
        HourLateness(weekday=4, hour=23, runs=1, lateness=12 * MINUTE),
    ]
    drawing = heat_map(hours)
    assert ">&lt;1s</text>" in drawing
    assert ">12m</text>" in drawing
    assert "level-0" in drawing
    assert "level-4" in drawing
    assert "Fri 23:00–23:59: usually 12 min late, 1 run" in drawing
    assert "the latest are Fri at 23: 12 min" in drawing


def test_runs_that_lie_over_each_other_are_drawn_below_each_other() -> None:
    beside = tops(drawn(bar(-50, 10), bar(-30, 10)))
    over = tops(drawn(bar(-50, 10), bar(-45, 10, collides=True)))
    assert beside[0] == beside[1]
    assert over[0] != over[1]
    assert "while another run had not ended" in drawn(bar(-45, 10, collides=True))


def test_a_bar_opens_its_job_and_says_what_it_is() -> None:
    drawing = drawn(bar(-50, 10))
    assert 'href="/jobs/7"' in drawing
    assert "<title>nightly, job 7: succeeded, began 11:10, took 10 min</title>" in drawing


def test_a_run_that_goes_on_has_an_open_end_and_one_to_come_no_job() -> None:
    assert "still running" in drawn(bar(-5, 5, state="running"))
    coming = drawn(bar(5, 2, state="coming", job_id=None))
    assert 'href="/jobs' not in coming
    assert "is due at 12:05, usually takes 2 min" in coming
    unknown = drawn(bar(5, 0, state="coming", job_id=None, usual=False))
    assert "nobody knows how long it takes" in unknown


def test_names_are_texts_and_nothing_else() -> None:
    drawing = drawn(bar(-5, 1, schedule=HOSTILE), name=HOSTILE)
    assert "<script" not in drawing
    assert "<script" not in outcomes([Mark("succeeded", HOSTILE)])


def test_times_along_an_axis_are_round_on_the_clock_of_the_zone() -> None:
    axis = Axis(start=NOON + 7 * MINUTE, end=NOON + 67 * MINUTE, left=0, width=600)
    words = [text for _, text in axis.ticks("Asia/Kathmandu")]  # 5:45 ahead
    assert words == ["18:00", "18:10", "18:20", "18:30", "18:40", "18:50"]
    assert axis.x(NOON) == 0
    assert axis.x(axis.end) == 600
