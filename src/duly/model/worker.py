"""A worker as the store knows it: one row, one lease for everything it runs.

Its number comes from the database and is never used twice. The name is for people: two processes
with one name are still two workers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from duly.errors import InvalidValue

Order = Literal["run", "drain", "stop", "kill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Which process a worker is, so that others on its machine can tell that it is gone."""

    boot: str = ""  # of the kernel: another one after every start of the machine
    space: str = ""  # the namespaces of its number and of its birth
    pid: int = 0
    born: int = 0  # a number is given again; a number and a birth are not


NOWHERE = Host()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a worker can do, and who it is."""

    name: str
    queues: tuple[str, ...]
    signatures: Mapping[str, str]  # the tasks it knows, and for each the mark of its signature
    slots: int = 1
    resources: Mapping[str, int] = field(default_factory=dict)
    isolates: bool = False  # jobs that crashed with a worker run in a process of their own here
    host: Host = NOWHERE
    version: str = ""
    app: str = ""  # whose tasks these are, as "shop.tasks:duly"; nothing where nobody says
    holder: str = ""  # who registered it over HTTP; nobody else speaks for it. Empty: native

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
    order: Order = "run"  # what it was told to do
    slots_ordered: int | None = None  # … and how many jobs to run at once

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def queues(self) -> tuple[str, ...]:
        return self.profile.queues

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.profile.tasks


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
                f'the app {profile.app} has a task called "{tasks[0]}", and so has the app '
                f"{other.profile.app}, whose worker {other.name} takes jobs from the same queue, "
                f'"{queues[0]}": each would run jobs of the other. Give one task another name, or '
                "the apps queues of their own; if they share their tasks on purpose, give both one "
                'name: Duly(name="…")'
            )
