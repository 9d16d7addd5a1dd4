-- Reads for pages and alerts: what happened, and what waits. A page repeats some of them once a second,
-- so each is bounded and uses an index.

-- name: numbered_schedule
select {schedule}
  from duly.schedule
 where id = :id;

-- name: run_in_the_way
-- The oldest job of a schedule that existed and had not ended at a moment; one that blocked others
-- before one that was blocked.
select *
  from (select {job}, waits, waits_for, null::bigint as ended_at, null::text as result,
               null::text as error
          from duly.job
         where schedule_id = :schedule_id and created_at <= :moment
         union all
        select {job}, null::text, null::text, ended_at, null::text, error
          from duly.history
         where schedule_id = :schedule_id and ended_at > :moment and created_at <= :moment
         union all
        select {job}, null::text, null::text, ended_at, null::text, error
          from duly.failed
         where schedule_id = :schedule_id and ended_at > :moment and created_at <= :moment) as there
 order by state = 'blocked', due_at, id
 limit 1;

-- name: past_runs
-- The durations of a schedule's last successful jobs.
select ended_at - claimed_at
  from duly.history
 where schedule_id = :schedule_id and state = 'succeeded' and claimed_at is not null
 order by ended_at desc
 limit :limit;

-- name: runs_of
-- Of each of these jobs: its state, the starts of its first and last attempts, and its end.
select id, state, coalesce((select min(started_at) from duly.attempt where job_id = id), claimed_at),
       claimed_at, ended_at
  from (select id, state, claimed_at, null::bigint as ended_at from duly.job
         where id {in :ids::bigint[]}
         union all
        select id, state, claimed_at, ended_at from duly.history where id {in :ids::bigint[]}
         union all
        select id, state, claimed_at, ended_at from duly.failed where id {in :ids::bigint[]}) as job;

-- name: run_after
-- The first fire after a moment that got a job: a merged moment was merged into that one.
select {fire}
  from duly.fire
 where schedule_id = :schedule_id and due_at > :moment and series = 0 and outcome = 'queued'
 order by due_at
 limit 1;

-- name: last_decision
-- When a scheduler last decided a fire before an instant; backfills do not count.
select decided_at
  from duly.fire
 where decided_at < :before and series = 0 and coalesce(cause, '') <> 'asked'
 order by decided_at desc
 limit 1;

-- name: count_ahead
-- The number of jobs that are claimed before this one, up to 10,001.
select count(*)
  from (select 1
          from duly.job as mine
          join duly.job as other
            on other.state = 'ready' and other.queue = mine.queue
           and ((other.shelf = mine.shelf and (other.rank, other.id) < (mine.rank, mine.id))
                or (mine.shelf in (1, 2) and other.shelf < mine.shelf))
         where mine.id = :id
         limit 10001) as ahead;

-- name: asked_to_stop
select reason
  from duly.signal
 where job_id = :id and what = 'cancel';

-- part: moments
-- The clock's moments that were decided and due in a period, with the outcome of their jobs. A merged
-- moment has the outcome of the next one that got a job. Most jobs have ended, so the history is read
-- first. Materialized, or each lookup is repeated at every use.
with decided as materialized (
    select due_at, outcome, cause, coalesce(count, 1) as moments,
           case when outcome = 'merged' and job_id is null
                then (select later.job_id
                        from duly.fire as later
                       where later.schedule_id = fire.schedule_id and later.due_at > fire.due_at
                         and later.series = 0 and later.outcome = 'queued'
                       order by later.due_at
                       limit 1)
                else job_id end as run
      from duly.fire
     where decided_at >= :since and decided_at < :until and series = 0
       and due_at >= :first and due_at < :last and due_at <= {now}),
moment as materialized (
    select due_at, outcome, cause, moments,
           coalesce((select case when state = 'succeeded' and claimed_at - due_at > :late then 'late'
                                 else state end
                       from duly.history
                      where id = run and ended_at >= :since and ended_at <= {now}),
                    (select state from duly.job where id = run),
                    (select state from duly.failed where id = run), '') as fate
      from decided)

