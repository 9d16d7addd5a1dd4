"""Opens a store for a node that must outlive its database, also while it starts."""

from duly.app import open_store
from duly.clock import sleep
from duly.errors import StoreUnavailable
from duly.store.store import Store


async def opened(url: str) -> Store:
    while True:
        try:
            return await open_store(url)
        except StoreUnavailable:
            await sleep(0.1)
