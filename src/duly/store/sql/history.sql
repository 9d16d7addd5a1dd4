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
