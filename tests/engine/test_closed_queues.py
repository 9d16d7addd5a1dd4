"""When a queue whose limits let nobody in is worth another look."""

from datetime import timedelta

from duly.engine.claim_planner import LOOK_SECONDS, ClosedQueues


def test_a_door_that_a_rate_has_shut_opens_when_the_next_may_enter() -> None:
    now = [0.0]
    closed = ClosedQueues(lambda: now[0])
    closed.shut("mail", timedelta(seconds=2))
    closed.ended(["mail"])  # of no use: it is not full
    assert (closed.shut_now(), closed.next_look()) == ({"mail"}, timedelta(seconds=2))
    now[0] = 2.0
    assert (closed.shut_now(), closed.next_look()) == (set(), None)


def test_a_door_is_open_again_when_one_has_left_or_somebody_says_so() -> None:
    closed = ClosedQueues(lambda: 0.0)
    for queue in ("mail", "other"):
        closed.shut(queue, None)
    assert closed.next_look() == timedelta(seconds=LOOK_SECONDS)
    closed.ended(["mail"])
    assert closed.shut_now() == {"other"}
    closed.open("other")
    assert closed.shut_now() == set()
