"""What must hold after any order of any transactions, as one query: a row for each breach.

Written for schedules whose rule is ``every 10s`` (or a fixed delay) and that were made before the
interleaving began; a check of one case adds what only that case knows.
"""

BREACHES = """
with ended as (
    select id, fire_id, schedule_id, state from duly.history
     union all
    select id, fire_id, schedule_id, state from duly.failed
), known as (
    select id, fire_id, schedule_id, state::text from duly.job
     union all
    select id, fire_id, schedule_id, state from ended
), planned as (
    select *, policies::jsonb ->> 'overlap' as overlap
      from duly.schedule
)
select format('job %s is alive and has ended', job.id)
  from duly.job join ended using (id)
 union all
select format('job %s has ended %s times', id, count(*))
  from ended group by id having count(*) > 1
 union all
select format('fire %s has %s jobs', fire_id, count(*))
  from known where fire_id is not null group by fire_id having count(*) > 1
 union all
select format('two rows of the ledger cover one moment of schedule %s: %s and %s',
              one.schedule_id, one.due_at, two.due_at)
  from duly.fire as one
  join duly.fire as two
    on one.schedule_id = two.schedule_id and one.due_at < two.due_at
   and one.due_at >= two.covers_from
 where one.series = 0 and two.series = 0
 union all
select format('fire %s is queued, and no job stands for it', fire.id)
  from duly.fire
 where outcome = 'queued'
   and not exists (select from known where known.id = fire.job_id and known.fire_id = fire.id)
 union all
select format('fire %s is %s, and job %s stands for it', fire.id, outcome, known.id)
  from duly.fire join known on known.fire_id = fire.id
 where outcome <> 'queued'
 union all
select format('%s moments of schedule %s are due, and %s are covered', due, id, covered)
  from (select id, cursor / 10000000 - created_at / 10000000 as due,
               (select coalesce(sum(count), 0)
                  from duly.fire
                 where fire.schedule_id = planned.id and series = 0) as covered
          from planned
         where rule = 'every 10s') as sums
 where due <> covered
 union all
select format('schedule %s stands at %s and is due next at %s', id, cursor, next_at)
  from planned
 where rule = 'every 10s' and pause is null
   and next_at is distinct from (cursor / 10000000 + 1) * 10000000
 union all
select format('schedule %s is paused, and due at %s', id, next_at)
  from planned where pause is not null and next_at is not null
 union all
select format('schedule %s has a fault: %s', id, fault)
  from planned where fault is not null
 union all
select format('fixed delay %s is due at %s and awaits %s', id, next_at, awaiting)
  from planned
 where rule like 'spaced%' and pause is null
   and ((next_at is null) = (awaiting is null)
        or awaiting is not null and not exists (select from duly.job where job.id = awaiting))
 union all
select format('job %s waits behind nothing', id)
  from duly.job as waiting
 where state = 'blocked' and waits is null
   and not exists (select
                     from duly.job as other
                    where other.schedule_id = waiting.schedule_id
                      and (other.state <> 'blocked' or other.waits is not null))
 union all
select format('%s jobs of schedule %s may run at once', count(*), planned.id)
  from planned join duly.job on job.schedule_id = planned.id
 where overlap is distinct from 'allow' and (job.state <> 'blocked' or job.waits is not null)
 group by planned.id having count(*) > 1
 union all
-- A key may be left behind by a job that ended while somebody held the key: it stands for nothing.
select format('key %s of %s stands for job %s of another', job_key.key, job_key.task, job_id)
  from duly.job_key join duly.job on job.id = job_id
 where (job.task, job.key) is distinct from (job_key.task, job_key.key)
 union all
select format('job %s waits under key %s, which is not its own', id, key)
  from duly.job
 where key is not null and state <> 'running' and attempt = 0
   and not exists (select from duly.job_key where job_id = job.id)
 union all
select format('job %s stands on shelf %s', id, shelf)
  from duly.job
 where shelf <> case when limits is not null or needs is not null then 3
                     when crashes > 0 then 4
                     when priority <= -100 then 2
                     when priority <= -50 then 1
                     when schedule_id is not null and request = id then 5
                     else 0
                end
 union all
select format('a signal is left for job %s, which is not there', job_id)
  from duly.signal
 where not exists (select from duly.job where job.id = job_id)
 union all
select format('job %s runs, and nobody runs it', id)
  from duly.job where state = 'running' and waits is null
   and (worker is null or claimed_at is null or fence = 0)
 union all
select format('moment %s was given older arguments than moment %s', newer.due_at, older.due_at)
  from duly.job as older join duly.job as newer using (schedule_id)
 where older.due_at < newer.due_at and older.version > newer.version
"""
