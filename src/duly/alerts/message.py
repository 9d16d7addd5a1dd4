"""The words of a message: a title, a text for people, and JSON for programs."""

from collections.abc import Sequence
from typing import Final

from duly.model.alert import AlertContent, AlertMessage, Problem
from duly.policy.printable import one_line

MOST_SHOWN: Final = 20
MOST_IN_TITLE: Final = 3


def content_of(name: str, firing: Sequence[Problem], resolved: Sequence[Problem]) -> AlertContent:
    """Return the content of one message about these problems; of very many, the first ones."""
    shown, over = firing[:MOST_SHOWN], resolved[:MOST_SHOWN]
    return AlertContent(
        title=_title(name, firing, resolved),
        firing=tuple(shown),
        resolved=tuple(over),
        more=len(firing) - len(shown) + len(resolved) - len(over),
    )


def _title(name: str, firing: Sequence[Problem], resolved: Sequence[Problem]) -> str:
    if firing:
        count = "1 problem" if len(firing) == 1 else f"{len(firing)} problems"
        return f"[{name}] {count}: {_named(firing)}"
    return f"[{name}] resolved: {_named(resolved)}"


def _named(problems: Sequence[Problem]) -> str:
    names = [f"{one.name} ({one.kind})" for one in problems[:MOST_IN_TITLE]]
    return one_line(", ".join(names)) + ", …" * (len(problems) > MOST_IN_TITLE)


def text_of(content: AlertContent, *, url: str = "") -> str:
    """Return the text of a message for people."""
    if content.text:
        return content.text
    lines = [content.title, ""]
    for one in content.firing:
        lines.append(f"▲ {one_line(one.name)} ({one.kind}): {one_line(one.sentence)}")
        link = f"{url.rstrip('/')}/jobs/{one.job_id}" if url and one.job_id else ""
        lines += [f"    {line}" for line in (one.command, link) if line]
    lines += [f"✓ resolved: {one_line(one.name)} ({one.kind})" for one in content.resolved]
    if content.more:
        lines.append(f"… and {content.more:,} more: duly status")
    return "\n".join(lines) + "\n"


def json_of(message: AlertMessage, *, url: str = "") -> dict[str, object]:
    """Return the body of a webhook request."""
    content = message.content
    return {
        "id": message.key,
        "at": message.made_at.isoformat(),
        "title": content.title,
        "text": text_of(content, url=url),
        "firing": [_plain(one) for one in content.firing],
        "resolved": [_plain(one) for one in content.resolved],
        "more": content.more,
    }


def _plain(problem: Problem) -> dict[str, object]:
    return {
        "kind": problem.kind,
        "subject": problem.subject,
        "name": problem.name,
        "sentence": problem.sentence,
        "since": problem.since.isoformat(),
        "count": problem.count,
        "job_id": problem.job_id,
        "command": problem.command,
    }
