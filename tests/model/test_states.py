"""The life of a job is a table: it is whole, its ends are ends, and the page shows just that."""

import re
from pathlib import Path

import pytest

from duly.errors import WrongState
from duly.model.states import ENDED, LIVE, TRANSITIONS, WAITING, Move, State, after, sources

PAGE = Path(__file__).parents[2] / "docs/states.md"
ROW = re.compile(r"^\| ([a-z ]+) \| (`.+?`) \| `(\w+)` \| .+ \|$", re.MULTILINE)
EVERY_CASE = [(state, move) for state in State for move in Move]


def test_every_state_has_its_place_in_the_table() -> None:
    assert list(TRANSITIONS) == list(State)


def test_waiting_running_and_ended_are_all_there_is() -> None:
    assert [*WAITING, State.RUNNING, *ENDED] == list(State)
    assert (*WAITING, State.RUNNING) == LIVE


def test_every_state_can_be_reached_from_every_beginning() -> None:
    for beginning in WAITING:
        assert reachable(beginning) == set(State)


def test_every_job_can_end_in_every_way() -> None:
    for state in LIVE:
        assert reachable(state) >= set(ENDED)


def test_an_end_is_final_unless_what_failed_is_retried_or_the_flow_around_it() -> None:
    ways_back = [(state, move) for state in ENDED for move in TRANSITIONS[state]]
    assert ways_back == [
        (State.FAILED, Move.RETRY),
        (State.FAILED, Move.LINE_UP),
        (State.CANCELLED, Move.RESUME),
    ]


def test_only_a_ready_job_is_claimed_and_only_a_running_one_finishes() -> None:
    assert sources(Move.CLAIM) == (State.READY,)
    for move in (Move.SUCCEED, Move.FAIL, Move.AGAIN, Move.LOSE, Move.GIVE_BACK, Move.PARK):
        assert sources(move) == (State.RUNNING,)


def test_every_live_job_can_be_cancelled() -> None:
    assert sources(Move.CANCEL) == LIVE


def test_no_move_is_without_use() -> None:
    assert [move for move in Move if not sources(move)] == []


@pytest.mark.parametrize(("state", "move"), EVERY_CASE)
def test_what_follows_is_what_the_table_says_or_refused(state: State, move: Move) -> None:
    if state in sources(move):
        assert after(state, move) is TRANSITIONS[state][move]
    else:
        with pytest.raises(WrongState, match=f'is {state} and cannot take "{move}"'):
            after(state, move)


def test_a_refusal_names_what_was_possible() -> None:
    with pytest.raises(WrongState) as refused:
        after(State.BLOCKED, Move.CLAIM)
    assert str(refused.value) == (
        'the job is blocked and cannot take "claim"; '
        'it can take "free", "defer", "move", "answer", "cancel", "expire"'
    )


def test_a_refusal_says_when_nothing_was_possible() -> None:
    with pytest.raises(WrongState, match=r"it can take nothing: it has ended$"):
        after(State.EXPIRED, Move.CANCEL)


def test_the_page_shows_the_picture_of_the_table() -> None:
    assert f"```mermaid\n{picture()}```\n" in PAGE.read_text(), picture()


def test_the_page_lists_every_move_in_its_order() -> None:
    listed = [
        (move, tuple(re.findall(r"\w+", start)), end)
        for move, start, end in ROW.findall(PAGE.read_text())
    ]
    assert listed == [(move, sources(move), only_end(move)) for move in Move]


def test_the_page_explains_every_state() -> None:
    explained = re.findall(r"^\| `(\w+)` \| \w", PAGE.read_text(), re.MULTILINE)
    assert explained == list(State)


def reachable(state: State) -> set[State]:
    found, ahead = {state}, [state]
    while ahead:
        following = set(TRANSITIONS[ahead.pop()].values()) - found
        found |= following
        ahead.extend(following)
    return found


def only_end(move: Move) -> State:
    [end] = {TRANSITIONS[start][move] for start in sources(move)}
    return end


def picture() -> str:
    """The table as a diagram that GitHub, GitLab and most editors draw."""
    arrows = [f"[*] --> {state}" for state in WAITING]
    for state, moves in TRANSITIONS.items():
        for end in dict.fromkeys(moves.values()):
            labels = ", ".join(move for move in moves if moves[move] is end)
            arrows.append(f"{state} --> {end}: {labels}")
    arrows += [f"{state} --> [*]" for state in ENDED if not TRANSITIONS[state]]
    return "".join(f"{line}\n" for line in ["stateDiagram-v2", *(f"    {a}" for a in arrows)])
