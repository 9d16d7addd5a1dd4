"""A world: one seed, one clock, one database, and what has happened in it so far.

Everything that happens goes through ``tell`` and into a digest: two runs of a seed are the same
story if their digests are equal. The database's clock is the world's, and every host has one of its
own that is wrong by hours and goes a little too fast or too slow.
"""

import asyncio
import hashlib
import random
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from duly.engine.timekeeper import Timekeeper
from duly.instants import to_us
from duly.model.states import State
from duly.model.worker import Host as Identity
from duly.store.migrate import migrations
from duly.store.sqlite.connection import MEMORY, apply_migration, connect
from duly.store.sqlite.database import SQLITE
from duly.store.statements import statements
from duly.testing.clock import VirtualClock
from tests.simulation.acts import Acts
from tests.simulation.checkers import Checkers
from tests.simulation.knobs import Knobs, Odds
from tests.simulation.loop import STILL, VirtualLoop
from tests.simulation.watch import Watch

# Ordinary days, and the moments before clocks change in Berlin and in New York.
DAYS = (
    datetime(2026, 3, 4, 11, 58, tzinfo=UTC),
    datetime(2026, 6, 30, 23, 59, tzinfo=UTC),
    datetime(2026, 3, 29, 0, 59, 40, tzinfo=UTC),
    datetime(2026, 10, 25, 0, 59, 40, tzinfo=UTC),
    datetime(2026, 3, 8, 6, 59, 40, tzinfo=UTC),
    datetime(2026, 11, 1, 5, 59, 40, tzinfo=UTC),
)
LAST_STEPS = 60
COMING_ROUND = 1.5  # seconds
FIRST_PID = 2**30  # no system has processes of such numbers

# Where the database cannot skip locked rows, whoever holds a schedule raises its revision instead,
# so that a decision made on what was read without a lock is void.
_RAISE = (
    "update duly_schedule set revision = revision + 1"
    " where id in (select value from json_each(:ids)) returning {columns}, :now"
)
_UNLOCKED = {"hold_schedules": _RAISE, "hold_schedules_briefly": _RAISE}


