"""What must come to rest once the faults are over: asked of the tables themselves."""

from collections.abc import Iterator

from tests.simulation.world import World

SECOND = 1_000_000

OVERDUE = {
    "schedules are overdue": """
        select name, next_at - :now from duly_schedule where next_at < :now - :slack order by id""",
    "jobs are due and not ready": """
        select id, ready_at - :now from duly_job
         where state = 'scheduled' and ready_at < :now - :slack order by id""",
    "jobs have missed their deadline and not been told": """
        select id, deadline - :now from duly_job
         where (state <> 'running' or waits = 'steps') and deadline < :now - :slack
         order by id""",
    "jobs run at workers that have no lease": """
        select duly_job.id, duly_job.worker from duly_job
          left join duly_worker on duly_worker.id = duly_job.worker
         where duly_job.state = 'running' and duly_job.waits is null
           and coalesce(lease_until, 0) + :margin < :now - :slack order by duly_job.id""",
}
LEFT_BEHIND = {
    "jobs wait behind nothing": """
        select id, schedule_id from duly_job as waiting
         where state = 'blocked' and waits is null
           and not exists (select 1 from duly_job as other
                            where other.schedule_id = waiting.schedule_id
                              and (other.state <> 'blocked' or other.waits is not null))
         order by id""",
    "fixed delays have neither a next moment nor a job to wait for": """
        select name, awaiting from duly_schedule
         where rule like 'spaced%' and pause is null and next_at is null
           and not exists (select 1 from duly_job where duly_job.id = duly_schedule.awaiting)
           and policies not like '%"end"%'
         order by id""",
    "jobs have been ready for long": """
        select id, ready_at - :now from duly_job
         where state = 'ready' and rank + priority * 1000000 < :now - :long order by id""",
    "jobs have waited for long at a limit or for a worker": """
        select id, waits, waits_for, ready_at - :now from duly_job
         where state = 'blocked' and waits in ('limit', 'worker', 'signature')
           and rank + priority * 1000000 < :now - :long order by id""",
    "flows run, and nothing of them lives": """
        select id, task from duly_job as flow
         where waits = 'steps'
           and not exists (select 1 from duly_job
                            where duly_job.parent = flow.id and duly_job.step is not null)
         order by id""",
    "events have not been looked at": """
        select id, name from duly_event where not seen order by id""",
    "steps wait for what has happened": """
        select duly_job.id, duly_event.id from duly_job
          join duly_flow on duly_flow.id = duly_job.parent
          join duly_event on duly_event.name || ':' || duly_event.key = duly_job.waits_for
               and duly_event.at >= duly_flow.opened_at
         where duly_job.waits = 'event' order by duly_job.id""",
    "jobs that wait have lost their key": """
        select duly_job.id, duly_job.key from duly_job
          left join duly_job_key on duly_job_key.task = duly_job.task
               and duly_job_key.key = duly_job.key and duly_job_key.job_id = duly_job.id
         where duly_job.key is not null and duly_job_key.key is null order by duly_job.id""",
}


def overdue(world: World) -> Iterator[str]:
    """What should be done by now, however bad it was before."""
    yield from _found(world, OVERDUE)


def left_behind(world: World) -> Iterator[str]:
    """What nobody will ever do."""
    yield from _found(world, LEFT_BEHIND)


def _found(world: World, questions: dict[str, str]) -> Iterator[str]:
    knobs = world.knobs
    values = {
        "now": world.now,
        "slack": int((2 * knobs.poll + 3) * SECOND),
        "margin": int(knobs.margin * SECOND),
        "long": 60 * SECOND,
    }
    for what, question in questions.items():
        rows = world.connection.execute(question, values).fetchall()
        if "lost their key" in what:
            rows = [row for row in rows if not world.checkers.jobs[row[0]].keyless]
        if rows:
            yield f"{what}: {rows[:5]}"
