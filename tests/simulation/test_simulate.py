"""Stories of a simulated world end well, a seed tells its own, and no guard is there for show."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation import SOMETIMES, Ending, Sabotage, play, telling
from tests.simulation.sabotages import SABOTAGES

HERE = Path(__file__).parent
FEW_STORIES = 8
STORIES = 250
SECONDS = 20  # of computing, after which it is enough, if everything has happened
MOST_STORIES = 1_000
SHORT = telling.SHORT


# Without one of these, at least every third seed tells.
SEEN_SOON = {
    "the wait of a step for the last of those before it",
    "the count of the steps that have not ended",
    "the unique key of the ledger, where nobody looks either",
    "the database's clock",
    "the transaction around an operation",
    "the state from which a job may be claimed",
    "the place that is given back to a limit",
    "the one callback of an end",
}
seldom = pytest.mark.thorough("few seeds show it, and a change of the engine changes which")


def test_a_few_fresh_stories_end_well() -> None:
    first = int.from_bytes(os.urandom(4), "big")
    for seed in range(first, first + FEW_STORIES):
        ending = play(seed, minutes=SHORT)
        assert not ending.wrong, told(ending, SHORT)


@pytest.mark.thorough("plays until even the rare has happened")
@pytest.mark.timeout(400)  # what is rare may let us wait for it
def test_fresh_stories_end_well_and_everything_happens_sometimes() -> None:
    first = int.from_bytes(os.urandom(4), "big")
    sometimes: Counter[str] = Counter()
    began = time.process_time()
    for played, seed in enumerate(range(first, first + MOST_STORIES)):
        ending = play(seed, minutes=SHORT)
        assert not ending.wrong, told(ending, SHORT)
        sometimes += ending.sometimes
        late = time.process_time() - began > SECONDS
        if (played >= STORIES or late) and all(sometimes[what] for what in SOMETIMES):
            return
    missing = [what for what in SOMETIMES if not sometimes[what]]
    pytest.fail(f"in {MOST_STORIES} stories from seed {first} on there never was: {missing}")


@pytest.mark.thorough("each repeats a story of another day")
@pytest.mark.parametrize(("seed", "minutes"), [
    (int(line.split()[0]), float(line.split()[1]))
    for line in (HERE / "seeds.txt").read_text().splitlines()
    if not line.startswith("#")
])  # fmt: skip
def test_a_story_that_ended_badly_once_ends_well(seed: int, minutes: float) -> None:
    ending = play(seed, minutes=minutes)
    assert not ending.wrong, told(ending, minutes)


@pytest.mark.parametrize(
    "stories", [2, pytest.param(4, marks=pytest.mark.thorough("repeats with other seeds"))]
)
def test_the_same_seed_tells_the_same_story(stories: int) -> None:
    digests = [play(seed, minutes=SHORT).digest for seed in range(stories)]
    assert [play(seed, minutes=SHORT).digest for seed in range(stories)] == digests
    assert len(set(digests)) == stories
    for hash_seed in ("1", "2"):
        assert digests_elsewhere(hash_seed, stories) == digests


def test_the_guards_that_are_seen_soon_exist() -> None:
    assert SABOTAGES.keys() >= SEEN_SOON


@pytest.mark.parametrize(
    "guard",
    [pytest.param(one, marks=[] if one in SEEN_SOON else [seldom]) for one in SABOTAGES],
)
def test_a_store_without_one_of_its_guards_breaks_a_promise(guard: str) -> None:
    seeds = (telling.told()[guard].seed, *range(telling.MOST))
    assert any(telling.shown(guard, seed) for seed in seeds)


def test_a_guard_that_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(ValueError, match="nothing left to take away"):
        play(0, sabotage=Sabotage(statements={"claim": lambda text: text}))


def test_the_command_tells_what_it_played_and_counts() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "1", "--minutes", "0.1"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "1 seeds, 0 ended badly" in said
    assert "virtual hours" in said


def digests_elsewhere(hash_seed: str, stories: int) -> list[str]:
    """Of the same stories, in another process, in which sets of texts have another order."""
    program = (
        "from tests.simulation import play\n"
        f"print(*(play(seed, minutes={SHORT}).digest for seed in range({stories})))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def told(ending: Ending, minutes: float) -> str:
    again = f"python -m tests.simulation --seed {ending.seed} --minutes {minutes}"
    return "\n".join([*ending.steps[-20:], *ending.wrong, again])
