"""What may be said about a worker, in the words that people use, and what it means."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Final, TypedDict, Unpack

from duly.engine.lease import LEASE
from duly.engine.retirement import StopConditions
from duly.errors import InvalidValue
from duly.registry.option_values import Duration, length_of, memory_of, names_of, needs_of
from duly.runtime.workers import WorkerOptions
from duly.settings import Settings

LONGEST: Final = timedelta(days=366)


class WorkerWords(TypedDict, total=False):
    """What may be said about a worker, in the words that people use."""

    name: str
    queues: Sequence[str]
    concurrency: int
    children: int | None
    resources: Mapping[str, int]
    lease: Duration
    recycle_jobs: int | None
    recycle_memory: str | None
    burst: bool
    max_jobs: int | None
    max_idle: Duration | None


def worker_words(settings: Settings) -> WorkerWords:
    """How workers work, where nobody says otherwise."""
    return {
        "queues": settings.queues,
        "concurrency": settings.concurrency,
        "lease": settings.lease,
    }


def worker_options(
    *, dedicated: bool, verbose: bool = False, **words: Unpack[WorkerWords]
) -> WorkerOptions:
    known = WorkerWords.__annotations__
    for word in [word for word in words if word not in known]:
        near = get_close_matches(word, known, n=1)
        meant = f"did you mean {near[0]}=?" if near else f"there are {', '.join(sorted(known))}"
        raise InvalidValue(f"a worker knows no {word}=; {meant}")
    idle, memory = words.get("max_idle"), words.get("recycle_memory")
    return WorkerOptions(
        name=words.get("name", ""),
        queues=names_of("queues", words.get("queues", ("default",))),
        concurrency=words.get("concurrency", 10),
        children=words.get("children"),
        resources=needs_of(words.get("resources", {})),
        lease=length_of("lease", words.get("lease", LEASE), longest=LONGEST),
        recycle_jobs=words.get("recycle_jobs"),
        recycle_bytes=None if memory is None else memory_of(memory),
        plans=StopConditions(
            burst=words.get("burst", False),
            max_jobs=words.get("max_jobs"),
            max_idle=None if idle is None else length_of("max_idle", idle, longest=LONGEST),
        ),
        dedicated=dedicated,
        verbose=verbose,
    )
