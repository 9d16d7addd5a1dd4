-- name: missing_days
-- Rows are kept in one table here, not by the day.
select null, null where false;

-- name: make_day
select null;

-- name: prune_history
delete from duly_history
 where id in (select id from duly_history where ended_at < :before order by ended_at limit :limit)
returning id;

-- name: prune_failed
delete from duly_failed
 where id in (select id from duly_failed where ended_at < :before order by ended_at limit :limit)
returning id;

-- name: prune_fires
-- By when they were decided: a moment of last year that was decided today stays for its time.
delete from duly_fire
 where (schedule_id, due_at, series) in (select schedule_id, due_at, series
                                           from duly_fire
                                          where decided_at < :before and due_at < :before
                                          order by decided_at
                                          limit :limit)
returning id;

-- name: prune_attempts
delete from duly_attempt
 where (job_id, number, fence) in (select job_id, number, fence
                                     from duly_attempt
                                    where ended_at < :before
                                    order by ended_at
                                    limit :limit)
returning job_id;

-- name: prune_changes
delete from duly_change
 where rowid in (select rowid from duly_change where at < :before limit :limit)
returning schedule_id;

-- name: remove_history
delete from duly_history
 where id in (select value from json_each(:ids))
returning id;

-- name: remove_failed
delete from duly_failed
 where id in (select value from json_each(:ids))
returning id;

-- name: remove_attempts
delete from duly_attempt
 where job_id in (select value from json_each(:ids));

-- name: remove_log
delete from duly_log
 where job_id in (select value from json_each(:ids));

-- name: remove_notes
delete from duly_note
 where job_id in (select value from json_each(:ids));
