"""From whatever a task does to an outcome that can be stored.

A task may raise anything, also things whose text cannot be made; and it may return anything. Every
function here answers for all of it.
"""

import traceback
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from duly import clock
from duly.durations import parse_duration
from duly.errors import PayloadError, Permanent, RetryAfter
from duly.model.outcome import Raised, Succeeded
from duly.policy.redaction import redacted, redacted_for
from duly.policy.retry import Retry
from duly.registry.definition import Definition

_ENGINE = f"{Path(__file__).parent}/"
_BUILTIN = f"{Path(__file__).parents[1]}/builtin/"


def returned(value: object, definition: Definition) -> Succeeded | Raised:
    """The task came to its end; a result that cannot be kept fails it for good.

    Asking again would do its work again, and come to the same.
    """
    if value is None or definition.keep_result is None:
        return Succeeded()
    try:
        return Succeeded(definition.signature.encode_result(value))
    except PayloadError as error:
        return raised(error, definition.retry, permanent=True)


def raised(error: BaseException, retry: Retry, *, permanent: bool = False) -> Raised:
    told = _is_told_by_a_built_in(error)
    return Raised(
        error="" if told else type(error).__name__,
        message=redacted(_message(error)),
        traceback="" if told else redacted(_traceback(error)),
        permanent=permanent or isinstance(error, Permanent),
        retry_after=_retry_after(error),
        retryable=_is_covered(error, retry),
    )


def without_secrets(found: Raised, args: str) -> Raised:
    """What was raised, without what the task was told under the name of a secret."""
    message, trace = redacted_for(args, found.message), redacted_for(args, found.traceback)
    return replace(found, message=message, traceback=trace)


def _is_covered(error: BaseException, retry: Retry) -> bool:
    if isinstance(error, RetryAfter) or not isinstance(error, Exception):
        return True  # asked for; or as sys.exit(), which is nothing that on= could name
    return retry.covers(error)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - the task's own class
        return f"(its text cannot be made: {type(broken).__name__})"


def _traceback(error: BaseException) -> str:
    """Where it happened. Never the values of variables: they may be anybody's secrets."""
    try:
        return "".join(traceback.format_exception(_below_us(error)))
    except BaseException as broken:  # noqa: BLE001 - the task's own class
        return f"(it cannot be shown: {type(broken).__name__})"


def _is_told_by_a_built_in(error: BaseException) -> bool:
    """Whether a program or a server failed, which a built-in task says in its own words.

    The name of our error and the line that raised it would only be taken for a fault of duly.
    """
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or not step.tb_frame.f_code.co_filename.startswith(_BUILTIN):
        return False
    return isinstance(error, Permanent) or type(error).__module__.startswith("duly.builtin")


def _below_us(error: BaseException) -> BaseException:
    """The error without those steps of its way that are ours, which help nobody."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename.startswith(_ENGINE):
        step = step.tb_next
    return error if step is None else error.with_traceback(step)


def _retry_after(error: BaseException) -> timedelta | None:
    if not isinstance(error, RetryAfter):
        return None
    try:
        wait = _wait(error.delay)
    except Exception:  # noqa: BLE001 - no length of time, a moment of nowhere, a class of others
        return None
    return max(timedelta(), wait)


def _wait(delay: str | timedelta | datetime) -> timedelta:
    return delay - clock.now() if isinstance(delay, datetime) else parse_duration(delay)
