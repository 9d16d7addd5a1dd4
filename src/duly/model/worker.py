"""A worker as it is stored: one row, with one lease for all its jobs.

Its id comes from the database and is never reused. The name is for people: two processes with one
name are two workers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from duly.errors import InvalidValue

Order = Literal["run", "drain", "stop", "kill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The process of a worker, so that others on the same machine can tell that it is gone."""

    boot: str = ""  # the kernel's boot id, new after every start of the machine
    space: str = ""  # the namespaces of its pid and of its start time
    pid: int = 0
    born: int = 0  # its start time: a pid is reused, a pid with a start time is not


NOWHERE = Host()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The identity and the capabilities of a worker."""

    name: str
    queues: tuple[str, ...]
    signatures: Mapping[str, str]  # the tasks it knows, each with its signature's fingerprint
    slots: int = 1
    resources: Mapping[str, int] = field(default_factory=dict)
    isolates: bool = False  # runs jobs that crashed a worker in a process of their own
    host: Host = NOWHERE
    version: str = ""
    app: str = ""  # the app of its tasks, as "shop.tasks:duly", if known
    holder: str = ""  # the user who registered it over HTTP, and alone may act for it

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.signatures)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    id: int
    profile: Profile
    started_at: datetime
    lease_until: datetime
    beat_at: datetime
    running: int = 0
    order: Order = "run"  # the last order that it got
    slots_ordered: int | None = None  # the concurrency that it was told to use

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def queues(self) -> tuple[str, ...]:
        return self.profile.queues

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.profile.tasks

    @property
    def slots(self) -> int:
        """The concurrency as ordered at run time, else as given when the worker started."""
        return self.profile.slots if self.slots_ordered is None else self.slots_ordered


def refuse_another_app(profile: Profile, living: Iterable[WorkerInfo]) -> None:
    """Raise if a worker of another app takes jobs of an equally named task from the same queue.

    Each of the two would run jobs of the other with its own code.
    """
    for other in living:
        queues = sorted({*profile.queues} & {*other.queues})
        tasks = sorted(
            name for name in {*profile.tasks} & {*other.tasks} if not name.startswith("duly.")
        )
        strange = profile.app and other.profile.app and profile.app != other.profile.app
        if strange and queues and tasks:
            raise InvalidValue(
                f'the app {profile.app} has a task named "{tasks[0]}", and so has the app '
                f"{other.profile.app}, whose worker {other.name} takes jobs from the same queue, "
                f'"{queues[0]}": each would run the other\'s jobs. Rename one task, or give the '
                "apps different queues; if they share their tasks on purpose, give both the same "
                'name: Duly(name="…")'
            )
