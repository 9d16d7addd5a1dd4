-- name: ready_due_jobs
update duly.job
   set state = 'ready'
 where id = any(array(
           select id
             from duly.job
            where state = 'scheduled' and ready_at <= {now}
            order by ready_at
            limit :limit
/*[skip_locked]
              for no key update skip locked
[skip_locked]*/
       ))
   and state || '' = 'scheduled'
   and ready_at <= {now}
returning queue;

-- name: look
-- How long until somebody who waits needs something: jobs that are due or late, limits whose rate
-- lets the next one in; and whether some that wait again, or flows, were asked to end while they ran.
select (select ready_at from duly.job where state = 'scheduled' order by ready_at limit 1) - {now},
       (select deadline
          from duly.job
         where deadline is not null and (state <> 'running' or waits = 'steps')
         order by deadline
         limit 1) - {now},
       (select opens_at from duly.lane where opens_at is not null order by opens_at limit 1) - {now},
       (select count(*)
          from (select
                  from duly.signal
                 cross join lateral (select
                                       from duly.job
                                      where id = signal.job_id
                                        and (state in ('scheduled', 'blocked', 'ready')
                                             or waits = 'steps')
                                     offset 0) as job
                 limit 1) as told);

-- name: overdue_jobs
-- Jobs that have not begun by their deadline, and flows that have not ended by theirs.
select id, late, waits
  from duly.job
 where deadline < {now} and (state <> 'running' or waits = 'steps')
 order by deadline
 limit :limit;

-- name: hurry_jobs
-- What is late goes first from now on, once. It keeps the age by which it has risen already.
update duly.job
   set priority = greatest(priority, :priority::smallint), deadline = null,
       shelf = case when shelf in (1, 2) then 0 else shelf end,
       rank = rank - (greatest(priority, :priority::smallint) - priority) * 1000000::bigint
 where id = any(array(
           select id
             from duly.job
            where id = any(:ids::bigint[]) and state <> 'running' and coalesce(deadline, {now}) < {now}
            order by id
              for no key update /*[skip_locked] skip locked [skip_locked]*/))
   and state <> 'running'
   and coalesce(deadline, {now}) < {now}
returning queue;

-- name: stranded_blocked
-- A net: schedules with a job that waits behind nothing. Schedules first: thousands may wait in one.
select schedule_id
  from (select distinct schedule_id
          from duly.job
         where state = 'blocked' and waits is null and schedule_id is not null offset 0) as waiting
 where not exists (select
                     from duly.job as other
                    where other.schedule_id = waiting.schedule_id
                      and (other.state <> 'blocked' or other.waits is not null))
 order by schedule_id
 limit :limit;

-- name: progress
-- What is due and not done: the age of the oldest, and how many there are, up to 10,001.
select clock.now,
       (select next_at from duly.schedule where next_at <= clock.now order by next_at limit 1),
       (select ready_at
          from duly.job
         where state = 'scheduled' and ready_at <= clock.now
         order by ready_at
         limit 1),
       (select count(*) from (select from duly.job where state = 'ready' limit 10001) as ready),
       (select count(*)
          from (select 1 from duly.job where worker is not null
                 union all
                select 1 from duly.job where waits = 'steps'
                 limit 10001) as running)
  from (select {now} as now offset 0) as clock;

-- name: schedules_ahead
-- A cursor never passes now. One that is ahead was moved there by a clock that was set back since.
select name
  from duly.schedule
 where next_at is not null and cursor > {now} + :ahead::bigint
 order by name
 limit :limit;

-- name: faulty_schedules
select name
  from duly.schedule
 where fault is not null
 order by name
 limit :limit;