-- name: count_moments
-- The number of moments by outcome, and how many started late.
{moments}
select outcome, cause, case fate when 'late' then 'succeeded' else fate end as state,
       sum(moments)::bigint, sum(case when fate = 'late' then 1 else 0 end)
  from moment
 group by 1, 2, 3
 order by 1, 2, 3;

-- name: count_moments_by_hour
-- The same by the hour of the due time.
{moments}
select due_at / 3600000000 * 3600000000, outcome, cause, case fate when 'late' then 'succeeded' else fate end,
       sum(moments)::bigint, sum(case when fate = 'late' then 1 else 0 end)
  from moment
 group by 1, 2, 3, 4
 order by 1, 2, 3, 4;

-- name: late_moments
-- The latest moments whose jobs succeeded but started late.
select {fire}
  from duly.fire
 where decided_at >= :since and decided_at < :until and series = 0 and outcome = 'queued'
   and exists (select 1
                 from duly.history as ended
                where ended.id = job_id and ended.state = 'succeeded'
                  and ended.claimed_at - ended.due_at > :late and ended.ended_at >= :since)
 order by due_at desc
 limit :limit;

-- name: moments_not_kept
-- Of each schedule and kind of failure: the last missed moment, and how many there are. A moment counts
-- by the time of its decision and a job by its end. Backfilled and acknowledged moments do not count.
select name, due_at, cause, reason, job_id, state, error, moments, first, last
  from (select schedule.name, bad.due_at, bad.cause, bad.reason, bad.job_id, bad.state, bad.error,
               (sum(coalesce(bad.count, 1)) over alike)::bigint as moments,
               min(bad.covers_from) over alike as first,
               max(bad.happened) over alike as last,
               row_number() over (partition by bad.schedule_id, bad.cause, bad.state
                                      order by bad.due_at desc, bad.id desc) as place
          from (select schedule_id, due_at, id, cause, reason, null::bigint as job_id, '' as state,
                       null::text as error, count, covers_from,
                       decided_at as happened
                  from duly.fire
                 where decided_at >= :since and outcome = 'skipped'
                   and cause in ('overlap', 'late', 'exhausted', 'refused')
                   and (coalesce(count, 0) <> 1
                        or not exists (select 1
                                         from duly.fire as asked
                                        where asked.schedule_id = fire.schedule_id
                                          and asked.due_at = fire.due_at
                                          and asked.series <> 0 and asked.cause = 'asked'))
                 union all
                select fire.schedule_id, fire.due_at, fire.id, null, gone.reason, gone.id, gone.state,
                       null, fire.count, fire.covers_from, gone.ended_at
                  from duly.fire as fire
                  join duly.history as gone on gone.id = fire.job_id
                 where fire.decided_at >= :since and fire.outcome = 'queued'
                   and gone.ended_at >= :since and gone.state = 'expired'
                 union all
                select schedule_id, due_at, id, null, reason, id, state, error, 1, due_at, ended_at
                  from duly.failed
                 where ended_at >= :since and schedule_id is not null) as bad
          join duly.schedule on schedule.id = bad.schedule_id
          left join duly.acknowledgement as known
            on known.subject = 'schedule:' || schedule.name
           and known.kind = coalesce(bad.cause, bad.state)
         where known.until is null or bad.happened > known.until
        window alike as (partition by bad.schedule_id, bad.cause, bad.state)) as told
 where place = 1
 order by due_at desc, name
 limit :limit;

-- name: failed_tasks
-- Failed jobs without a schedule, by task: the last one, and how many. Steps of flows do not count.
select task, id, ended_at, reason, error, jobs
  from (select task, id, ended_at, reason, error, count(*) over (partition by task) as jobs,
               row_number() over (partition by task order by ended_at desc, id desc) as place
          from duly.failed
          left join duly.acknowledgement as known
            on known.subject = 'task:' || task and known.kind = 'failed'
         where ended_at >= :since and schedule_id is null and step is null
           and (known.until is null or ended_at > known.until)) as one
 where place = 1
 order by ended_at desc, task
 limit :limit;

