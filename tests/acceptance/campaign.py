"""``make campaign``: every story in full length, on both stores, with commits that wait for disks.

    python -m tests.acceptance.campaign [NAME…] [--store STORE] [--seconds SECONDS]
        [--soak SECONDS] [--pg MAJOR]

Prints a line for each, and ends with 1 if a promise was broken or a time was missed. ``--seconds``
is how long storms rage, ``--soak`` how long ``calm`` (a third of it), ``soak`` and ``bloat`` take.
``schedulers`` is a storm over schedulers alone, and ``calm`` the same without a storm.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from duly.errors import StoreUnavailable
from tests.acceptance.fleet import Impossible
from tests.acceptance.report import Report
from tests.acceptance.stories import kills
from tests.acceptance.stories.bloat import a_transaction_stays_open
from tests.acceptance.stories.chronos import half_of_the_nodes_are_cut_off
from tests.acceptance.stories.clocks import clocks_disagree, the_clock_steps
from tests.acceptance.stories.disk import the_disk_is_full
from tests.acceptance.stories.fairness import a_flood_of_high, a_tenant_floods
from tests.acceptance.stories.flows import flows_are_completed
from tests.acceptance.stories.frozen import every_service_is_frozen
from tests.acceptance.stories.gone import a_node_is_gone
from tests.acceptance.stories.herd import a_herd_is_due
from tests.acceptance.stories.keys import keys_are_asked_for_at_once
from tests.acceptance.stories.kills import Weather
from tests.acceptance.stories.limits import limits_are_kept
from tests.acceptance.stories.network import answers_are_lost, nothing_arrives
from tests.acceptance.stories.poison import a_pill_is_poisoned
from tests.acceptance.stories.restored import a_backup_is_restored
from tests.acceptance.stories.soak import nodes_work_for_long
from tests.acceptance.stories.stopping import nodes_are_stopped
from tests.acceptance.stories.torture import a_file_is_tortured
from tests.acceptance.stories.zombie import a_node_sleeps
from tests.acceptance.storm import storm
from tests.infrastructure.cluster import Cluster, installed_programs, running_cluster
from tests.infrastructure.pgbouncer import PROGRAM, pooled

CUT = 30.0  # seconds without a network: three leases
INSTANTS = 500.0  # seconds, with a kill in each
CALM = {0.5: 0.030, 0.99: 0.250}  # how late schedules may be decided when nothing goes wrong


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a story is told, and how long it may rage there."""

    url: str
    folder: Path
    asked: argparse.Namespace
    cluster: Cluster | None = None

    @property
    def weather(self) -> Weather:
        return Weather(seconds=self.asked.seconds)


Story: TypeAlias = Callable[[Stage], Awaitable[Report]]


async def schedulers(stage: Stage) -> Report:
    asked = stage.asked
    found = await storm(
        stage.url,
        stage.folder,
        nodes=asked.nodes,
        schedules=asked.schedules,
        seconds=asked.seconds,
    )
    return Report([str(found)], broken=[*found.lost, *found.doubled])


async def calm(stage: Stage) -> Report:
    """Eight schedulers and no faults: how late moments are when nothing goes wrong."""
    found = await storm(
        stage.url, stage.folder, nodes=8, schedules=200, seconds=stage.asked.soak / 3, pause=None
    )
    report = Report([str(found)], broken=[*found.lost, *found.doubled])
    for share, most in CALM.items():
        report.within(found.percentile(share) / 1_000, most, f"p{share * 100:g}")
    return report


async def chronos(stage: Stage) -> Report:
    if stage.cluster is None:
        raise Impossible("there is no network to a file")
    return await half_of_the_nodes_are_cut_off(stage.url, stage.folder, scale=stage.asked.scale)


async def instant(stage: Stage) -> Report:
    """A node is killed within 50 ms of each whole second, when all schedules are due."""
    weather = Weather(seconds=INSTANTS, aim=0.05)
    return await kills.nodes_are_killed(stage.url, stage.folder, weather=weather)


async def crashes(stage: Stage) -> Report:
    if stage.cluster is None:
        raise Impossible("there is no server that could crash")
    return await kills.the_database_crashes(
        stage.url,
        stage.folder,
        cluster=stage.cluster,
        weather=Weather(seconds=stage.asked.seconds, pause=10.0),
    )


async def pgbouncer(stage: Stage) -> Report:
    """Nodes are killed, and all of them reach their database through a pooler."""
    if stage.cluster is None:
        raise Impossible("there is no server to pool the connections of")
    if PROGRAM is None:
        raise Impossible("NO PGBOUNCER: apt install pgbouncer")
    with pooled(stage.url) as url:
        return await kills.nodes_are_killed(
            f"{url}&pooler=transaction", stage.folder, weather=stage.weather
        )


