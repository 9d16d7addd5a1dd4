"""A plan for programs: ``duly plan -o json``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.app.schedule_files import Draft
    from duly.declare.changes import Change, Difference


def plain(made: "Draft") -> dict[str, object]:
    return {
        "file": made.file,
        "counts": made.plan.counts,
        "work": not made.plan.is_empty,
        "drift": made.plan.has_drift,
        "changes": [_change(change) for change in made.plan.changes],
    }


def _change(change: "Change") -> dict[str, object]:
    return {
        "kind": change.kind,
        "name": change.name,
        "action": change.action,
        "owner": change.owner or None,
        "differences": [_difference(each) for each in change.differences],
        "drift": [_difference(each) for each in change.drift],
    }


def _difference(each: "Difference") -> dict[str, str | None]:
    """As TOML, without secrets: what a plan shows ends in the logs of a build."""
    old, new = each.shown
    return {
        "field": each.field,
        "old": None if each.old is None else old,
        "new": None if each.new is None else new,
    }