@dataclass(frozen=True, kw_only=True)
class Sabotage:
    """A guard that is taken away, to show that somebody notices."""

    statements: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    schema: tuple[str, ...] = ()  # run after the migrations
    # Functions by the class or the module they are in, and their name.
    code: Mapping[tuple[object, str], Callable[..., object]] = field(default_factory=dict)
    without: tuple[str, ...] = ()  # services
    nodes_clock: bool = False  # the database is told the time by whoever asks
    torn: bool = False  # every statement is a transaction of its own
    loose: bool = False  # only worlds in which rows are read without locks
    harsh: bool = False  # only worlds in which long and plain jobs meet short leases

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Replace what is to be replaced, while a story is told."""
        before = {(owner, name): getattr(owner, name) for owner, name in self.code}
        try:
            for (owner, name), method in self.code.items():
                setattr(owner, name, method)
            yield
        finally:
            for (owner, name), method in before.items():
                setattr(owner, name, method)


HONEST = Sabotage()


class Host:
    """A process on a machine. It may be dead, stand still, or be cut off from the database."""

    def __init__(self, world: "World", name: str, identity: Identity) -> None:
        self.name = name
        self.identity = identity
        self.alive = True
        self.frozen_until = float("-inf")
        self.cut_until = 0.0
        self.crash: Callable[[], None] = self.die
        self.timekeeper: Timekeeper | None = None
        self.listeners: list[Callable[[str], None]] = []
        self._tasks: list[asyncio.Task[None]] = []  # what it runs beside its own life
        self._world = world
        self._skew = timedelta(seconds=world.dice.uniform(-10_000, 10_000))
        self._pace = 1 + world.dice.uniform(-200e-6, 200e-6)

    def steady(self) -> float:
        return self._world.loop.time() * self._pace

    def has_seen_clock_before(self, moment: float) -> bool:
        since = self.timekeeper.since if self.timekeeper else None
        return since is not None and since < moment * self._pace

    def wall(self) -> datetime:
        return self._world.clock.now() + self._skew

    def freeze(self, seconds: float) -> None:
        self._world.tell(self.name, "freezes", f"for {seconds:.1f} s")
        self._world.sometimes["freeze"] += 1
        self.frozen_until = self._world.loop.time() + seconds

    def context(self) -> Context:
        """For whatever runs here, and stands still when this does."""
        made = Context()
        made.run(STILL.set, lambda: self.frozen_until if self.alive else 0.0)
        return made

    @property
    def has_come_round(self) -> bool:
        """Whether it has not stood still, or has had a moment since to see what time it is."""
        return self._world.loop.time() > self.frozen_until + COMING_ROUND

    def own(self, task: asyncio.Task[None]) -> None:
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    def die(self) -> None:
        """Nothing of it goes on."""
        self.alive = False
        for task in list(self._tasks):
            task.cancel()


class World:
    """What all nodes share, and what the story is about."""

    def __init__(self, seed: int, *, sabotage: Sabotage = HONEST) -> None:
        self.seed = seed
        self.dice = random.Random(f"duly {seed}")
        self.sabotage = sabotage
        self.knobs = Knobs.rolled(self.dice)
        self.odds = Odds.rolled(self.dice)
        if sabotage.harsh:
            self.knobs = replace(self.knobs, lease=3.0, margin=0.0, work=20.0, slots=10)
            self.odds = replace(self.odds, events=0.3)
        self.loose = sabotage.loose or self.knobs.loose
        self.loop = VirtualLoop(seed)
        self.clock = VirtualClock(
            self.dice.choice(DAYS) + timedelta(seconds=self.dice.uniform(0, 15)),
            elapsed=self.loop.time,
        )
        self.texts = self._texts()
        # Rows that come in no order of their own come in any.
        self.unordered = {
            name: "returning" in text or "order by" not in text for name, text in self.texts.items()
        }
        self.connection = self._tables()
        self.watch = Watch(self.connection)
        self.writer = asyncio.Lock()
        self.outage_until = 0.0
        self.outages = 0  # how often every connection was lost
        self.jumped_at = float("-inf")  # the last time that the database's clock was set
        self.jumped_ahead = 0.0  # seconds by which it was set forward, in all
        self.hosts: list[Host] = []
        self.sometimes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = False
        self.steps: deque[str] = deque(maxlen=LAST_STEPS)
        self.workers: dict[int, Host] = {}
        self.processes: dict[Identity, Host] = {}
        self.unanswered: set[tuple[int, int]] = set()  # jobs and fences of claims
        self._digest = hashlib.blake2b(digest_size=16)
        self.acts = Acts(self.violated, holder=self._holder, trusted=self._clock_is_trusted)
        self.checkers = Checkers(self.sometimes, self.violated, self._holder_lives)
        self.checkers.strict = not self.loose
        self.checkers.isolated = self.knobs.isolates
        self.checkers.taken_back = self.acts.taken_back

    @property
    def now(self) -> int:
        """By the store's clock, in microseconds since 1970."""
        return to_us(self.clock.now())

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def chance(self, odds: float) -> bool:
        return odds > 0 and self.dice.random() < odds

    def tell(self, who: str, what: str, about: object = "") -> None:
        """Write a step into the story."""
        line = f"{self.loop.time():.6f} {who}: {what} {about}"
        self._digest.update(line.encode())
        self.steps.append(line)

    def violated(self, promise: str) -> None:
        """Something happened that must not: the story ends here."""
        if self.over:
            return
        self.wrong.append(f"at {self.clock.now():%Y-%m-%d %H:%M:%S.%f}: {promise}")
        self.loop.stop()

    def host(self, name: str, machine: str = "") -> Host:
        number = len(self.processes)
        identity = Identity(boot=machine, pid=FIRST_PID + number, born=number)
        made = self.processes[identity] = Host(self, name, identity)
        self.hosts = [host for host in self.hosts if host.alive] + [made]
        return made

    def nudge(self, sender: Host, topics: tuple[str, ...]) -> None:
        """Some of it arrives, a little later, at those who are there then."""
        if not self.chance(self.knobs.nudges):
            self.sometimes["nudge lost"] += 1
            return
        delay = self.dice.random() * 0.01
        self.loop.call_later(delay, self._deliver, sender, topics, context=Context())

    def _deliver(self, sender: Host, topics: tuple[str, ...]) -> None:
        for host in self.hosts:
            if host.alive and host is not sender:
                for listener in host.listeners:
                    for topic in topics:
                        listener(topic)

    def _holder(self, job: int) -> tuple[State, int] | None:
        known = self.checkers.jobs.get(job)
        return None if known is None else (known.state, known.row.fence)

    def _clock_is_trusted(self) -> bool:
        """Whether every node knows that the clock jumped: one that began later has no way to."""
        if self.loop.time() > self.jumped_at + self.knobs.lease + 5:
            return True
        return all(host.has_seen_clock_before(self.jumped_at) for host in self.hosts if host.alive)

    def _holder_lives(self, worker: int | None) -> bool:
        host = self.workers.get(worker or 0)
        return host is not None and host.alive

    def _tables(self) -> sqlite3.Connection:
        connection = connect(MEMORY)
        connection.executescript(_schema())
        for statement in self.sabotage.schema:
            connection.execute(statement)
        return connection

    def _texts(self) -> dict[str, str]:
        texts = dict(statements(SQLITE))
        if self.loose:
            columns = texts["named_schedules"].removeprefix("select").split("from")[0].strip()
            texts |= {name: text.format(columns=columns) for name, text in _UNLOCKED.items()}
        for name, change in self.sabotage.statements.items():
            changed = change(texts[name])
            if changed == texts[name]:
                raise ValueError(f"{name} is as it was: there is nothing left to take away there")
            texts[name] = changed
        return texts


@cache
def _schema() -> str:
    """What the migrations come to, for every world: the way there takes five times as long."""
    with closing(connect(MEMORY)) as connection:
        for migration in migrations(SQLITE):
            apply_migration(connection, migration, 0)
        return "\n".join(connection.iterdump())
