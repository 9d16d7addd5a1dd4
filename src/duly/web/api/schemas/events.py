"""Events as they are sent and answered."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from duly.policy.redaction import redacted
from duly.views.event_page import EventSeen, ReplayResult
from duly.views.fires import Fire
from duly.web.api.schemas.common import Body, Limit, Said, Since

MOST_AT_ONCE = 10_000  # events of a batch

Pattern: TypeAlias = Annotated[
    str,
    Meta(
        description="A name, as invoice.paid; invoice.* for all below it, * for all.",
        examples=["invoice.*"],
    ),
]


class Emit(Body, frozen=True):
    """Something that happened."""

    name: Annotated[str, Meta(min_length=1, examples=["invoice.paid"])]
    payload: Annotated[
        dict[str, Any], Meta(description="What it says: tasks take its fields by name.")
    ] = field(default_factory=dict)
    key: Annotated[
        str | None, Meta(description="What it is about, for a step that waits for that.")
    ] = None


class EmitMany(Body, frozen=True):
    """Things that happened: all of them are remembered, or none."""

    events: Annotated[list[Emit], Meta(min_length=1, max_length=MOST_AT_ONCE)]


class EventQuery(Body, frozen=True):
    """Which events, and how many."""

    name: Pattern = "*"
    key: Annotated[str | None, Meta(description="Only about this.")] = None
    since: Since | None = None
    until: Annotated[Since | None, Meta(description="Before then.")] = None
    after: Annotated[str | None, Meta(description="The `next` of the part before.")] = None
    limit: Limit = 100


class Replay(Body, frozen=True):
    """Which schedule is to react to what happened without it, from `since` up to `until`."""

    schedule: Annotated[str, Meta(min_length=1)]
    since: Since
    until: Annotated[Since | None, Meta(description="Before then; without any, now.")] = None
    only: Annotated[Pattern | None, Meta(description="Only to some.")] = None
    dry_run: Annotated[bool, Meta(description="Say what would be done.")] = False


class EmittedOne(Said, frozen=True):
    """The event that is remembered."""

    id: int


class EmittedMany(Said, frozen=True):
    """The events that are remembered, in the order in which they were sent."""

    ids: list[int]


class Reaction(Said, frozen=True):
    """What a schedule made of an event, and why."""

    schedule: str
    outcome: Literal["queued", "merged", "skipped"]
    reason: str
    job_id: int | None
    state: Annotated[str | None, Meta(description="Of its job.")]

    @classmethod
    def of(cls, fire: Fire) -> "Reaction":
        return cls(
            schedule=fire.schedule,
            outcome=fire.outcome,  # type: ignore[arg-type] # one of the three
            reason=redacted(fire.reason),
            job_id=fire.job_id,
            state=fire.state,
        )


class Event(Said, frozen=True):
    """What happened, and what came of it; secrets are hidden."""

    id: int
    name: str
    key: str | None
    payload: dict[str, Any]
    at: datetime
    submitter: str
    tenant: str
    reactions: list[Reaction]

    @classmethod
    def of(cls, seen: EventSeen) -> "Event":
        event = seen.event
        return cls(
            id=event.id,
            name=event.name,
            key=seen.key,
            payload=seen.payload,
            at=event.at,
            submitter=event.submitter,
            tenant=event.tenant,
            reactions=[Reaction.of(fire) for fire in seen.reactions],
        )


class Replayed(Said, frozen=True):
    """What became of the events, or would become of them."""

    schedule: str
    events: Annotated[int, Meta(description="To which it had not reacted.")]
    jobs: Annotated[list[int], Meta(description="That were made or moved; none in a dry run.")]
    skipped: int
    dry_run: bool

    @classmethod
    def of(cls, done: ReplayResult) -> "Replayed":
        return cls(
            schedule=done.schedule,
            events=done.events,
            jobs=list(done.jobs),
            skipped=done.skipped,
            dry_run=done.dry_run,
        )
