-- Statements that add ended jobs and fires to the counters. Each reads one stretch of an index on time.

-- name: counter_position
-- The counters, up to which instant they count, and the instant before which every row is committed.
select until, counts, {now} - {greatest}(:lag::bigint, {slowest_writer})
  from duly.counter;

-- part: slowest_writer for postgres
-- How long the oldest transaction has been writing, a minute at most. Only the role's own are visible.
(select {least}(duly.now_us() - (extract(epoch from min(xact_start)) * 1000000)::bigint,
                  60000000 * count(*))::bigint
            from pg_stat_activity
           where backend_xid is not null and datname = current_database())

-- part: slowest_writer for sqlite
0

-- name: begin_counters
insert into duly.counter (place, until, counts)
values (0, :until, :counts)
    on conflict (place) do nothing;

-- name: set_counters
-- Only the first of two nodes that have counted the same stretch.
update duly.counter
   set until = :until, counts = :counts
 where until = :since
returning place;

-- name: count_ended
select task, queue, state, {length_places}, count(*), sum({greatest}(wait, 0))::bigint,
       sum({greatest}(run, 0))::bigint, sum({greatest}(lateness, 0))::bigint
  from (select task, queue, state, waited as wait, ran as run, late as lateness, {length_digits}
          from {ended_lengths}) as shown
 group by 1, 2, 3, 4, 5, 6;

-- name: count_retried
-- Attempts after which the job went on: it has not ended, or it ended in a later attempt, or waiting.
select task, queue, 3 * length(ran) - case when ran < '2' then 11 when ran < '5' then 10 else 9 end,
       count(*), sum({greatest}(run, 0))::bigint
  from (select coalesce(job.task, history.task, failed.task) as task,
               coalesce(job.queue, history.queue, failed.queue) as queue,
               tried.ended_at - tried.started_at as run,
               case when tried.ended_at - tried.started_at < 1000 then '0'
                    else cast(tried.ended_at - tried.started_at as text) end {bytewise} as ran
          from duly.attempt as tried
          left join duly.job as job on job.id = tried.job_id
          left join duly.history as history on history.id = tried.job_id and history.ended_at >= :since
          left join duly.failed as failed on failed.id = tried.job_id
         where tried.ended_at >= :since and tried.ended_at < :until
           and (job.id is not null or coalesce(history.fence, failed.fence) <> tried.fence
                or coalesce(history.worker, failed.worker) is null)) as retried
 where task is not null
 group by 1, 2, 3;

-- name: count_fires
select outcome, coalesce(cause, ''), sum(coalesce(count, 1))::bigint
  from duly.fire
 where decided_at >= :since and decided_at < :until
 group by 1, 2;
