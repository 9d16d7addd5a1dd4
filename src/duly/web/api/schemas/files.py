"""Files of schedules as they are sent and answered."""

from typing import Annotated, Literal

from msgspec import Meta

from duly.app.schedule_files import FileDraft
from duly.declare.changes import FieldDifference as Differing
from duly.declare.changes import PlannedChange as Changing
from duly.web.api.schemas.common import Body, Said

FILE = "schedules.toml"


class SheetBody(Body, frozen=True):
    """A file of schedules, queues and limits, as `duly apply` reads it."""

    text: Annotated[str, Meta(description="TOML.", examples=['[queues.mail]\nrate = "100/m"\n'])]
    name: Annotated[
        str, Meta(min_length=1, description="Under which it is remembered what was applied.")
    ] = FILE
    prune: Annotated[bool, Meta(description="Remove what was in the file and is no more.")] = False
    take_back: Annotated[
        bool, Meta(description="Let the file's word count where others differ.")
    ] = False


class Export(Said, frozen=True):
    """What is in the store and is not code's, as a file; arguments are in it as they are."""

    text: str
    notes: Annotated[list[str], Meta(description="What no file can say.")]


class Difference(Said, frozen=True):
    """A field that is, or becomes, another; as TOML, without secrets."""

    field: str
    old: str | None
    new: str | None

    @classmethod
    def of(cls, each: Differing) -> "Difference":
        old, new = each.shown
        return cls(
            field=each.field,
            old=None if each.old is None else old,
            new=None if each.new is None else new,
        )


class Change(Said, frozen=True):
    """What becomes of one entry."""

    kind: Literal["schedule", "queue", "limit"]
    name: str
    action: str
    owner: str | None
    differences: list[Difference]
    drift: Annotated[list[Difference], Meta(description="Set by a person, and it stays.")]

    @classmethod
    def of(cls, change: Changing) -> "Change":
        return cls(
            kind=change.kind,
            name=change.name,
            action=change.action,
            owner=change.owner or None,
            differences=[Difference.of(each) for each in change.differences],
            drift=[Difference.of(each) for each in change.drift],
        )


class PlanView(Said, frozen=True):
    """What applying a file would do, or has done."""

    file: str
    counts: dict[str, int]
    work: Annotated[bool, Meta(description="Whether there is anything to do.")]
    drift: bool
    applied: bool
    changes: list[Change]

    @classmethod
    def of(cls, made: FileDraft, *, applied: bool) -> "PlanView":
        return cls(
            file=made.file,
            counts=dict(made.plan.counts),
            work=not made.plan.is_empty,
            drift=made.plan.has_drift,
            applied=applied,
            changes=[Change.of(change) for change in made.plan.changes],
        )