async def blackhole(stage: Stage) -> Report:
    if stage.cluster is None:
        raise Impossible("there is no network to a file")
    cuts = max(1, int(stage.asked.seconds // CUT))
    return await nothing_arrives(stage.url, stage.folder, cuts=cuts, seconds=CUT)


async def answers(stage: Stage) -> Report:
    if stage.cluster is None:
        raise Impossible("there is no network to a file")
    return await answers_are_lost(stage.url, stage.folder, seconds=stage.asked.seconds)


async def clocks(stage: Stage) -> Report:
    story = the_clock_steps if stage.cluster is None else clocks_disagree
    weather = Weather(seconds=stage.asked.seconds, pause=10.0, nodes=4)
    return await story(stage.url, stage.folder, weather=weather)


async def restored(stage: Stage) -> Report:
    if stage.cluster is None:
        raise Impossible("processes must be stopped before a SQLite file is replaced")
    return await a_backup_is_restored(stage.folder, cluster=stage.cluster)


STORIES: dict[str, Story] = {
    "gone": lambda stage: a_node_is_gone(stage.url, stage.folder),
    "apart": lambda stage: a_node_is_gone(stage.url, stage.folder, apart=True),
    "zombie": lambda stage: a_node_sleeps(stage.url, stage.folder),
    "poison": lambda stage: a_pill_is_poisoned(stage.url, stage.folder),
    "kills": lambda stage: kills.nodes_are_killed(stage.url, stage.folder, weather=stage.weather),
    "defaults": lambda stage: kills.nodes_are_killed_under_the_defaults(
        stage.url, stage.folder, weather=stage.weather
    ),
    "crashes": crashes,
    "stopping": lambda stage: nodes_are_stopped(stage.url, stage.folder),
    "tenants": lambda stage: a_tenant_floods(stage.url, stage.folder),
    "flood": lambda stage: a_flood_of_high(stage.url, stage.folder),
    "limits": lambda stage: limits_are_kept(stage.url, stage.folder, seconds=stage.asked.seconds),
    "flows": lambda stage: flows_are_completed(
        stage.url, stage.folder, seconds=stage.asked.seconds
    ),
    "schedulers": schedulers,
    "calm": calm,
    "chronos": chronos,
    "instant": instant,
    "herd": lambda stage: a_herd_is_due(stage.url, stage.folder),
    "keys": lambda stage: keys_are_asked_for_at_once(stage.url, stage.folder),
    "frozen": lambda stage: every_service_is_frozen(stage.url, stage.folder),
    "blackhole": blackhole,
    "answers": answers,
    "clocks": clocks,
    "disk": lambda stage: the_disk_is_full(
        stage.folder, programs=stage.cluster.programs if stage.cluster else None
    ),
    "restored": restored,
    "torture": lambda stage: a_file_is_tortured(
        stage.url, stage.folder, seconds=stage.asked.seconds
    ),
    "pgbouncer": pgbouncer,
    "soak": lambda stage: nodes_work_for_long(stage.url, stage.folder, seconds=stage.asked.soak),
    "bloat": lambda stage: a_transaction_stays_open(
        stage.url, stage.folder, seconds=stage.asked.soak
    ),
}
STORES = ("sqlite", "postgres")


def main() -> None:
    asked = arguments()
    kept = True
    for name in asked.names or STORIES:
        for store in [asked.store] if asked.store else STORES:
            kept = told(name, store, asked) and kept
    sys.exit(not kept)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STORIES))
    parser.add_argument("--store", choices=STORES)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--soak", type=float, default=1_800, help="seconds of a soak")
    parser.add_argument("--pg", type=int, help="the major version of PostgreSQL; default: newest")
    parser.add_argument("--nodes", type=int, default=4, help="of schedulers")
    parser.add_argument("--schedules", type=int, default=200, help="of schedulers")
    parser.add_argument("--scale", type=float, default=1.0, help="of the times of chronos")
    asked = parser.parse_args()
    if asked.pg and asked.pg not in installed_programs():
        parser.error(
            f"no PostgreSQL {asked.pg}: there are {', '.join(map(str, installed_programs()))}"
        )
    unknown = set(asked.names) - set(STORIES)
    if unknown:
        parser.error(f"no story is called {', '.join(unknown)}: there are {', '.join(STORIES)}")
    return asked


def told(name: str, store: str, asked: argparse.Namespace) -> bool:
    """Tell one story on one store: whether every promise was kept, and in time."""
    label = f"{name:<11}{store:<9}"
    with staged(store, asked) as stage:
        try:
            report = asyncio.run(_told(STORIES[name], stage))
        except Impossible as reason:
            print(f"{label} skipped: {reason}", flush=True)
            return True
        except (AssertionError, StoreUnavailable) as error:
            report = Report(["it did not come to its end"], broken=[_words(error)])
    found = [f"BROKEN {line}" for line in report.broken] + [f"SLOW {line}" for line in report.slow]
    print(f"{label} {'not ' if found else ''}kept: {report}", flush=True)
    for line in found[:10]:
        print(f"{label} {line}", file=sys.stderr, flush=True)
    return not found


async def _told(story: Story, stage: Stage) -> Report:
    return await story(stage)


def _words(error: Exception) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


@contextmanager
def staged(store: str, asked: argparse.Namespace) -> Iterator[Stage]:
    """A store that nobody has used."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if store == "sqlite":
            yield Stage(str(folder / "duly.db"), folder, asked)
            return
        found = installed_programs()
        programs = found[asked.pg or max(found)]
        with running_cluster(programs, durable=True) as cluster:
            yield Stage(cluster.dsn, folder, asked, cluster)


if __name__ == "__main__":
    main()
