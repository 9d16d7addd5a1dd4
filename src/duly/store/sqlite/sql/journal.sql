-- name: hold_speakers
-- Those of the jobs that are still run under the fence.
select duly_job.id, duly_job.fence
  from duly_job
  join (select value ->> 'id' as id, value ->> 'fence' as fence from json_each(:rows)) as mine
    on duly_job.id = mine.id and duly_job.fence = mine.fence
 where duly_job.state = 'running'
 order by duly_job.id;

-- name: log_lengths
select job_id, max(seq), sum(length(cast(text as blob)))
  from duly_log
 where job_id in (select value from json_each(:ids))
 group by job_id;

-- name: keep_lines
insert into duly_log (job_id, seq, attempt, at, level, text)
select value ->> 'job_id', value ->> 'seq', value ->> 'attempt', value ->> 'at', value ->> 'level',
       value ->> 'text'
  from json_each(:rows)
 where true
    on conflict (job_id, seq) do nothing;

-- name: keep_notes
insert into duly_note (job_id, attempt, at, percent, message, meta)
select value ->> 'job_id', value ->> 'attempt', :now, value ->> 'percent', value ->> 'message',
       value ->> 'meta'
  from json_each(:rows)
 where true
    on conflict (job_id) do update
   set attempt = excluded.attempt, at = excluded.at, percent = excluded.percent,
       message = excluded.message, meta = excluded.meta;

-- name: list_lines
select seq, at, level, text, attempt
  from duly_log
 where job_id = :job_id and seq > :after
 order by seq
 limit :limit;

-- name: find_note
select percent, message, meta, at, attempt
  from duly_note
 where job_id = :job_id;

-- name: prune_log
delete from duly_log
 where (job_id, seq) in (select job_id, seq
                           from duly_log
                          where at < :before
                          order by at
                          limit :limit)
returning job_id;

-- name: prune_notes
delete from duly_note
 where job_id in (select job_id from duly_note where at < :before order by at limit :limit)
returning job_id;
