-- Statements that a page repeats while it is open: each is bounded and uses an index.

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
                 where decided_at >= :since and decided_at < :until and decided_at <= {now}
                 order by decided_at desc
                 limit :limit) as decided
         union all
        select *
          from (select claimed_at, 'began', {happening_job}
                  from duly.job as job
                  left join duly.schedule as schedule on schedule.id = job.schedule_id
                 where worker is not null
                   and claimed_at >= :since and claimed_at < :until and claimed_at <= {now}
                 order by claimed_at desc
                 limit :limit) as began
         union all
        select *
          from (select claimed_at, 'began', {happening_job}
                  from duly.job as job
                  left join duly.schedule as schedule on schedule.id = job.schedule_id
                 where waits in ('steps', 'outcome')
                   and claimed_at >= :since and claimed_at < :until and claimed_at <= {now}
                 order by claimed_at desc
                 limit :limit) as opened
         union all
        select *
          from (select ended_at, 'ended', {happening_job}
                  from duly.history as job
                  left join duly.schedule as schedule on schedule.id = job.schedule_id
                 where ended_at >= :since and ended_at < :until and ended_at <= {now}
                 order by ended_at desc
                 limit :limit) as ended
         union all
        select *
          from (select ended_at, 'ended', {happening_job}
                  from duly.failed as job
                  left join duly.schedule as schedule on schedule.id = job.schedule_id
                 where ended_at >= :since and ended_at < :until and ended_at <= {now}
                 order by ended_at desc
                 limit :limit) as dead) as happening
 order by at desc, number desc
 limit :limit;

-- name: count_happened
select sum(happenings)::bigint
  from (select count(*) as happenings from duly.fire
         where decided_at >= :since and decided_at < :until and decided_at <= {now}
         union all
        select count(*) from duly.job
         where worker is not null
           and claimed_at >= :since and claimed_at < :until and claimed_at <= {now}
         union all
        select count(*) from duly.job
         where waits in ('steps', 'outcome')
           and claimed_at >= :since and claimed_at < :until and claimed_at <= {now}
         union all
        select count(*) from duly.history
         where ended_at >= :since and ended_at < :until and ended_at <= {now}
         union all
        select count(*) from duly.failed
         where ended_at >= :since and ended_at < :until and ended_at <= {now}) as kind;

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
