"""Charts over time, as text."""

import re

import pytest

from duly.web.svg.charts import HEIGHT, Chart, ChartLine, nice


def chart(*lines: ChartLine, stacked: bool = False) -> Chart:
    labels = [f"10:0{place}" for place in range(len(lines[0].values))]
    return Chart(
        title="Ended",
        about="jobs a minute",
        lines=lines,
        labels=labels,
        shown=lambda value: f"{value:g}",
        stacked=stacked,
    )


def line(*values: float | None, name: str = "half within") -> ChartLine:
    return ChartLine(name=name, kind="half", values=values)


def strokes(drawn: Chart) -> list[str]:
    return re.findall(r' d="([^"]*)"', drawn.drawing())


def test_columns_stand_on_one_another() -> None:
    drawn = chart(line(6.0), line(2.0, name="failed"), stacked=True)
    boxes = re.findall(r'y="([\d.]+)" width="8" height="([\d.]+)"', drawn.drawing())
    assert drawn.top == 8
    assert boxes == [("25", "75"), ("0", "25")]


def test_a_line_rises_with_its_values_and_is_cut_where_nothing_is_known() -> None:
    drawn = chart(line(0.0, 10.0, None, 5.0, 5.0))
    assert strokes(drawn) == [f"M5 {HEIGHT} L15 0 M35 50 L45 50"]


def test_a_value_between_two_gaps_can_be_seen() -> None:
    assert strokes(chart(line(None, 10.0, None))) == ["M11 0H19"]


def test_whoever_points_at_a_stretch_reads_its_values() -> None:
    titles = re.findall(r"<title>(.*?)</title>", chart(line(1.0, None)).drawing())
    assert titles == ["10:00 · half within 1", "10:01 · nothing"]


def test_whoever_does_not_see_it_is_told_the_latest() -> None:
    label = 'aria-label="Ended, jobs a minute; the latest: half within 2"'
    assert label in chart(line(1.0, 2.0, None)).drawing()
    assert 'aria-label="Ended: nothing yet"' in chart(line(None, None)).drawing()


def test_what_is_named_by_others_stays_text() -> None:
    drawn = chart(line(1.0, name='<script>"'))
    tags = set(re.findall(r"<(\w+)", drawn.drawing()))
    assert tags == {"svg", "line", "path", "rect", "title"}


def test_without_any_value_there_is_still_a_drawing() -> None:
    drawn = chart(line(None), line(None), stacked=True)
    assert drawn.is_empty
    assert 'class="axis"' in drawn.drawing()


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.7, 0.8), (1, 1), (52, 60), (101, 150), (0.0012, 0.0015)]
)
def test_a_scale_ends_with_a_number_that_reads_well(value: float, top: float) -> None:
    assert nice(value) == pytest.approx(top)
