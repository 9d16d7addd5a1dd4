-- What is asked only when somebody wants to know whether the store stands on firm ground.

-- name: newest_writing
-- Only columns that no plan and no person chooses: none of them may lie in the future.
select greatest((select max(decided_at) from duly.fire), (select max(beat_at) from duly.worker));

-- name: database_settings
-- Asked before there are tables, too.
select name, setting
  from pg_settings
 where name in ('server_version', 'server_version_num', 'fsync', 'full_page_writes',
                'synchronous_commit', 'max_connections', 'superuser_reserved_connections',
                'reserved_connections', 'default_transaction_read_only')
 union all
select 'in_recovery', pg_is_in_recovery()::text
 union all
select 'connections', sum(numbackends)::text  -- for everybody to see, as others' sessions are not
  from pg_stat_database
 union all
select 'role', current_user::text
 union all
select 'tables_not_writable', string_agg(relname, ', ' order by relname)
  from pg_class
 where relnamespace = to_regnamespace('duly') and relkind in ('r', 'p') and not relispartition
   and relname <> 'migration'
   and not (has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
            and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'));

-- name: bad_days
-- A day may be there by its name and be no part of its table: then nobody makes another one.
/*[partitions]
select parent, instant, case when child is null then 'missing' else 'detached' end
  from (select {now} as now offset 0) as clock,
       unnest(array['fire', 'history']) as parent,
       generate_series(0, :days::int) as ahead,
       lateral (select (clock.now / 86400000000 + ahead) * 86400000000 as instant) as day,
       lateral (select to_regclass('duly.' || duly.day_name(parent, instant)) as child) as known
 where not exists (select
                     from pg_inherits
                    where inhrelid = child and inhparent = ('duly.' || parent)::regclass
                      and not inhdetachpending)
 order by instant, parent
[partitions]*/
/*[!partitions]
select null::text, null::bigint, null::text where :days::int < 0
[!partitions]*/

-- name: zone_data_in_use
select zone_data, count(*)
  from duly.schedule
 group by zone_data
 order by zone_data;

-- name: wanted_tasks
select task, queue, needs, sum(jobs)::bigint, sum(schedules)::bigint
  from (select task, queue, needs, count(*) as jobs, 0 as schedules
          from duly.job
         where state in ('scheduled', 'ready') or waits = 'worker'
         group by task, queue, needs
         union all
        select task, queue, needs, 0, count(*)
          from duly.schedule
         where pause is null and fault is null and (next_at is not null or awaiting is not null or left(rule, 3) = 'on ')
         group by task, queue, needs) as caller
 group by task, queue, needs
 order by 4 desc, 5 desc, task, queue
 limit :limit;

-- name: orphaned_jobs
-- Of workers without a lease, and of those that somebody knows to be dead.
select job.worker, coalesce(worker.name, ''), worker.lease_until, count(*)
  from duly.job
  left join duly.worker on worker.id = job.worker
 where job.worker is not null
   and (coalesce(worker.lease_until, 0) <= {now} or job.worker = any(:dead::bigint[]))
 group by job.worker, worker.name, worker.lease_until
 order by 4 desc, 1
 limit :limit;
