"""The journal: log lines and progress of running jobs.

They are written only under the fencing token of the job's claim: the lines of a worker that lost
its lease are dropped. The jobs are locked first and their lines counted afterwards, in a statement
of its own, which sees what was committed while this transaction waited.
"""

from collections.abc import MutableMapping, Sequence
from typing import Final

from duly.errors import OutcomeUnknown
from duly.model.columns import read_rows
from duly.model.journal import Entry, LogEntry, LogLine, ProgressEntry, ProgressNote, numbered
from duly.store import rows
from duly.store.database import Ask, Operation
from duly.store.values import LOG
from duly.store.verbs import Noun, reading, reads, verb

MOST_TAILS = 10  # log lines of more jobs at once cannot be followed live

# How many lines each job had, and how many bytes, when a write began.
Begun = MutableMapping[int, tuple[int, int]]


def note(job_id: int) -> Operation[ProgressNote | None]:
    """Return the progress that a job reported."""
    found = yield Ask("find_note", {"job_id": job_id})
    return next(iter(read_rows(ProgressNote, found)), None)


class JournalStore(Noun):
    @verb(None)
    async def write(self, entries: Sequence[Entry]) -> None:
        """Write log lines and progress of jobs, each only under the fencing token of its claim.

        Lines of a worker that lost its lease are dropped, and lines beyond the bound of one job.
        """
        if not entries:
            return
        spoke = await self._write(entries)
        if len(spoke) <= MOST_TAILS:
            self._db.nudge(*(f"{LOG}:{job_id}" for job_id in sorted(spoke)))

    async def _write(self, entries: Sequence[Entry]) -> set[int]:
        """Repeat with the same numbers until it is known that each line is stored once."""
        begun: Begun = {}
        try:
            return await self._db.write(lambda: write(entries, begun))
        except OutcomeUnknown as unknown:
            return await self._db.insist(lambda: write(entries, begun, again=True), unknown=unknown)

    @reads("viewer")
    def logs(self, job_id: int, *, after: int = 0, limit: int = 1_000) -> Operation[list[LogLine]]:
        """Return the log lines after the number ``after``."""
        found = yield Ask("list_lines", {"job_id": job_id, "after": after, "limit": limit})
        return read_rows(LogLine, found)

    note: Final = reading("viewer", note)


def write(entries: Sequence[Entry], begun: Begun, *, again: bool = False) -> Operation[set[int]]:
    """Store log lines and progress; return the ids of the jobs whose claim is still valid.

    ``again``: the answer to the first call was lost. It left in ``begun`` where it began, so the
    same lines get the same numbers, and are there once.
    """
    speakers = {(entry.job_id, entry.fence) for entry in entries}
    mine = [{"id": job_id, "fence": fence} for job_id, fence in sorted(speakers)]
    held = set[tuple[int, int]]((yield Ask("hold_speakers", {"rows": rows.packed(mine)})))
    kept = [entry for entry in entries if (entry.job_id, entry.fence) in held]
    lines = [entry for entry in kept if isinstance(entry, LogEntry)]
    if lines:
        yield from _write_lines(lines, begun, again=again)
    notes = {entry.job_id: entry for entry in kept if isinstance(entry, ProgressEntry)}
    if notes:
        yield Ask("keep_notes", {"rows": rows.packed(map(_note_values, notes.values()))})
    return {job_id for job_id, _ in held}


def _write_lines(entries: Sequence[LogEntry], begun: Begun, *, again: bool) -> Operation[None]:
    by_job: dict[int, list[LogEntry]] = {}
    for entry in entries:
        by_job.setdefault(entry.job_id, []).append(entry)
    if not (again and begun):  # the first call may have failed before it began
        found = yield Ask("log_lengths", {"ids": list(by_job)})
        begun.update(dict.fromkeys(by_job, (0, 0)))
        begun.update({job_id: (last, size) for job_id, last, size in found})
    chosen = [
        _line_values(seq, entry)
        for job_id, said in by_job.items()
        for seq, entry in numbered(said, *begun[job_id])
    ]
    if chosen:
        yield Ask("keep_lines", {"rows": rows.packed(chosen)})


def _line_values(seq: int, entry: LogEntry) -> dict[str, object]:
    return {
        "job_id": entry.job_id,
        "seq": seq,
        "attempt": entry.attempt,
        "at": entry.at_us,
        "level": entry.level,
        "text": entry.text,
    }


def _note_values(entry: ProgressEntry) -> dict[str, object]:
    return {
        "job_id": entry.job_id,
        "attempt": entry.attempt,
        "percent": entry.percent,
        "message": entry.message,
        "meta": entry.meta,
    }
