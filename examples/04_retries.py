"""Try again, where that may help.

``attempts`` counts the first; the last wait of the table repeats. Errors that are not in ``on`` end
the job at once, and so does ``Permanent``; ``RetryAfter`` says when to try again.
"""

from duly import Duly, Permanent, Retry, RetryAfter

duly = Duly()


class CardGoneError(Exception):
    pass


class BusyError(Exception):
    def __init__(self, retry_after: str) -> None:
        super().__init__(f"busy for {retry_after} s")
        self.retry_after = retry_after


def ask_bank(order: int) -> str:
    """Whatever your bank does."""
    return f"order {order} is paid"


@duly.task(
    retry=Retry(
        attempts=6,
        backoff=["10s", "1m", "10m"],
        jitter=False,
        on=(ConnectionError, TimeoutError),
    )
)
def charge(order: int) -> str:
    try:
        return ask_bank(order)
    except CardGoneError as gone:
        raise Permanent("the card is gone") from gone
    except BusyError as busy:
        raise RetryAfter(f"{busy.retry_after}s") from busy


@duly.task(retry=None)
def charge_once(order: int) -> str:
    return ask_bank(order)
