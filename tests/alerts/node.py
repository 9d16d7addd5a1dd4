"""A process that only alerts: ``python -m tests.alerts.node STORE WEBHOOK``."""

import asyncio
import sys
from datetime import timedelta

from duly.alerts.alerter import Alerter
from duly.clock import sleep
from duly.settings.tables import AlertTable
from duly.store.connect import connect


async def main(path: str, url: str) -> None:
    store = connect(path, create=False)
    await store.open()
    to = [{"name": "hook", "webhook": url}]
    settings = AlertTable().read({"to": to, "group": "0s", "every": "0s"})
    service = Alerter(store, settings, turn=timedelta(seconds=1))
    while True:
        await service.tick()
        await sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
