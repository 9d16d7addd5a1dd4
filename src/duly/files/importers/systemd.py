"""Import from systemd timers and the services that they start.

    OnCalendar=            the rule; several are joined with |
    OnUnitActiveSec=       every …; OnUnitInactiveSec= becomes spaced …
    RandomizedDelaySec=    jitter; with FixedRandomDelay= a delay picked by the name
    Persistent=            missed = "latest", and without it "skip"
    ExecStart=             command, or shell if there are several

Clock changes are handled as in systemd: ``dst = "systemd"``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from duly.durations import show_duration
from duly.errors import RuleError, ZoneMissing
from duly.files.importers.collector import (
    ImportCollector,
    Imported,
    title_of,
    zone_asked_for,
)
from duly.files.importers.systemd_units import (
    ServiceUnit,
    Unit,
    about_any_unit,
    by_file_name,
    find_unit,
    read_service,
    read_span,
    split_shown,
)
from duly.files.schedule_file import ScheduleEntry
from duly.instants import EPOCH
from duly.rules import Spaced, delay_of, parse
from duly.rules.explain import listed
from duly.rules.rule_text import checked_zone

BEGINNINGS: Final = ("OnActiveSec", "OnBootSec", "OnStartupSec")
SWITCHES: Final = ("WakeSystem", "OnClockChange", "OnTimezoneChange", "DeferReactivation")
USUAL_ACCURACY: Final = timedelta(minutes=1)


def from_units(
    texts: Mapping[str, str], *, zone: str | None = None, machine_zone: str | None = None
) -> Imported:
    """Read units by file name: timers, the services they start, and drop-ins with their folder."""
    reader = _TimerReader(by_file_name(texts), checked_zone(zone), machine_zone)
    for name in reader.files:
        if name.endswith(".timer"):
            reader.timer(name)
    if not any(name.endswith(".timer") for name in reader.files):
        reader.basket.note("systemd", "there is no .timer among the files, so nothing is due")
    return reader.basket.imported()


def from_shown_units(
    text: str, *, zone: str | None = None, machine_zone: str | None = None
) -> Imported:
    """Read what ``systemctl cat backup.timer backup.service`` prints."""
    return from_units(split_shown(text), zone=zone, machine_zone=machine_zone)


@dataclass(slots=True)
class _TimerReader:
    files: dict[str, str]
    zone: str | None
    machine_zone: str | None
    basket: ImportCollector = field(default_factory=ImportCollector)

    def timer(self, name: str) -> None:
        if name.endswith("@.timer"):
            self.note_template(name)
            return
        timer = find_unit(name, self.files)
        service = self.service(timer) if timer else None
        if timer is None or service is None:
            return
        rule = self.rule(timer)
        if rule is not None:
            self.add(timer, service, rule)

    def note_template(self, name: str) -> None:
        stem = name.removesuffix(".timer")
        timers = (other for other in self.files if other.endswith(".timer") and other != name)
        if not any(other.startswith(stem) for other in timers):
            self.basket.note(
                name, f"a template runs for an instance: give it as {stem}NAME.timer, for each"
            )

    def service(self, timer: Unit) -> ServiceUnit | None:
        name = timer.last("Timer", "Unit") or f"{timer.name.removesuffix('.timer')}.service"
        if not name.endswith(".service"):
            self.basket.note(timer.name, f"it starts {name}, which runs nothing; it is left out")
            return None
        unit = find_unit(name, self.files)
        if unit is None:
            self.basket.note(timer.name, f"{name} is not among the files: give it too; left out")
            return None
        service = read_service(unit)
        for sentence in service.notes:
            self.basket.note(name, sentence)
        return service if service.command or service.shell else None

    def rule(self, timer: Unit) -> str | None:
        """Return the rules of a timer as one text; None if nothing recurs."""
        rules = [" ".join(text.split()) for text in timer.values("Timer", "OnCalendar")]
        rules += self.intervals(timer, alone=not rules)
        if timer.last("Timer", "OnCalendar") or rules:
            self.note_beginnings(timer)
            return " | ".join(rules)
        self.basket.note(
            timer.name,
            f"{' and '.join(key for key in BEGINNINGS if timer.last('Timer', key)) or 'it'} says "
            "nothing that recurs; it is left out: start it with the machine, as before",
        )
        return None

    def intervals(self, timer: Unit, *, alone: bool) -> list[str]:
        found = []
        for key, value in timer.all("Timer", "OnUnitActiveSec", "OnUnitInactiveSec"):
            length = read_span(value)
            if not length:
                self.basket.note(timer.name, f"{key}={value} is not a length of time; left out")
            elif key == "OnUnitActiveSec":
                found.append(f"every {show_duration(length)}")
                self.basket.note(
                    timer.name,
                    f"{key}={value} becomes a fixed rate on the clock; systemd counts from "
                    'the last start: add "from …" for another first time',
                )
            elif alone and not found:
                return [f"spaced {show_duration(length)}"]
            else:
                self.basket.note(
                    timer.name, f"{key}={value} cannot be joined with another rule; left out"
                )
        return found

    def note_beginnings(self, timer: Unit) -> None:
        for key, value in timer.all("Timer", *BEGINNINGS):
            self.basket.note(
                timer.name, f"{key}={value} is not converted: duly's times do not depend on a start"
            )

    def add(self, timer: Unit, service: ServiceUnit, rule: str) -> None:
        name = self.basket.free_name(timer.name.removesuffix(".timer"))
        calendar = bool(timer.values("Timer", "OnCalendar"))
        missed = "latest" if timer.says("Timer", "Persistent") else "skip"
        jitter, delay = self.delays(timer, name, fixed=not rule.startswith("spaced "))
        if delay:
            rule = f"({rule}) delay={delay}" if " | " in rule else f"{rule} delay={delay}"
        try:
            zone = self.zone_of(rule)
        except RuleError as error:
            if isinstance(error, ZoneMissing):
                raise
            self.basket.leave_out(timer.name, error)
            return
        entry = ScheduleEntry(
            name=name,
            rule=rule,
            zone=zone,
            command=service.command,
            shell=service.shell,
            cwd=service.cwd,
            env=service.env,
            title=title_of(timer.last("Unit", "Description") or service.title),
            timeout=service.timeout,
            missed=missed if calendar else None,
            dst="systemd" if calendar else None,
            jitter=jitter,
            note=f"ran as {service.user}" if service.user else "",
        )
        if self.basket.add(timer.name, entry):
            self.note_timer(timer)

    def zone_of(self, rule: str) -> str | None:
        """Return the zone that a rule needs; None if it has one or counts elapsed time."""
        try:
            found = parse(rule, dst="systemd")
        except ZoneMissing:
            return self.needed_zone()
        if isinstance(found, Spaced) or found.zone is None or found.stated_zone:
            return None
        return self.needed_zone()

    def needed_zone(self) -> str:
        if self.zone is None:
            raise zone_asked_for("a timer", self.machine_zone)
        return self.zone

    def delays(self, timer: Unit, name: str, *, fixed: bool) -> tuple[str | None, str | None]:
        """Return the jitter, or the fixed delay that the name picks."""
        value = timer.last("Timer", "RandomizedDelaySec") or "0"
        length = read_span(value)
        if not length:
            if length is None:
                self.basket.note(timer.name, f"RandomizedDelaySec={value} is not understood")
            return None, None
        if not (fixed and timer.says("Timer", "FixedRandomDelay")):
            return show_duration(length), None
        delay = timedelta(seconds=delay_of(name, EPOCH, length) // timedelta(seconds=1))
        self.basket.note(
            timer.name,
            f"FixedRandomDelay=: of {value} the schedule's name picks {show_duration(delay)}, "
            "written as delay=; systemd picks another on each machine",
        )
        return None, show_duration(delay) if delay else None

    def note_timer(self, timer: Unit) -> None:
        accuracy = read_span(timer.last("Timer", "AccuracySec") or "") or USUAL_ACCURACY
        if accuracy > USUAL_ACCURACY:
            shown = show_duration(accuracy)
            self.basket.note(
                timer.name,
                f"AccuracySec= lets systemd start up to {shown} late to save power; duly starts on "
                f'time: write jitter = "{shown}" where that spread a load',
            )
        on = [key for key in SWITCHES if timer.says("Timer", key)]
        if on:
            self.basket.note(timer.name, f"{listed(on)} cannot be carried")
        for sentence in about_any_unit(timer):
            self.basket.note(timer.name, sentence)
