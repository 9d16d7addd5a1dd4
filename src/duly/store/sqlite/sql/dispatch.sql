-- name: ready_due_jobs
update duly_job
   set state = 'ready'
 where id in (select id
                from duly_job
               where state = 'scheduled' and ready_at <= :now
               order by ready_at
               limit :limit)
   and state = 'scheduled'
returning queue;

-- name: look
-- How long until somebody who waits needs something: jobs that are due or late, limits whose rate
-- lets the next one in; and whether some that wait again, or flows, were asked to end while they ran.
select (select min(ready_at) from duly_job where state = 'scheduled') - :now,
       (select min(deadline)
          from duly_job
         where deadline is not null and (state <> 'running' or waits = 'steps')) - :now,
       (select min(opens_at) from duly_lane where opens_at is not null) - :now,
       (select count(*)
          from (select 1
                  from duly_signal
                 cross join duly_job on duly_job.id = duly_signal.job_id
                 where duly_job.state in ('scheduled', 'blocked', 'ready') or duly_job.waits = 'steps'
                 limit 1) as told);

-- name: overdue_jobs
-- Jobs that have not begun by their deadline, and flows that have not ended by theirs.
select id, late, waits
  from duly_job
 where deadline < :now and (state <> 'running' or waits = 'steps')
 order by deadline
 limit :limit;

-- name: hurry_jobs
-- What is late goes first from now on, once. It keeps the age by which it has risen already.
update duly_job
   set priority = max(priority, :priority), deadline = null,
       shelf = case when shelf in (1, 2) then 0 else shelf end,
       rank = rank - (max(priority, :priority) - priority) * 1000000
 where id in (select value from json_each(:ids)) and state <> 'running' and deadline < :now
returning queue;

-- name: stranded_blocked
-- A net: schedules with a job that waits behind nothing. Schedules first: thousands may wait in one.
select schedule_id
  from (select distinct schedule_id
          from duly_job
         where state = 'blocked' and waits is null and schedule_id is not null) as waiting
 where not exists (select 1
                     from duly_job as other
                    where other.schedule_id = waiting.schedule_id
                      and (other.state <> 'blocked' or other.waits is not null))
 order by schedule_id
 limit :limit;

-- name: progress
-- What is due and not done: the age of the oldest, and how many there are, up to 10,001.
select :now,
       (select min(next_at) from duly_schedule where next_at <= :now),
       (select min(ready_at) from duly_job where state = 'scheduled' and ready_at <= :now),
       (select count(*) from (select 1 from duly_job where state = 'ready' limit 10001) as ready),
       (select count(*)
          from (select 1 from duly_job where worker is not null
                 union all
                select 1 from duly_job where waits = 'steps'
                 limit 10001) as running);

-- name: schedules_ahead
-- A cursor never passes now. One that is ahead was moved there by a clock that was set back since.
select name
  from duly_schedule
 where next_at is not null and cursor > :now + :ahead
 order by name
 limit :limit;

-- name: faulty_schedules
select name
  from duly_schedule
 where fault is not null
 order by name
 limit :limit;
