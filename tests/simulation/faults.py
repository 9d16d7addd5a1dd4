"""What befalls the whole world: nodes die and stand still, the database goes away, clocks jump.

What befalls a single statement or a single job is decided where it is run.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

from duly.clock import sleep
from tests.simulation.knobs import CALM
from tests.simulation.node import Node
from tests.simulation.world import World


class Storm:
    """One misfortune after another, until it is over."""

    def __init__(self, world: World, nodes: Sequence[Node]) -> None:
        self._world = world
        self._nodes = nodes
        self._dice = world.dice
        self._events: tuple[tuple[Callable[[], None], int], ...] = (
            (self._crash, 4),
            (self._freeze, 5),
            (self._cut_off, 6),
            (self._outage, 4),
            (self._clock_forward, 1),
            (self._clock_far_forward, 3),
            (self._clock_back, 1),
        )

    async def rage(self) -> None:
        events, weights = zip(*self._events, strict=True)
        while self._world.odds.events:
            await sleep(self._dice.expovariate(self._world.odds.events))
            [event] = self._dice.choices(events, weights)
            event()

    def pass_by(self) -> None:
        """Faults end, and everybody who was hit stands up again."""
        world = self._world
        world.odds = CALM
        world.outage_until = 0.0
        for host in world.hosts:
            host.frozen_until = min(host.frozen_until, world.loop.time())
            host.cut_until = 0.0
        for node in self._nodes:
            node.start()

    def black_out(self) -> None:
        """Everything is switched off."""
        for node in self._nodes:
            node.crash(for_good=True)

    def light_up(self) -> None:
        for node in self._nodes:
            node.start()

    def _crash(self) -> None:
        self._dice.choice(self._nodes).crash()

    def _freeze(self) -> None:
        host = self._dice.choice(self._nodes).host
        if host is not None:
            host.freeze(self._dice.random() * 3 * self._world.knobs.lease)

    def _cut_off(self) -> None:
        host = self._dice.choice(self._nodes).host
        if host is not None:
            length = self._dice.random() * 3 * self._world.knobs.lease
            self._world.tell(host.name, "is cut off", f"for {length:.1f} s")
            self._world.sometimes["cut off"] += 1
            host.cut_until = self._world.loop.time() + length

    def _outage(self) -> None:
        length = self._dice.random() ** 2 * 40
        self._world.tell("database", "is down", f"for {length:.1f} s")
        self._world.sometimes["outage"] += 1
        self._world.outages += 1
        self._world.outage_until = self._world.loop.time() + length

    def _clock_forward(self) -> None:
        self._jump(self._dice.uniform(1, 50))

    def _clock_far_forward(self) -> None:
        self._jump(self._dice.uniform(60, 1_000))

    def _clock_back(self) -> None:
        self._jump(-self._dice.uniform(0.1, 20))

    def _jump(self, seconds: float) -> None:
        self._world.tell("database", "has its clock set", f"by {seconds:.3f} s")
        self._world.sometimes["clock jump"] += 1
        self._world.jumped_at = self._world.loop.time()
        self._world.jumped_ahead += max(0.0, seconds)
        self._world.checkers.limits.clock_set()
        self._world.clock.advance(timedelta(seconds=seconds))
