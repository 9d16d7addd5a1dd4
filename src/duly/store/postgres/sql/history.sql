-- name: missing_days
-- Days are made ahead, so that nobody has to make one in the middle of something else.
/*[partitions]
select parent, instant
  from (select {now} as now offset 0) as clock,
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
select duly.make_place(:parent::text, :instant::bigint, {now});

-- name: prune_history
/*[partitions]
select gone from duly.drop_days('history', 'ended_at', :before::bigint, least(1, :limit::int)) as gone
[partitions]*/
/*[!partitions]
delete from duly.history
 where id = any(array(select id from duly.history where ended_at < :before order by ended_at limit :limit))
returning id
[!partitions]*/

-- name: prune_failed
delete from duly.failed
 where id = any(array(select id from duly.failed where ended_at < :before order by ended_at limit :limit))
returning id;

-- name: prune_fires
-- By when they were decided: a moment of last year that was decided today stays for its time.
/*[partitions]
select gone from duly.drop_days('fire', 'decided_at', :before::bigint, least(1, :limit::int)) as gone
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
 where ctid in (select ctid from duly.change where at < :before limit :limit)
returning schedule_id;

-- name: remove_history
delete from duly.history
 where id = any(:ids::bigint[])
returning id;

-- name: remove_failed
-- What is given another chance meanwhile is not here any more when its lock is free, and stays.
delete from duly.failed
 where id = any(:ids::bigint[])
returning id;

-- name: remove_attempts
delete from duly.attempt
 where job_id = any(:ids::bigint[]);

-- name: remove_log
delete from duly.log
 where job_id = any(:ids::bigint[]);

-- name: remove_notes
delete from duly.note
 where job_id = any(:ids::bigint[]);
