-- name: ready_due_jobs
update duly.job
   set state = 'ready'
 where id {in (
           select id
             from duly.job
            where state = 'scheduled' and ready_at <= {now}
            order by ready_at
            limit :limit
              {skipping})}
   and state || '' = 'scheduled'
   and ready_at <= {now}
returning queue;

-- name: dispatcher_facts
-- Microseconds until the next job is due, until the next deadline and until the next rate limit opens;
-- whether a waiting job or one without a worker has a signal that nobody has handled; whether jobs wait
-- for a worker that fits. And for the other services, which need not poll then: microseconds until the
-- next schedule is due, whether events wait, and whether a lease has expired or was ended within the last
-- minute: one that was ended is 0.
select (select ready_at from duly.job where state = 'scheduled' order by ready_at limit 1) - {now},
       (select deadline
          from duly.job
         where deadline is not null and (state <> 'running' or waits in ('steps', 'outcome'))
         order by deadline
         limit 1) - {now},
       (select opens_at from duly.named_limit where opens_at is not null order by opens_at limit 1) - {now},
       (select count(*)
          from (select 1
                  from duly.signal
                 where {told_while_waiting}
                 limit 1) as told),
       exists (select 1 from duly.job {indexed by job_unfit} where {unfit}),
       (select next_at from duly.schedule where next_at is not null order by next_at limit 1) - {now},
       exists (select 1 from duly.unanswered) or exists (select 1 from duly.event where not seen),
       (select count(*)
          from (select id
                  from duly.worker
                 where lease_until <= {now} and {greatest}(lease_until, beat_at) > {now} - 60000000
                 order by id
                 limit 1) as expired);

-- name: overdue_jobs
-- Jobs that have not started by their deadline, and flows and handed-off jobs that have not ended by
-- theirs.
select id, late, waits
  from duly.job
 where deadline < {now} and (state <> 'running' or waits in ('steps', 'outcome'))
 order by deadline
 limit :limit;

-- name: hurry_jobs
-- Raise the priority of late jobs, once. A job keeps the advantage of its age.
update duly.job
   set priority = {greatest}(priority, :priority::smallint), deadline = null,
       shelf = case when shelf in (1, 2) then 0 else shelf end,
       rank = rank - ({greatest}(priority, :priority::smallint) - priority) * 1000000::bigint
 where id {in (
           select id
             from duly.job
            where id {in :ids::bigint[]} and state <> 'running' and coalesce(deadline, {now}) < {now}
            order by id
              {for no key update /*[skip_locked] skip locked [skip_locked]*/})}
   and state <> 'running'
   and coalesce(deadline, {now}) < {now}
returning queue;

-- name: stranded_blocked
-- A safety net: schedules whose blocked jobs wait although no other job of the schedule is left. One
-- index step for each schedule that has blocked jobs, and one to see whether it has others.
with recursive waiting (schedule_id) as (
    select (select schedule_id
              from duly.job {indexed by job_blocked}
             where state = 'blocked' and waits is null and schedule_id is not null
             order by schedule_id
             limit 1)
     union all
    select (select job.schedule_id
              from duly.job {indexed by job_blocked}
             where state = 'blocked' and waits is null and schedule_id is not null
               and job.schedule_id > waiting.schedule_id
             order by job.schedule_id
             limit 1)
      from waiting
     where waiting.schedule_id is not null)
select schedule_id
  from waiting
 where schedule_id is not null
   and (select job.id
          from duly.job {indexed by job_unblocked}
         where job.schedule_id + 0 = waiting.schedule_id and job.schedule_id is not null
           and (state <> 'blocked' or waits is not null)
         limit 1) is null
 limit :limit;

-- name: progress
-- The oldest due schedule and job, and the numbers of ready and running jobs (up to 10,001).
select clock.now,
       (select next_at from duly.schedule where next_at <= clock.now order by next_at limit 1),
       (select ready_at
          from duly.job
         where state = 'scheduled' and ready_at <= clock.now
         order by ready_at
         limit 1),
       (select count(*)
          from (select 1
                  from duly.job
                 where state = 'ready'
                 order by queue, shelf, rank, id
                 limit 10001) as ready),
       (select count(*)
          from (select 1 from duly.job where worker is not null
                 union all
                select 1 from duly.job where waits in ('steps', 'outcome')
                 limit 10001) as running)
  from {clock};

