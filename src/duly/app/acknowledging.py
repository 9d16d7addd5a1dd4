"""What somebody has said is not a problem: said, listed, taken back."""

from collections.abc import Sequence

from duly.errors import NotFound
from duly.model.access import Acknowledgement, Matter
from duly.store.protocol import Store


async def acknowledge(store: Store, matter: Matter, *, note: str = "") -> Acknowledgement:
    """It needs nobody any more, as far as it has gone."""
    return await store.access.acknowledge(matter, note=note)


async def acknowledged(store: Store) -> Sequence[Acknowledgement]:
    """The newest first."""
    return await store.access.acknowledged()


async def forget(store: Store, subject: str, kind: str) -> None:
    if not await store.access.forget_acknowledgement(subject, kind):
        raise NotFound(f'nobody has acknowledged "{kind}" of "{subject}"')
