-- What is asked only when somebody wants to know why, or how things stand.

-- name: numbered_schedule
select {schedule}
  from duly_schedule
 where id = :id;

-- name: run_in_the_way
-- The oldest job of a schedule that was there at a moment and had not ended; rather one that stood
-- in the way of others than one that waited for them.
select *
  from (select {job}, waits, waits_for, null as ended_at, null as result, null as error
          from duly_job
         where schedule_id = :schedule_id and created_at <= :moment
         union all
        select {job}, null, null, ended_at, null, error
          from duly_history
         where schedule_id = :schedule_id and ended_at > :moment and created_at <= :moment
         union all
        select {job}, null, null, ended_at, null, error
          from duly_failed
         where schedule_id = :schedule_id and ended_at > :moment and created_at <= :moment) as there
 order by state = 'blocked', due_at, id
 limit 1;

-- name: past_runs
-- How long the last runs of a schedule took that ended well.
select ended_at - claimed_at
  from duly_history
 where schedule_id = :schedule_id and state = 'succeeded' and claimed_at is not null
 order by ended_at desc
 limit :limit;

-- name: runs_of
-- Of each of these jobs, its state, when it was begun first, when its last run began, and its end.
select id, state, coalesce((select min(started_at) from duly_attempt where job_id = id), claimed_at),
       claimed_at, ended_at
  from (select id, state, claimed_at, null as ended_at from duly_job
         where id in (select value from json_each(:ids))
         union all
        select id, state, claimed_at, ended_at from duly_history
         where id in (select value from json_each(:ids))
         union all
        select id, state, claimed_at, ended_at from duly_failed
         where id in (select value from json_each(:ids))) as job;

-- name: run_after
-- The first moment behind another that got a job: what was merged, it was merged into that.
select {fire}
  from duly_fire
 where schedule_id = :schedule_id and due_at > :moment and series = 0 and outcome = 'queued'
 order by due_at
 limit 1;

-- name: last_decision
-- When a scheduler last decided anything before an instant. What people asked for is not its work.
select decided_at
  from duly_fire
 where decided_at < :before and series = 0 and coalesce(cause, '') <> 'asked'
 order by decided_at desc
 limit 1;

-- name: count_ahead
-- Jobs that are claimed before this one, up to 10,001. The low and the idle come behind all others.
select count(*)
  from (select 1
          from duly_job as mine
          join duly_job as other
            on other.state = 'ready' and other.queue = mine.queue
           and ((other.shelf = mine.shelf and (other.rank, other.id) < (mine.rank, mine.id))
                or (mine.shelf in (1, 2) and other.shelf < mine.shelf))
         where mine.id = :id
         limit 10001) as ahead;

-- name: asked_to_stop
select reason
  from duly_signal
 where job_id = :id and what = 'cancel';

-- part: moments
-- The moments of the clock that were decided and due between these instants, and what became of
-- their jobs. One that was merged shares the fate of the next that got a job. Most have ended long
-- ago: where they ended is asked first, and elsewhere only if they are not there. Materialized, or
-- all of that is asked again wherever it is spoken of.
with decided as materialized (
    select due_at, outcome, cause, coalesce(count, 1) as moments,
           case when outcome = 'merged' and job_id is null
                then (select later.job_id
                        from duly_fire as later
                       where later.schedule_id = duly_fire.schedule_id and later.due_at > duly_fire.due_at
                         and later.series = 0 and later.outcome = 'queued'
                       order by later.due_at
                       limit 1)
                else job_id end as run
      from duly_fire
     where decided_at >= :since and decided_at < :until and series = 0
       and due_at >= :first and due_at < :last and due_at <= :now),
moment as materialized (
    select due_at, outcome, cause, moments,
           coalesce((select case when state = 'succeeded' and claimed_at - due_at > :late then 'late'
                                 else state end
                       from duly_history
                      where id = run and ended_at >= :since and ended_at <= :now),
                    (select state from duly_job where id = run),
                    (select state from duly_failed where id = run), '') as fate
      from decided)

-- name: count_moments
-- What became of the moments of the clock, counted; and how many were kept late.
{moments}
select outcome, cause, case fate when 'late' then 'succeeded' else fate end as state,
       sum(moments), sum(case when fate = 'late' then 1 else 0 end)
  from moment
 group by 1, 2, 3
 order by 1, 2, 3;

-- name: count_moments_by_hour
-- The same, by the hour in which they were due.
{moments}
select due_at / 3600000000, outcome, cause, case fate when 'late' then 'succeeded' else fate end,
       sum(moments), sum(case when fate = 'late' then 1 else 0 end)
  from moment
 group by 1, 2, 3, 4
 order by 1, 2, 3, 4;

