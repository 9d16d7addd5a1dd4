"""The figures of the comparison: what is asked, in which unit, and what duly is to reach."""

from benchmarks.queue.enqueue import CALLERS
from benchmarks.queue.report import Figures, Mark

RAW, PGQUEUER, HUEY = "raw SQL", "pgqueuer", "Huey, full"


def figures() -> dict[str, Figures]:
    both = {bound: (Mark(bound),) for bound in (0.3, 0.35, 2, 3, 15, 45)}
    many = (Mark(5, "enqueue"),)
    near = (Mark(0.85, RAW),)
    steady = (Mark(0.8, "churn first"),)
    return {
        "drain 1": Figures(
            "drain, 1 worker process",
            postgres=(Mark(2, PGQUEUER), Mark(0.5, RAW)),
            sqlite=(Mark(10, HUEY), Mark(0.35, RAW)),
        ),
        "drain 2": Figures("drain, 2 worker processes", postgres=(Mark(1.5, "drain 1"),)),
        "enqueue": Figures("enqueue one by one", postgres=near, sqlite=near),
        "enqueue 32": Figures(f"enqueue by {CALLERS} callers", postgres=many, sqlite=many),
        "bulk": Figures("enqueue in bulk", postgres=(Mark(100_000),), sqlite=(Mark(150_000),)),
        "latency p50": late("enqueue to start, p50", both[2], both[2]),
        "latency p99": late("enqueue to start, p99", (Mark(4),), (Mark(6),)),
        "schedules p50": late("1,000 schedules every 5 s: start, p50", both[3], both[3]),
        "schedules p99": late("1,000 schedules every 5 s: start, p99", both[15], both[15]),
        "schedules CPU": Figures(
            "1,000 schedules every 5 s: CPU", "% of a core", less=True,
            postgres=both[15], sqlite=both[15],
        ),
        "idle CPU": Figures(
            "idle worker: CPU", "% of a core", less=True, digits=2,
            postgres=both[0.3], sqlite=both[0.3],
        ),
        "idle statements": Figures("idle worker: transactions", "per s", less=True, digits=1),
        "idle memory": Figures(
            "idle worker: memory", "MB", less=True, postgres=both[45], sqlite=both[45]
        ),
        "first job": Figures(
            "start of a worker to its first job", "s", less=True, digits=2,
            postgres=both[0.35], sqlite=both[0.35],
        ),
        "churn first": Figures("jobs come and go, first third"),
        "churn last": Figures("jobs come and go, last third", postgres=steady, sqlite=steady),
        "churn table": Figures("table of live jobs after that", "MB", less=True, digits=1),
    }  # fmt: skip


def late(title: str, postgres: tuple[Mark], sqlite: tuple[Mark]) -> Figures:
    return Figures(title, "ms", less=True, digits=2, postgres=postgres, sqlite=sqlite)
