"""Explain why the ledger has no row for the time that a person asks about."""

import re
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from duly.durations import DAY, MICROSECOND, about
from duly.errors import DulyError
from duly.model.schedule import PROMPT, ScheduleChange, StoredSchedule
from duly.policy import sentences
from duly.policy.why.answer import (
    AskedTime,
    Explanation,
    LocalClock,
    SuggestedCommand,
    plural,
    run_it,
    start_node,
)
from duly.rules import Spaced, local_time, parse

_RULE = re.compile(r"(?:^|; )rule: (.*?) → (.*?)(?=; [a-z]+: |$)")
_TIMING = re.compile(r"(?:^|; )(rule|zone|policies): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsenceEvidence:
    """A time without a ledger row; if ``asked`` is None, the schedule has no row at all."""

    schedule: StoredSchedule
    now: datetime
    asked: AskedTime | None = None
    moment: datetime | None = None  # a moment of the current rule in the time asked about
    before: datetime | None = None  # the nearest moments of the rule
    after: datetime | None = None
    changes: tuple[ScheduleChange, ...] = ()  # the newest first
    last_decision: datetime | None = None  # by any scheduler
    scheduler_is_running: bool = False  # other schedules are fired
    notes: tuple[str, ...] = ()  # clock changes near that time
    last_run: datetime | None = None  # the due moment of the last of ``max_runs``

    @property
    def name(self) -> str:
        return self.schedule.plan.name

    @property
    def clock(self) -> LocalClock:
        return LocalClock(self.schedule.plan.shown_zone, self.now)


def explain_absence(found: AbsenceEvidence) -> Explanation:
    schedule, asked = found.schedule, found.asked
    if asked is None:
        return _never_due(found)
    moment = found.moment or asked.start
    if moment > found.now and found.moment is not None and schedule.runs_left != 0:
        left = about(moment - found.now)
        return Explanation(sentence=f"{found.name} is due {found.clock.whole(moment)}, in {left}.")
    if schedule.created_at > moment:
        return _not_yet_there(found, moment)
    if found.moment is not None and found.last_run is not None and moment > found.last_run:
        return _finished(found, moment, found.last_run)
    if found.moment is None:
        return _not_due(found, asked)
    is_settled = found.moment <= schedule.cursor
    return (_settled_without_row if is_settled else _undecided)(found, found.moment)


def _never_due(found: AbsenceEvidence) -> Explanation:
    schedule, name = found.schedule, found.name
    said = f"{name} has not been due yet"
    if schedule.fault is not None:
        return Explanation(
            sentence=f"{said}, and cannot be fired: {schedule.fault}.", commands=_mend(name)
        )
    if schedule.pause is not None:
        return Explanation(sentence=f"{said}: {_paused(found)}.", commands=_resume(name))
    if (reaction := schedule.plan.reaction) is not None:
        since = found.clock.near(schedule.created_at)
        return Explanation(
            sentence=f"{name} has not been started yet: it reacts to {reaction.pattern}, and no "
            f"such event has happened since it was created ({since})."
        )
    if schedule.next_at is None:
        return Explanation(sentence=f"{said}, and its rule has no later time.")
    if schedule.next_at <= found.now:
        return _undecided(found, schedule.next_at)
    first, left = found.clock.whole(schedule.next_at), about(schedule.next_at - found.now)
    return Explanation(
        sentence=f"{said}. It will be for the first time {first}, in {left}.",
        commands=(run_it(name),),
    )


def _finished(found: AbsenceEvidence, moment: datetime, last: datetime) -> Explanation:
    clock, most = found.clock, found.schedule.plan.policies.max_runs or 0
    is_due = "is not" if moment > found.now else "was not"
    return Explanation(
        sentence=f"{found.name} {is_due} due {clock.whole(moment)}: it is finished. It made "
        f"{plural(most, 'run')} (max_runs={most}), the last for {clock.near(last, moment)}.",
        commands=(
            SuggestedCommand(
                "let it go on", f"duly schedules edit {quote(found.name)} --max-runs none"
            ),
            run_it(found.name),
        ),
    )


def _not_yet_there(found: AbsenceEvidence, moment: datetime) -> Explanation:
    created = found.clock.near(found.schedule.created_at, moment)
    owner = found.schedule.plan.owner
    return Explanation(
        sentence=f"{found.name} did not exist yet {found.clock.whole(moment)}: it was created "
        f"{created}, by {owner}.",
        evidence=_coming(found),
        commands=() if found.schedule.plan.reaction else (run_it(found.name),),
    )


def _not_due(found: AbsenceEvidence, asked: AskedTime) -> Explanation:
    plan, clock = found.schedule.plan, found.clock
    when = _when(asked, clock)
    verb = "is not" if asked.start > found.now else "was not"
    if asked.lost:
        day = f"{local_time(asked.start, clock.zone):%a %Y-%m-%d}"
        said = f"{found.name} {verb} due {day} {_clock_text(asked)}: that time did not exist"
        return Explanation(
            sentence=f"{said} in {clock.zone}, where the clock was set forward over it.",
            evidence=(*_noted(found), *_nearest(found)),
        )
    changed = _moved_by(found, asked)
    if changed is not None:
        said = f"{found.name} {verb} due {when}: {_told(changed, clock, asked.start)}."
        return Explanation(sentence=said, evidence=_nearest(found))
    if (reaction := plan.reaction) is not None:
        said = f"it reacts to {reaction.pattern}, and saw no such event then"
        return Explanation(sentence=f"{found.name} {verb} due {when}: {said}.")
    if isinstance(plan.kept, Spaced):
        said = f'"{plan.rule}" counts from the end of the last run and has no fixed times'
        return Explanation(
            sentence=f"{found.name} {verb} due {when}: {said}.", evidence=_nearest(found)
        )
    last = _last_retiming(found)
    lines = () if last is None else (_told(last, clock, asked.start),)
    said = f'that is not a time of its rule, "{plan.rule}"'
    return Explanation(
        sentence=f"{found.name} {verb} due {when}: {said}.",
        evidence=(*_nearest(found), *_noted(found), *lines),
    )


def _settled_without_row(found: AbsenceEvidence, moment: datetime) -> Explanation:
    """Explain a moment before the cursor without a row: it was not due then, or its row is gone."""
    later = [change for change in found.changes if change.at > moment]
    retimed = [change for change in later if _TIMING.search(change.what)]
    said, clock = f"{found.name} was not due {found.clock.whole(moment)}", found.clock
    if retimed:
        told = _told(retimed[-1], clock, moment)
        return Explanation(
            sentence=f"{said}: {told}, and an edit never creates missed runs.",
            evidence=_coming(found),
            commands=(run_it(found.name),),
        )
    kept = "the ledger keeps 90 days, unless configured otherwise (keep_fires)"
    return Explanation(
        sentence=f"{found.name} was due {clock.whole(moment)}, and its ledger row is gone: {kept}.",
        evidence=tuple(_told(change, clock, moment) for change in later[-3:]),
    )


def _undecided(found: AbsenceEvidence, moment: datetime) -> Explanation:
    schedule, clock, name = found.schedule, found.clock, found.name
    said = f"{name} was due {clock.whole(moment)}"
    if schedule.fault is not None:
        sentence = f"{said} and cannot be fired: {schedule.fault}."
        return Explanation(sentence=sentence, commands=_mend(name))
    if schedule.pause is not None:
        late = "missed= decides about it" if schedule.pause.catch_up else "it counts as skipped"
        return Explanation(
            sentence=f"{said}: {_paused(found)}; {late} when it is resumed.",
            commands=_resume(name),
        )
    if schedule.awaiting is not None:
        return Explanation(sentence=f"{said}: it waits for the end of job {schedule.awaiting}.")
    if found.now - moment < PROMPT:
        return Explanation(sentence=f"{said} and is about to be fired.")
    last = found.last_decision
    if found.scheduler_is_running and last is not None:
        return Explanation(
            sentence=f"{said} and has not been fired yet, though a scheduler is running: it fired "
            f"another schedule {clock.ago(last)} ago.",
            commands=(SuggestedCommand("look closer", "duly doctor"), run_it(name)),
        )
    since = "" if last is None else f"fired since {clock.near(last)} ({clock.ago(last)} ago)"
    return Explanation(
        sentence=f"{said} and has not been fired: no scheduler is running. "
        f"Nothing was {since or 'ever fired'}.",
        commands=(start_node(), run_it(name)),
    )


def _paused(found: AbsenceEvidence) -> str:
    pause = found.schedule.pause
    if pause is None:
        return "it is paused"
    by = f" by {pause.by}" if pause.by else ""
    until = f" until {found.clock.near(pause.until)}" if pause.until else ""
    note = f": {pause.note}" if pause.note else ""
    return f"it is paused{by} since {found.clock.near(pause.since)}{until}{note}"


def _moved_by(found: AbsenceEvidence, asked: AskedTime) -> ScheduleChange | None:
    """Return the change that removed the moment: the rule before the change has it."""
    plan = found.schedule.plan
    for change in found.changes:
        rule = _RULE.search(change.what)
        if rule is None or change.at > asked.start:
            continue
        try:
            old = parse(rule[1], zone=plan.zone, dst=plan.policies.dst, name=plan.name)
        except DulyError:
            return None
        if isinstance(old, Spaced):
            return None
        due = old.after(asked.start - MICROSECOND)
        return change if due is not None and due < asked.until else None
    return None


def _last_retiming(found: AbsenceEvidence) -> ScheduleChange | None:
    return next((change for change in found.changes if _TIMING.search(change.what)), None)


def _told(change: ScheduleChange, clock: LocalClock, near: datetime) -> str:
    by = f" by {change.who}" if change.who else ""
    return f"it was changed {clock.near(change.at, near)}{by} ({change.what})"


def _nearest(found: AbsenceEvidence) -> tuple[str, ...]:
    clock = found.clock
    near = [clock.whole(moment) for moment in (found.before, found.after) if moment is not None]
    return (f"nearest: {' and '.join(near)}",) if near else ()


def _noted(found: AbsenceEvidence) -> tuple[str, ...]:
    past = found.asked is None or found.asked.start <= found.now
    return (sentences.clock_changes(found.notes),) if found.notes and past else found.notes


def _coming(found: AbsenceEvidence) -> tuple[str, ...]:
    upcoming = found.schedule.next_at
    return () if upcoming is None else (f"next: {found.clock.whole(upcoming)}",)


def _when(asked: AskedTime, clock: LocalClock) -> str:
    if asked.until - asked.start >= DAY:
        return f"on {local_time(asked.start, clock.zone):%a %Y-%m-%d} ({clock.zone})"
    return clock.whole(asked.start)


def _clock_text(asked: AskedTime) -> str:
    found = re.search(r"\d{1,2}:\d\d(:\d\d)?", asked.text)
    return found[0] if found else asked.text


def _resume(name: str) -> tuple[SuggestedCommand, ...]:
    return (SuggestedCommand("resume it", f"duly schedules resume {quote(name)}"), run_it(name))


def _mend(name: str) -> tuple[SuggestedCommand, ...]:
    return (
        SuggestedCommand("see it", f"duly schedules show {quote(name)}"),
        SuggestedCommand("mend it", f"duly schedules edit {quote(name)}"),
    )