-- name: late_moments
-- Moments that were kept, and late: the last of them. A moment is late by when its job was begun.
select {fire}
  from duly_fire
 where decided_at >= :since and decided_at < :until and series = 0 and outcome = 'queued'
   and exists (select 1
                 from duly_history as ended
                where ended.id = job_id and ended.state = 'succeeded'
                  and ended.claimed_at - ended.due_at > :late and ended.ended_at >= :since)
 order by due_at desc
 limit :limit;

-- name: moments_not_kept
-- Of each schedule, and of each way in which its moments were not kept, the last one, and how many.
-- A moment counts by when it was decided, and a job by when it ended: an outage of three days is
-- told on the day after, and so is what was tried for three days. A moment that was backfilled is its
-- new job's matter, and what was acknowledged is nobody's.
select name, due_at, cause, reason, job_id, state, error, moments, first, last
  from (select duly_schedule.name, bad.due_at, bad.cause, bad.reason, bad.job_id, bad.state, bad.error,
               sum(coalesce(bad.count, 1)) over alike as moments,
               min(bad.covers_from) over alike as first,
               max(bad.happened) over alike as last,
               row_number() over (partition by bad.schedule_id, bad.cause, bad.state
                                      order by bad.due_at desc, bad.id desc) as place
          from (select schedule_id, due_at, id, cause, reason, null as job_id, '' as state,
                       null as error, count, covers_from,
                       decided_at as happened
                  from duly_fire
                 where decided_at >= :since and outcome = 'skipped'
                   and cause in ('overlap', 'late', 'exhausted', 'refused')
                   and (count is not 1
                        or not exists (select 1
                                         from duly_fire as asked
                                        where asked.schedule_id = duly_fire.schedule_id
                                          and asked.due_at = duly_fire.due_at
                                          and asked.series <> 0 and asked.cause = 'asked'))
                 union all
                select fire.schedule_id, fire.due_at, fire.id, null, gone.reason, gone.id, gone.state,
                       null, fire.count, fire.covers_from, gone.ended_at
                  from duly_fire as fire
                  join duly_history as gone on gone.id = fire.job_id
                 where fire.decided_at >= :since and fire.outcome = 'queued'
                   and gone.ended_at >= :since and gone.state = 'expired'
                 union all
                select schedule_id, due_at, id, null, reason, id, state, error, 1, due_at, ended_at
                  from duly_failed
                 where ended_at >= :since and schedule_id is not null) as bad
          join duly_schedule on duly_schedule.id = bad.schedule_id
          left join duly_acknowledgement as known
            on known.subject = 'schedule:' || duly_schedule.name
           and known.kind = coalesce(bad.cause, bad.state)
         where known.until is null or bad.happened > known.until
        window alike as (partition by bad.schedule_id, bad.cause, bad.state)) as told
 where place = 1
 order by due_at desc, name
 limit :limit;

-- name: failed_tasks
-- Jobs that failed and that no schedule has made, by their task: the last one, and how many. A step
-- that failed is its flow's matter.
select task, id, ended_at, reason, error, jobs
  from (select task, id, ended_at, reason, error, count(*) over (partition by task) as jobs,
               row_number() over (partition by task order by ended_at desc, id desc) as place
          from duly_failed
          left join duly_acknowledgement as known
            on known.subject = 'task:' || task and known.kind = 'failed'
         where ended_at >= :since and schedule_id is null and step is null
           and (known.until is null or ended_at > known.until)) as one
 where place = 1
 order by ended_at desc, task
 limit :limit;

-- name: waiting_kinds
-- Jobs that wait for a worker, by what a worker must have for them. Only those that have waited.
select queue, task, waits, needs, count(*), min(ready_at), min(id), max(reason), max(ready_at)
  from duly_job
  left join duly_acknowledgement as known
    on known.subject = 'task:' || task
   and known.kind = case when waits = 'signature' then 'signature' else 'no worker' end
 where (state = 'ready' or waits in ('worker', 'signature')) and ready_at <= :now - :patience
   and (known.until is null or ready_at > known.until)
 group by queue, task, waits, needs
 order by 6, 1, 2
 limit :limit;

-- name: running_jobs
-- Of the flows that are open, those that have been longest are enough.
select {job}, waits, waits_for, null, null, null
  from duly_job
 where id in (select id from duly_job where worker is not null
               union all
              select id
                from (select id
                        from duly_job
                       where waits = 'steps'
                       order by claimed_at, id
                       limit :limit) as opened)
   and state = 'running'
 order by claimed_at, id
 limit :limit;

-- name: awaiting_jobs
-- Found by what they wait for, and sorted: people answer them, so there are not many.
select {job}, waits, waits_for, null, null, null
  from duly_job
 where waits = 'event' and state = 'blocked'
 order by deadline nulls last, id
 limit :limit;

-- name: schedules_due_before
-- Those that are due before an instant, or should have been.
select {schedule}
  from duly_schedule
 where next_at < :before and pause is null and fault is null
 order by next_at, name
 limit :limit;
