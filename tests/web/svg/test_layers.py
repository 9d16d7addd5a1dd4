"""A graph in layers: nothing lies over anything else, lines go forwards, and equal is equal."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from duly.web.svg.graph import Layout, Sizes, laid_out

SIZES = Sizes(high=50, thin=8, gap=20)
DIAMOND = [(), (0,), (0,), (1, 2)]
# extract → transform A, B, C → load, and a line that passes over a layer
ETL = [(), (0,), (0,), (0,), (1, 2, 3), (0, 4)]


def any_graph(seed: int, steps: int = 40) -> list[tuple[int, ...]]:
    dice = random.Random(seed)
    return [
        tuple(sorted(dice.sample(range(step), min(step, dice.choice((0, 1, 1, 2, 3))))))
        for step in range(steps)
    ]


GRAPHS = [pytest.param(any_graph(seed), id=f"seed {seed}") for seed in range(20)]
GRAPHS += [pytest.param(DIAMOND, id="diamond"), pytest.param(ETL, id="etl")]
GRAPHS += [pytest.param([(), *[(n,) for n in range(30)]], id="chain")]


def crossings(layout: Layout) -> int:
    lines = [
        (layout.points[a], layout.points[b]) for way in layout.routes for a, b in pairwise(way)
    ]
    return sum(
        one[0].layer == two[0].layer
        and (one[0].middle - two[0].middle) * (one[1].middle - two[1].middle) < 0
        for n, one in enumerate(lines)
        for two in lines[:n]
    )


@pytest.mark.parametrize("before", GRAPHS)
def test_no_step_lies_over_another_or_over_a_line_that_passes(
    before: Sequence[Sequence[int]],
) -> None:
    layout = laid_out(before, SIZES)
    for layer in range(layout.layers):
        spans = sorted(
            (place.middle - high / 2, place.middle + high / 2)
            for number, place in enumerate(layout.points)
            if place.layer == layer
            for high in [SIZES.high if number < len(before) else SIZES.thin]
        )
        assert spans
        assert spans[0][0] >= -0.001
        assert spans[-1][1] <= layout.height + 0.001
        for (_, end), (start, _) in pairwise(spans):
            assert start - end >= SIZES.gap - 0.001


@pytest.mark.parametrize("before", GRAPHS)
def test_every_line_goes_one_layer_further_at_a_time(before: Sequence[Sequence[int]]) -> None:
    layout = laid_out(before, SIZES)
    assert [(way[0], way[-1]) for way in layout.routes] == [
        (one, step) for step, many in enumerate(before) for one in many
    ]
    for way in layout.routes:
        layers = [layout.points[one].layer for one in way]
        assert layers == [*range(layers[0], layers[0] + len(way))]


@pytest.mark.parametrize("before", GRAPHS)
def test_equal_graphs_are_laid_out_equally(before: Sequence[Sequence[int]]) -> None:
    assert laid_out(before, SIZES) == laid_out([tuple(numbers) for numbers in before], SIZES)


def test_a_step_stands_behind_the_last_of_those_before_it() -> None:
    assert [place.layer for place in laid_out(ETL, SIZES).places] == [0, 1, 1, 1, 2, 3]


def test_what_need_not_cross_does_not() -> None:
    # Two chains whose steps were written the other way round.
    before: list[tuple[int, ...]] = [(), (), (1,), (0,), (3,), (2,)]
    layout = laid_out(before, SIZES)
    assert crossings(layout) == 0
    assert layout.places[0].middle == layout.places[3].middle == layout.places[4].middle


def test_a_step_stands_in_the_middle_of_those_it_brings_together() -> None:
    places = laid_out(DIAMOND, SIZES).places
    assert places[0].middle == places[3].middle
    assert places[0].middle == pytest.approx((places[1].middle + places[2].middle) / 2)


def test_nothing_takes_no_room() -> None:
    layout = laid_out([], SIZES)
    assert (layout.layers, layout.height, [*layout.places]) == (0, 0, [])
