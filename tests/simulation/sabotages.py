"""Guards to be taken away, one at a time, from a store that is otherwise as it is."""

from collections.abc import Callable

from duly.testing.simulate import Sabotage


def without(text: str) -> Callable[[str], str]:
    return lambda statement: statement.replace(text, "")


def nothing(statement: str) -> str:
    return f"select * from ({statement}) where false"


SABOTAGES = {
    "the fence of whoever settles a job": Sabotage(
        statements={"hold_jobs": without(" and duly_job.fence = mine.fence")}
    ),
    "the comparison of the revision on which a fire was decided": Sabotage(
        statements={"advance_schedules": without("and duly_schedule.revision = decided.revision")},
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
    "the transaction around an operation": Sabotage(torn=True),
    "the reaper": Sabotage(without=("reaper",)),
    "the look at the lease before a claim": Sabotage(
        statements=dict.fromkeys(("claim", "claim_held"), without("and lease_until > :now"))
    ),
    "the refusal to renew what has expired": Sabotage(
        statements={"renew_lease": without("and lease_until > :now")}
    ),
    "the state from which a job may be claimed": Sabotage(
        statements=dict.fromkeys(("claim", "claim_held"), without("state = 'ready' and "))
    ),
    "the wait for the job in front": Sabotage(
        statements={
            "free_blocked": without("and (other.state <> 'blocked' or other.waits is not null)")
        }
    ),
}
