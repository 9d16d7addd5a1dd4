-- What is asked only when somebody wants to know whether the store stands on firm ground.

-- name: newest_writing
-- Only columns that no plan and no person chooses: none of them may lie in the future.
select max(at)
  from (select max(decided_at) as at from duly_fire
         union all
        select max(beat_at) from duly_worker);

-- name: database_settings
-- Asked before there are tables, too.
select 'sqlite_version', sqlite_version()
 union all
select 'journal_mode', journal_mode from pragma_journal_mode;

-- name: bad_days
-- Rows are kept in one table here, not by the day.
select null, null, null where :days < 0;

-- name: zone_data_in_use
select zone_data, count(*)
  from duly_schedule
 group by zone_data
 order by zone_data;

-- name: wanted_tasks
select task, queue, needs, sum(jobs), sum(schedules)
  from (select task, queue, needs, count(*) as jobs, 0 as schedules
          from duly_job
         where state in ('scheduled', 'ready') or waits = 'worker'
         group by task, queue, needs
         union all
        select task, queue, needs, 0, count(*)
          from duly_schedule
         where pause is null and fault is null and (next_at is not null or awaiting is not null or substr(rule, 1, 3) = 'on ')
         group by task, queue, needs) as caller
 group by task, queue, needs
 order by 4 desc, 5 desc, task, queue
 limit :limit;

-- name: orphaned_jobs
-- Of workers without a lease, and of those that somebody knows to be dead.
select duly_job.worker, coalesce(duly_worker.name, ''), duly_worker.lease_until, count(*)
  from duly_job
  left join duly_worker on duly_worker.id = duly_job.worker
 where duly_job.worker is not null
   and (coalesce(duly_worker.lease_until, 0) <= :now
        or duly_job.worker in (select value from json_each(:dead)))
 group by duly_job.worker, duly_worker.name, duly_worker.lease_until
 order by 4 desc, 1
 limit :limit;