-- name: waiting_kinds
-- Jobs that have waited longer than :patience for a worker, by what the worker must have.
select queue, task, waits, needs, count(*), min(ready_at), min(id), max(reason), max(ready_at)
  from duly.job
  left join duly.acknowledgement as known
    on known.subject = 'task:' || task
   and known.kind = case when waits = 'signature' then 'signature' else 'no worker' end
 where (state = 'ready' or waits in ('worker', 'signature')) and ready_at <= {now} - :patience
   and (known.until is null or ready_at > known.until)
 group by queue, task, waits, needs
 order by 6, 1, 2
 limit :limit;

-- name: running_jobs
-- Of the flows and the handed-off jobs, the oldest are enough.
select {job}, waits, waits_for, null, null, null
  from duly.job
 where id {in (select id from duly.job where worker is not null
               union all
              select id
                from (select id
                        from duly.job
                       where waits in ('steps', 'outcome')
                       order by claimed_at, id
                       limit :limit) as opened)}
   and state = 'running'
 order by claimed_at, id
 limit :limit;

-- name: awaiting_jobs
-- Steps that wait for an event, those with the earliest deadline first.
select {job}, waits, waits_for, null, null, null
  from duly.job {indexed by job_awaiting}
 where waits = 'event' and state = 'blocked'
 order by deadline nulls last, id
 limit :limit;

-- name: schedules_due_before
-- Schedules that are due before an instant, including overdue ones.
select {schedule}
  from duly.schedule
 where next_at < :before and pause is null and fault is null
 order by next_at, name
 limit :limit;

-- part: decided_then
decided_at >= :since and decided_at < :until and decided_at <= {now}

-- part: claimed_then
claimed_at >= :since and claimed_at < :until and claimed_at <= {now}

-- part: ended_then
ended_at >= :since and ended_at < :until and ended_at <= {now}

-- part: happening_job
job.id, job.id, schedule.name, job.task, job.title, job.queue, job.tenant, job.state, job.reason,
       job.due_at

-- name: happened
-- What happened between two instants, the newest first. Each kind has an index on its time, except
-- running jobs, which are few.
select at, kind, number, job_id, coalesce(name, ''), coalesce(task, ''), coalesce(title, ''),
       coalesce(queue, ''), coalesce(tenant, ''), word, reason, due_at
  from (select *
          from (select decided_at as at, 'moment' as kind, fire.id as number, job_id, schedule.name,
                       task, title, queue, tenant, outcome as word, reason, due_at
                  from duly.fire as fire
                  left join duly.schedule as schedule on schedule.id = fire.schedule_id
                 where {decided_then}
                 order by decided_at desc
                 limit :limit) as decided
         union all
        select *
          from (select claimed_at, 'began', {happening_job}
                  from duly.job as job
                  left join duly.schedule as schedule on schedule.id = job.schedule_id
                 where worker is not null and {claimed_then}
                 order by claimed_at desc
                 limit :limit) as began
         union all
        select *
          from (select claimed_at, 'began', {happening_job}
                  from duly.job as job
                  left join duly.schedule as schedule on schedule.id = job.schedule_id
                 where waits in ('steps', 'outcome') and {claimed_then}
                 order by claimed_at desc
                 limit :limit) as opened
         union all
        select *
          from (select ended_at, 'ended', {happening_job}
                  from duly.history as job
                  left join duly.schedule as schedule on schedule.id = job.schedule_id
                 where {ended_then}
                 order by ended_at desc
                 limit :limit) as ended
         union all
        select *
          from (select ended_at, 'ended', {happening_job}
                  from duly.failed as job
                  left join duly.schedule as schedule on schedule.id = job.schedule_id
                 where {ended_then}
                 order by ended_at desc
                 limit :limit) as dead) as happening
 order by at desc, number desc
 limit :limit;

