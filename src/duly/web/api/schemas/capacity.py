"""Queues, limits and workers as they are sent and answered."""

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from duly.web.api.schemas.common import Body, Said

MOST_AT_ONCE = 1_000_000

Concurrency: TypeAlias = Annotated[
    int, Meta(ge=1, le=MOST_AT_ONCE, description="So many run at once, in the whole cluster.")
]
Rate: TypeAlias = Annotated[
    str, Meta(description="How often one may begin, as 5/s or 100/m.", examples=["100/m"])
]


class NoteBody(Body, frozen=True):
    """Why, for whoever wonders."""

    note: str = ""


class SetQueue(Body, frozen=True):
    """How much may run; what is left out stays as it is, and null is for no limit."""

    concurrency: Concurrency | UnsetType | None = UNSET
    rate: Rate | UnsetType | None = UNSET
    fair: Annotated[bool | UnsetType, Meta(description="Whether tenants take turns.")] = UNSET


class SetLimit(Body, frozen=True):
    """What counts for a limit from now on, whatever code says; null is for no limit."""

    concurrency: Concurrency | None = None
    rate: Rate | None = None


class StopBody(Body, frozen=True):
    """When."""

    now: Annotated[bool, Meta(description="Stop what runs, too; others run it again.")] = False


class Scale(Body, frozen=True):
    """How many jobs it runs at once."""

    concurrency: Annotated[int, Meta(ge=1, le=10_000)]


class LimitSet(Said, frozen=True):
    """What counts for a limit from now on."""

    name: str
    concurrency: int | None
    rate: str | None
