"""When a queue whose limits let nobody in is worth another look."""

from datetime import timedelta

from duly.engine.claim_planner import LOOK_SECONDS, Doors


def test_a_door_that_a_rate_has_shut_opens_when_the_next_may_enter() -> None:
    now = [0.0]
    doors = Doors(lambda: now[0])
    doors.shut("mail", timedelta(seconds=2))
    doors.ended(["mail"])  # of no use: it is not full
    assert (doors.shut_now(), doors.next_look()) == ({"mail"}, timedelta(seconds=2))
    now[0] = 2.0
    assert (doors.shut_now(), doors.next_look()) == (set(), None)


def test_a_door_is_open_again_when_one_has_left_or_somebody_says_so() -> None:
    doors = Doors(lambda: 0.0)
    for queue in ("mail", "other"):
        doors.shut(queue, None)
    assert doors.next_look() == timedelta(seconds=LOOK_SECONDS)
    doors.ended(["mail"])
    assert doors.shut_now() == {"other"}
    doors.open("other")
    assert doors.shut_now() == set()