-- name: count_happened
select sum(happenings)::bigint
  from (select count(*) as happenings from duly.fire
         where {decided_then}
         union all
        select count(*) from duly.job
         where worker is not null and {claimed_then}
         union all
        select count(*) from duly.job
         where waits in ('steps', 'outcome') and {claimed_then}
         union all
        select count(*) from duly.history
         where {ended_then}
         union all
        select count(*) from duly.failed
         where {ended_then}) as kind;

-- part: lengths
select ended_at, task, queue, state, claimed_at - ready_at as waited, ended_at - claimed_at as ran,
       case when schedule_id is not null then claimed_at - due_at end as late

-- part: ended_lengths
({lengths}
                  from duly.history
                 where ended_at >= :since and ended_at < :until
                 union all
                {lengths}
                  from duly.failed
                 where ended_at >= :since and ended_at < :until) as ended

-- part: length_digits
case when waited < 1000 then '0' else cast(waited as text) end {bytewise} as waited,
               case when ran < 1000 then '0' else cast(ran as text) end {bytewise} as ran,
               case when late < 1000 then '0' else cast(late as text) end {bytewise} as late

-- part: length_places
-- A duration is given as its place among the steps 1, 2, 5, 10, 20, … milliseconds, computed from its
-- digits.
3 * length(waited) - case when waited < '2' then 11 when waited < '5' then 10 else 9 end,
       3 * length(ran) - case when ran < '2' then 11 when ran < '5' then 10 else 9 end,
       3 * length(late) - case when late < '2' then 11 when late < '5' then 10 else 9 end

-- name: ended_by_step
-- Ended jobs by period: outcome, and the places of wait, duration and lateness.
select step, queue, state, {length_places}, count(*)
  from (select ended_at / :step as step, queue, state, {length_digits}
          from {ended_lengths}) as shown
 group by 1, 2, 3, 4, 5, 6;

-- name: count_ready_by_queue
-- Ready jobs of each queue, up to :most, and the ready time of the oldest in claim order.
with recursive line (queue) as (
    select min(queue) from duly.job where state = 'ready'
     union all
    select (select min(job.queue) from duly.job as job where state = 'ready' and job.queue > line.queue)
      from line
     where line.queue is not null)
select queue,
       (select count(*)
          from (select 1 from duly.job as job
                 where state = 'ready' and job.queue = line.queue limit :most) as counted),
       (select min(ready_at)
          from (select ready_at from duly.job as job
                 where state = 'ready' and job.queue = line.queue
                 order by shelf, rank, id limit :oldest) as first)
  from line
 where queue is not null;

-- name: count_running_by_queue
-- Without flows, whose steps are counted.
select queue, count(*)
  from (select queue from duly.job
         where worker is not null
         limit :most) as running
 group by queue;

-- name: count_ended_by_queue
-- The :most jobs that ended last, and the :most that failed last, which are kept longer.
select queue, state, count(*)
  from (select queue, state from duly.history order by ended_at desc limit :most) as ended
 group by queue, state
 union all
select queue, state, count(*)
  from (select queue, state from duly.failed order by ended_at desc limit :most) as dead
 group by queue, state;

-- name: count_scheduled_by_queue
-- The :most jobs that are due first.
select queue, count(*)
  from (select queue from duly.job where state = 'scheduled' order by ready_at limit :most) as coming
 group by queue;

-- name: count_blocked_by_queue
-- Some wait for a limit, an event or a worker, the others for an earlier job of their schedule. At most
-- :most jobs of each kind are read, and the number read is returned.
select queue, sum(blocked)::bigint, sum(waiting)::bigint, sum(following)::bigint
  from (select queue, case when state = 'blocked' then 1 else 0 end as blocked, 1 as waiting,
               0 as following
          from (select queue, state
                  from duly.job
                 where waits is not null
                 limit :most) as held
         union all
        select queue, case when state = 'blocked' and waits is null then 1 else 0 end, 0, 1
          from (select queue, state, waits
                  from duly.job
                 where schedule_id is not null
                 order by schedule_id, due_at, id
                 limit :most) as made) as looked_at
 group by queue;
