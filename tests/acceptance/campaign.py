"""``make campaign``: the long kill storms, on both stores, with commits that wait for the disk.

    python -m tests.acceptance.campaign [--seconds 60] [--calm]

``--calm`` kills nobody: it measures how late moments are when nothing goes wrong.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.acceptance.storm import Storm, storm
from tests.infrastructure.cluster import installed_programs, running_cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--calm", action="store_true")
    asked = parser.parse_args()

    def raised(url: str, folder: Path) -> Storm:
        pause = None if asked.calm else 2.0
        return asyncio.run(
            storm(
                url,
                folder,
                nodes=asked.nodes,
                schedules=asked.schedules,
                seconds=asked.seconds,
                pause=pause,
            )
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {"sqlite": raised(str(folder / "duly.db"), folder)}
        print(f"sqlite    {results['sqlite']}", flush=True)
        (folder / "witness").unlink()
        *_, programs = installed_programs().values()
        with running_cluster(programs, durable=True) as cluster:
            results["postgres"] = raised(cluster.dsn, folder)
        print(f"postgres  {results['postgres']}")
    for store, result in results.items():
        for line in [*result.lost, *result.doubled][:10]:
            print(f"{store}: {line}", file=sys.stderr)
    sys.exit(any(result.lost or result.doubled for result in results.values()))


main()