-- name: schedules_ahead
-- Schedules whose cursor is in the future: a clock that was ahead moved it there.
select name
  from (select name
          from duly.schedule {indexed by schedule_cursor}
         where next_at is not null and cursor > {now} + :ahead::bigint
         order by cursor desc
         limit :limit) as ahead
 order by name;

-- name: faulty_schedules
select name
  from duly.schedule
 where fault is not null
 order by name
 limit :limit;

-- name: missing_days
-- Day partitions that have to be created. They are created ahead, so that no insert has to wait.
/*[partitions]
select parent, instant
  from {clock},
       unnest(array['fire', 'history']) as parent,
       generate_series(0, :days::int) as ahead,
       lateral (select clock.now + ahead * 86400000000 as instant) as day
 where to_regclass('duly.' || duly.day_name(parent, instant)) is null
 order by instant, parent
[partitions]*/
/*[!partitions]
select null::text, null::bigint where false
[!partitions]*/

-- name: make_day
/*[partitions] select duly.make_place(:parent::text, :instant::bigint, {now}) [partitions]*/
/*[!partitions] select null [!partitions]*/

-- name: prune_history
/*[partitions]
select gone from duly.drop_days('history', 'ended_at', :before::bigint, {least}(1, :limit::int)) as gone
[partitions]*/
/*[!partitions]
delete from duly.history
 where id {in (select id from duly.history where ended_at < :before order by ended_at limit :limit)}
returning id
[!partitions]*/

-- name: trim_history
-- Where it is kept for less than a day: its partition is dropped only when the day is over.
/*[partitions]
delete from duly.history as old
 using (select id, ended_at from duly.history where ended_at < :before order by ended_at limit :limit) as page
 where old.id = page.id and old.ended_at = page.ended_at
returning old.id
[partitions]*/
/*[!partitions] select null::bigint where false [!partitions]*/

-- name: prune_failed
delete from duly.failed
 where id {in (select id
                 from duly.failed
                where result_until is null and ended_at < :before
                order by ended_at
                limit :limit)}
returning id;

-- name: prune_failed_of_tasks
-- Failed jobs whose task says how long they are kept.
delete from duly.failed
 where id {in (select id from duly.failed where result_until < :before order by result_until limit :limit)}
returning id;

-- name: prune_fires
-- By the time of decision: a backfilled fire of last year was decided today and is kept.
/*[partitions]
select gone from duly.drop_days('fire', 'decided_at', :before::bigint, {least}(1, :limit::int)) as gone
[partitions]*/
/*[!partitions]
delete from duly.fire
 where (schedule_id, due_at, series) in (select schedule_id, due_at, series
                                           from duly.fire
                                          where decided_at < :before and due_at < :before
                                          order by decided_at
                                          limit :limit)
returning id
[!partitions]*/

-- name: trim_fires
/*[partitions]
delete from duly.fire as old
 using (select schedule_id, due_at, series
          from duly.fire
         where decided_at < :before and due_at < :before
         order by decided_at
         limit :limit) as page
 where (old.schedule_id, old.due_at, old.series) = (page.schedule_id, page.due_at, page.series)
returning old.id
[partitions]*/
/*[!partitions] select null::bigint where false [!partitions]*/

-- name: prune_attempts
delete from duly.attempt
 where (job_id, number, fence) in (select job_id, number, fence
                                     from duly.attempt
                                    where ended_at < :before
                                    order by ended_at
                                    limit :limit)
returning job_id;

-- name: prune_changes
delete from duly.change
 where {rowid} in (select {rowid} from duly.change where at < :before limit :limit)
returning schedule_id;

-- name: remove_history
delete from duly.history
 where id {in :ids::bigint[]}
returning id;

-- name: remove_failed
-- A job that is retried at the same time has left the table when its lock is released.
delete from duly.failed
 where id {in :ids::bigint[]}
returning id;

-- name: remove_attempts
delete from duly.attempt
 where job_id {in :ids::bigint[]};

-- name: remove_log
delete from duly.log
 where job_id {in :ids::bigint[]};

-- name: remove_notes
delete from duly.note
 where job_id {in :ids::bigint[]};
