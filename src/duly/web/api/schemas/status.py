"""How things stand, as it is answered."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from duly.doctor import Finding as Found
from duly.policy.redaction import redacted
from duly.web.api.schemas.common import Said


class FindingView(Said, frozen=True):
    """What one check came to."""

    check: str
    level: Literal["ok", "warning", "problem"]
    said: str
    fix: Annotated[str | None, Meta(description="What helps.")]

    @classmethod
    def of(cls, found: Found) -> "FindingView":
        return cls(
            check=found.check,
            level=found.level,
            said=redacted(found.said),
            fix=redacted(found.fix) or None,
        )


class Doctor(Said, frozen=True):
    """What is around the store."""

    ok: Annotated[bool, Meta(description="No check found a problem.")]
    findings: list[FindingView]


class Setting(Said, frozen=True):
    """A setting of the web process, and where its value comes from."""

    name: str
    value: Any
    origin: str
    about: str
