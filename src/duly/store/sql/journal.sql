-- name: hold_speakers
-- Lock the jobs that still run under the fencing token: they cannot be taken back meanwhile, and two
-- writers of one log do not count lines at the same time.
select job.id, job.fence
  from duly.job
  join {rows :rows as mine (id bigint, fence bigint)}
    on job.id = mine.id and job.fence = mine.fence
 where {hint job.id in :rows ->> 'id'::bigint} and job.state = 'running'
 order by job.id
   {for no key update of job};

-- name: log_lengths
-- In bytes. PostgreSQL's cast to bytea would parse backslashes.
select job_id, max(seq), sum({postgres octet_length(text)} {sqlite length(cast(text as blob))})::bigint
  from duly.log
 where job_id {in :ids::bigint[]}
 group by job_id;

-- name: keep_lines
insert into duly.log (job_id, seq, attempt, at, level, text)
select job_id, seq, attempt, at, level, text
  from {rows :rows as said (
           job_id bigint, seq bigint, attempt int, at bigint, level text, text text)}
 where true
    on conflict (job_id, seq) do nothing;

-- name: keep_notes
insert into duly.note (job_id, attempt, at, percent, message, meta)
select job_id, attempt, {now}, percent, message, meta
  from {rows :rows as said (
           job_id bigint, attempt int, percent double precision, message text, meta text)}
 where true
    on conflict (job_id) do update
   set attempt = excluded.attempt, at = excluded.at, percent = excluded.percent,
       message = excluded.message, meta = excluded.meta;

-- name: list_lines
select seq, at, level, text, attempt
  from duly.log
 where job_id = :job_id and seq > :after
 order by seq
 limit :limit;

-- name: find_note
select percent, message, meta, at, attempt
  from duly.note
 where job_id = :job_id;

-- name: prune_log
delete from duly.log
 where (job_id, seq) in (select job_id, seq
                           from duly.log
                          where at < :before
                          order by at
                          limit :limit)
returning job_id;

-- name: prune_notes
-- The age is checked again, because a running job may have rewritten its note meanwhile.
delete from duly.note
 where job_id {in (select job_id from duly.note where at < :before order by at limit :limit)}
   and at < :before
returning job_id;
