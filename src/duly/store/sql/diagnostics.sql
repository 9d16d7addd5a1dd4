-- name: newest_writing
-- The latest time that the database's clock wrote. It must not be in the future.
select max(at)
  from (select max(decided_at) as at from duly.fire
         union all
        select max(beat_at) from duly.worker) as written;

-- name: database_settings for sqlite
select 'sqlite_version', sqlite_version()
 union all
select 'journal_mode', journal_mode from pragma_journal_mode;

-- name: database_settings for postgres
-- Must also work before the tables exist.
select name, setting
  from pg_settings
 where name in ('server_version', 'server_version_num', 'fsync', 'full_page_writes',
                'synchronous_commit', 'max_connections', 'superuser_reserved_connections',
                'reserved_connections', 'default_transaction_read_only')
 union all
select 'in_recovery', pg_is_in_recovery()::text
 union all
select 'connections', sum(numbackends)::text
  from pg_stat_database
 union all
select 'role', current_user::text
 union all
-- The oldest transaction that keeps vacuum from removing rows.
select about, value
  from (select other.pid, extract(epoch from own.xact_start - other.xact_start)::bigint as seconds
          from pg_stat_activity as own, pg_stat_activity as other
         where own.pid = pg_backend_pid() and other.pid <> own.pid
           and coalesce(other.backend_xmin, other.backend_xid) is not null
           and other.backend_type <> 'autovacuum worker'
           and coalesce(other.datname, own.datname) = own.datname
         order by other.xact_start
         limit 1) as oldest,
       lateral (values ('oldest_transaction', seconds::text), ('oldest_transaction_pid', pid::text))
           as told (about, value)
 union all
select 'tables_not_writable', string_agg(relname, ', ' order by relname)
  from pg_class
 where relnamespace = to_regnamespace('duly') and relkind in ('r', 'p') and not relispartition
   and relname <> 'migration'
   and not (has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
            and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'));

-- name: bad_days
-- Day partitions that are missing, or exist but are not attached to their table.
/*[partitions]
select parent, instant, case when child is null then 'missing' else 'detached' end
  from {clock},
       unnest(array['fire', 'history']) as parent,
       generate_series(0, :days::int) as ahead,
       lateral (select (clock.now / 86400000000 + ahead) * 86400000000 as instant) as day,
       lateral (select to_regclass('duly.' || duly.day_name(parent, instant)) as child) as known
 where not exists (select 1
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
         where pause is null and fault is null 
           and (next_at is not null or awaiting is not null or substr(rule, 1, 3) = 'on ')
         group by task, queue, needs) as caller
 group by task, queue, needs
 order by 4 desc, 5 desc, task, queue
 limit :limit;

-- name: orphaned_jobs
-- Running jobs of workers whose lease has expired or that are known to be dead.
select job.worker, coalesce(worker.name, ''), worker.lease_until, count(*)
  from duly.job
  left join duly.worker on worker.id = job.worker
 where job.worker is not null
   and (coalesce(worker.lease_until, 0) <= {now} or job.worker {in :dead::bigint[]})
 group by job.worker, worker.name, worker.lease_until
 order by 4 desc, 1
 limit :limit;

-- name: dead_rows for postgres
-- Rows that wait for vacuum, in the tables whose rows change most.
select relname, n_dead_tup
  from pg_stat_user_tables
 where schemaname = 'duly' and relname in ('holding', 'job', 'job_key', 'named_limit', 'schedule', 'worker')
 order by relname;

-- name: dead_rows for sqlite
select null, null where false;
