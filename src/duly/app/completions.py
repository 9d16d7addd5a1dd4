"""``current().transaction()``: what joins a task's own transaction with the end of its job."""

from datetime import timedelta

from duly.instants import EPOCH
from duly.model.claimed import Claimed
from duly.model.outcome import Succeeded
from duly.model.payload import Json
from duly.policy.verdict import Tried, judge
from duly.registry.definition import Definition
from duly.registry.registry import Completion
from duly.store.completing import open_completion
from duly.store.protocol import Settlement


def completion(url: str, job: Claimed, definition: Definition, *, lease: timedelta) -> Completion:
    """For one attempt at a job, on a connection of its own."""

    def settlement(result: Json | None) -> Settlement:
        # An end that is good has no moment of its own to wait for, and rolls no dice.
        verdict = judge(Tried.of(job, definition.retry), Succeeded(result), EPOCH, dice=0.0)
        return Settlement(
            job=job,
            verdict=verdict,
            outcome="succeeded",
            result=result,
            keep_result=job.terms.kept,
        )

    return open_completion(
        url, settlement=settlement, encode=definition.signature.encode_result, lease=lease
    )
