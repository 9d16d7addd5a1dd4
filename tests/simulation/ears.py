"""What a node says while it works: some of it must happen, and some must not."""

from duly.errors import StoreUnavailable
from duly.events import (
    ClockDistrusted,
    EngineEvent,
    FencingFailed,
    JobStuck,
    ScheduleFaulted,
    ServiceRestarted,
    SettlementFailed,
    TickFailed,
    TickStalled,
    WorkerDied,
    WorkerFenced,
    WriteRefused,
)
from tests.simulation.world import Host, World

# What is only counted.
COUNTED: dict[type[EngineEvent], str] = {
    ClockDistrusted: "clock distrusted",
    JobStuck: "job stuck",
    ServiceRestarted: "tick stalled",
    TickStalled: "tick stalled",
    WorkerDied: "coroner's certificate",
    WriteRefused: "write refused",
}
EXPIRED = "it had expired"


class Ears:
    def __init__(self, world: World, host: Host) -> None:
        self._world = world
        self._host = host

    def hear(self, event: EngineEvent) -> None:
        world, host = self._world, self._host
        if not host.alive:
            return
        if type(event) in COUNTED:
            world.sometimes[COUNTED[type(event)]] += 1
        match event:
            case TickFailed(service, error) if not isinstance(error, StoreUnavailable):
                world.violated(f"{host.name}'s {service} failed: {error!r}")
            case ScheduleFaulted(name, reason):
                world.violated(f'schedule "{name}" was set aside: {reason}')
            case SettlementFailed(job, error):
                world.violated(f"what became of job {job} could not be written: {error!r}")
            case WorkerFenced(_, reason):
                world.tell(host.name, "is not sure of its lease:", reason)
                world.sometimes["fenced"] += 1
                world.sometimes["lease found lost"] += reason == EXPIRED
            case FencingFailed():
                self._unfenced()
            case _:
                pass

    def _unfenced(self) -> None:
        """Jobs go on that it could not stop. What is nothing but a worker ends itself then."""
        self._world.sometimes["unfenced"] += 1
        if self._world.chance(0.5):
            self._host.crash()
