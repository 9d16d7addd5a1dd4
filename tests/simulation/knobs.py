"""The numbers of a world, rolled by its seed.

A time-out of a minute is reached once in a long while; one of a second in every story. So the seed
turns the knobs too, down to values that nobody would choose: batches of one, a lease as long as two
polls, nudges that never arrive. In every other world a kind of fault is absent altogether, so that
none can hide behind another.
"""

import random
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How a world is built. It stays so."""

    nodes: int
    machines: int  # on which they live; none: nobody can tell who lives on the same one
    isolates: bool  # what crashed with a worker runs in a process of its own
    lease: float  # seconds, as all lengths here
    margin: float
    poll: float
    tick: float  # the longest that a service's tick may take
    deadline: float  # … and a call of the database
    idle: float  # … and a transaction whose client says nothing
    batch: int
    work: float  # the longest that a job takes
    slots: int  # jobs that a worker runs at once
    nudges: float  # the share of them that arrives
    latency: float
    loose: bool  # rows are read without locks, as where the database cannot skip locked ones

    @classmethod
    def rolled(cls, dice: random.Random) -> "Knobs":
        lease = dice.choice((2.0, 3.0, 5.0, 12.0))
        nodes = dice.choice((2, 2, 3, 3, 4, 5))
        return cls(
            nodes=nodes,
            machines=dice.choice((0, 0, 2, nodes)),
            isolates=dice.random() < 0.3,
            lease=lease,
            margin=dice.choice((0.0, 1.0, 2.0)),
            poll=dice.choice((0.5, 1.0, 2.0, 4.0)),
            tick=dice.choice((5.0, 10.0, 30.0)),
            deadline=dice.choice((1.0, 4.0, 10.0)),
            idle=dice.choice((1.0, 3.0)),
            batch=dice.choice((1, 2, 5, 50, 1_000)),
            work=dice.choice((0.1, 5.0, 20.0)),
            slots=dice.choice((1, 3, 10)),
            nudges=dice.choice((0.0, 0.5, 0.9, 1.0)),
            latency=dice.choice((0.001, 0.005, 0.02)),
            loose=dice.random() < 0.4,
        )

    @property
    def lease_length(self) -> timedelta:
        return timedelta(seconds=self.lease)

    @property
    def takes_over(self) -> float:
        """After so long, everything that a dead node left behind is in other hands."""
        return self.lease + self.margin + 3 * self.poll + 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How likely each trouble is: at a statement, at a call, in a second."""

    # At a statement.
    delay: float = 0.0
    cut: float = 0.0  # the connection is lost, and the transaction undone
    crash: float = 0.0
    freeze: float = 0.0
    # At a call.
    refused: float = 0.0
    lost_answer: float = 0.0
    # In a second of the whole world.
    events: float = 0.0
    # In the work itself.
    bad_jobs: float = 0.0  # raise, hang, or take their node with them

    @classmethod
    def rolled(cls, dice: random.Random) -> "Odds":
        def sometimes(*choices: float) -> float:
            return dice.choice(choices) if dice.random() < 0.6 else 0.0

        return cls(
            delay=sometimes(0.01, 0.03),
            cut=sometimes(0.002, 0.02),
            crash=sometimes(0.0005, 0.002),
            freeze=sometimes(0.0003, 0.001),
            refused=sometimes(0.005, 0.05),
            lost_answer=sometimes(0.01, 0.1),
            events=sometimes(0.1, 0.3),
            bad_jobs=sometimes(0.2, 0.5),
        )

    @property
    def at_a_statement(self) -> float:
        return self.delay + self.cut + self.crash + self.freeze


CALM = Odds()
