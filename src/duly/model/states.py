"""The life cycle of a job.

Every state transition is a row of ``TRANSITIONS``. No other file decides what may follow what:
policies name moves, the SQL statements check the states that a move starts from, and tests compare
both with this table. The diagram in ``docs/states.md`` is generated from it.

A job waits (``scheduled`` for its moment, ``blocked`` behind another, ``ready`` for a worker),
runs, and ends. An end is final, except that a failed job may be retried by a person, and with a
flow what was cancelled inside of it.
"""

from enum import StrEnum

from duly.errors import WrongState


class State(StrEnum):
    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Move(StrEnum):
    DUE = "due"
    MOVE = "move"  # to another moment, by a call with the same key
    FREE = "free"  # no longer blocked
    DEFER = "defer"  # no longer blocked, but its moment is still to come
    HOLD = "hold"  # a limit is full, or no worker knows its task
    CLAIM = "claim"
    OPEN = "open"  # a flow: from now on its steps run
    HAND_OFF = "hand off"  # another system has it now, and will report its outcome
    SUCCEED = "succeed"
    AGAIN = "again"  # the attempt failed, and the job is retried later
    FAIL = "fail"
    LOSE = "lose"  # its worker's lease expired
    GIVE_BACK = "give back"  # claimed, and returned unstarted
    POSTPONE = "postpone"  # nothing was done: what the task needs is down
    PARK = "park"  # its arguments do not fit the function any more
    ANSWER = "answer"  # its event has happened, or an earlier try has succeeded elsewhere
    CANCEL = "cancel"
    EXPIRE = "expire"
    RETRY = "retry"  # a person retries a failed job
    LINE_UP = "line up"  # … while another job of the schedule has not ended
    RESUME = "resume"  # a flow was cancelled with the flow around it, and that one is retried


WAITING = (State.SCHEDULED, State.BLOCKED, State.READY)
LIVE = (*WAITING, State.RUNNING)
ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED)

TRANSITIONS: dict[State, dict[Move, State]] = {
    State.SCHEDULED: {
        Move.DUE: State.READY,
        Move.MOVE: State.SCHEDULED,
        Move.ANSWER: State.SUCCEEDED,
        Move.CANCEL: State.CANCELLED,
        Move.EXPIRE: State.EXPIRED,
    },
    State.BLOCKED: {
        Move.FREE: State.READY,
        Move.DEFER: State.SCHEDULED,
        Move.MOVE: State.SCHEDULED,
        Move.ANSWER: State.SUCCEEDED,
        Move.CANCEL: State.CANCELLED,
        Move.EXPIRE: State.EXPIRED,
    },
    State.READY: {
        Move.HOLD: State.BLOCKED,
        Move.CLAIM: State.RUNNING,
        Move.MOVE: State.SCHEDULED,
        Move.ANSWER: State.SUCCEEDED,
        Move.CANCEL: State.CANCELLED,
        Move.EXPIRE: State.EXPIRED,
    },
    State.RUNNING: {
        Move.OPEN: State.RUNNING,
        Move.HAND_OFF: State.RUNNING,
        Move.SUCCEED: State.SUCCEEDED,
        Move.AGAIN: State.SCHEDULED,
        Move.FAIL: State.FAILED,
        Move.LOSE: State.READY,
        Move.GIVE_BACK: State.READY,
        Move.POSTPONE: State.SCHEDULED,
        Move.PARK: State.BLOCKED,
        Move.CANCEL: State.CANCELLED,
        Move.EXPIRE: State.EXPIRED,
    },
    State.SUCCEEDED: {},
    State.FAILED: {Move.RETRY: State.READY, Move.LINE_UP: State.BLOCKED},
    State.CANCELLED: {Move.RESUME: State.READY},
    State.EXPIRED: {},
}


def after(state: State, move: Move) -> State:
    """Return the next state; raise ``WrongState`` that names the possible moves."""
    following = TRANSITIONS[state].get(move)
    if following is None:
        possible = ", ".join(f'"{move}"' for move in TRANSITIONS[state]) or "nothing: it has ended"
        raise WrongState(f'the job is {state} and cannot take "{move}"; it can take {possible}')
    return following


def sources(move: Move) -> tuple[State, ...]:
    """Return the states in which a job can take the move."""
    return tuple(state for state, moves in TRANSITIONS.items() if move in moves)
