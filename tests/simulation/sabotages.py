"""Guards to be taken away, one at a time, from a store that is otherwise as it is."""

from collections.abc import Callable, Iterable

from duly.engine.lease import Lease
from duly.engine.timekeeper import Timekeeper
from duly.flow.progress import Course, StepFacts
from duly.model.flow import StepState
from duly.store import job_endings, limits
from duly.store.database import Ask, Operation
from duly.store.rows import LockedJob
from tests.simulation import Sabotage


def without(text: str) -> Callable[[str], str]:
    return lambda statement: statement.replace(text, "")


def instead(text: str, other: str) -> Callable[[str], str]:
    return lambda statement: statement.replace(text, other)


def in_any_state(statement: str) -> str:
    """Search for jobs in any state, and claim the jobs that were found in any state."""
    return statement.replace("state = 'ready' and ", "").replace("state || '' = 'ready'", "true")


def free_the_next(statement: str) -> str:
    """Unblock the first job that is blocked, whatever runs."""
    first = "job.schedule_id = freed.id"
    chosen = statement.replace(first, f"{first} and job.state = 'blocked'")
    return chosen.replace("limit 1) is null", "limit 1) is null or true")


def nothing(statement: str) -> str:
    return f"select * from ({statement}) where false"


def leave_silently(jobs: Iterable[LockedJob]) -> Operation[list[str]]:
    """Places are given back, and nobody is told."""
    yield Ask("drop_holdings", {"ids": [job.id for job in jobs]})
    return []


def call_nobody(*_: object, **__: object) -> Operation[list[str]]:
    yield from ()
    return []


def told_by_the_first(self: Course, step: StepFacts, before: StepState) -> None:
    """A step starts when something before it has ended, whatever else it waits for."""
    step.waiting -= 1
    if step.state is StepState.WAITING and step.number not in self.starting:
        self._decide(step)


SABOTAGES = {
    "the fence of whoever settles a job": Sabotage(
        statements={"hold_jobs": without(" and job.fence = mine.fence")}, harsh=True
    ),
    "the fence of whoever finishes a job in passing": Sabotage(
        statements={
            "keep_plain": without("job.fence = :fence and "),
            "finish_plain": without("and fence = :fence "),
        },
        harsh=True,
    ),
    "the wait of a step for the last of those before it": Sabotage(
        code={(Course, "_tell"): told_by_the_first}
    ),
    "the count of the steps that have not ended": Sabotage(
        statements={"set_steps": without("waiting = asked.waiting, ")}
    ),
    "the doubt of a worker about its lease": Sabotage(
        code={(Lease, "is_doubtful"): lambda _, __: False}
    ),
    "the comparison of the revision on which a fire was decided": Sabotage(
        statements={"advance_schedules": without("and schedule.revision = decided.revision")},
        loose=True,
    ),
    "the unique key of the ledger, where nobody looks either": Sabotage(
        statements={
            "record_fires": without("on conflict (schedule_id, due_at, series) do nothing"),
            "settled_fires": nothing,
        },
        schema=(
            "alter table duly_fire rename to old_fire",
            "create table duly_fire as select * from old_fire",
        ),
    ),
    "the database's clock": Sabotage(nodes_clock=True),
    "the distrust of a clock that jumped": Sabotage(
        code={(Timekeeper, "_is_trusted"): lambda *_: True}, harsh=True
    ),
    "the transaction around an operation": Sabotage(torn=True),
    "the reaper": Sabotage(without=("reaper",)),
    "the look at the lease before a claim": Sabotage(
        statements=dict.fromkeys(("claim", "claim_held"), without("and lease_until > :now"))
    ),
    "the refusal to renew what has expired": Sabotage(
        statements={"renew_lease": without("and lease_until > :now")}
    ),
    "the state from which a job may be claimed": Sabotage(
        statements=dict.fromkeys(("claim", "claim_held", "claim_of_tasks"), in_any_state)
    ),
    "the wait for the job in front": Sabotage(statements={"free_blocked": free_the_next}),
    "the count of those who are in a limit": Sabotage(
        statements={
            "read_locked_limits": instead(
                "(select count(*) from duly_holding as holding "
                "where holding.limit_name = named_limit.name)",
                "0",
            )
        }
    ),
    "the count of those who run in a queue": Sabotage(
        statements={"running_in_queue": instead("count(*)", "0 * count(*)")}
    ),
    "the place that is given back to a limit": Sabotage(
        statements={"drop_holdings": instead("where", "where false and")}
    ),
    "the look at who waits when somebody leaves a limit": Sabotage(
        code={(limits, "leave"): leave_silently}
    ),
    "the memory of a rate": Sabotage(
        statements={"write_limits": instead("arrival = one.arrival", "arrival = 0")}
    ),
    "the one callback of an end": Sabotage(code={(job_endings, "call_back"): call_nobody}),
}
