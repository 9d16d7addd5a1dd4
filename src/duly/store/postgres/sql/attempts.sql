-- name: next_fence
-- Rises with every claim and for ever: whoever lost its lease holds an older one.
select nextval('duly.fence');

-- name: claim
-- Only for a worker whose lease is alive, from a queue that is not paused, and only tasks it knows.
-- The array keeps the plan on the index, whatever the statistics say. A job that somebody has had
-- since our fence was drawn is left to the next claim: its fence must not fall.
update duly.job
   set state = 'running', attempt = attempt + 1, worker = :worker, fence = :fence,
       claimed_at = {now}, reason = ''
 where id = any(array(
           select id
             from duly.job
            where state = 'ready' and queue = :queue and task = any(:tasks::text[])
            order by rank, id
            limit :limit
/*[skip_locked]
              for no key update skip locked
[skip_locked]*/
       ))
   and state = 'ready'
   and fence < :fence
/*[!skip_locked]
   and queue = :queue
[!skip_locked]*/
   and exists (select from duly.worker where id = :worker and lease_until > {now})
   and not exists (select from duly.queue where name = :queue and paused)
returning {job}, rank;

-- name: held_jobs
select {job}
  from duly.job
 where worker = :worker and state = 'running'
 order by id;

-- name: hold_jobs
-- Those of the jobs that are still run under the fence: nobody takes them back before this ends.
select job.id, job.attempt, job.worker, job.fence, job.claimed_at, job.schedule_id, job.task, job.key
  from duly.job
  join jsonb_to_recordset(:rows::jsonb) as mine (id bigint, fence bigint)
    on job.id = mine.id and job.fence = mine.fence
 where job.state = 'running'
 order by job.id
   for update of job;

-- name: hold_waiting_jobs
-- Those of the jobs that have not begun.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key
  from duly.job
 where id = any(:ids::bigint[]) and state in ('scheduled', 'blocked', 'ready')
 order by id
   for update;

-- name: hold_overdue_jobs
-- Those of the jobs that have not begun, and are late still: others may have moved them.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key
  from duly.job
 where id = any(:ids::bigint[]) and state in ('scheduled', 'blocked', 'ready') and deadline < {now}
 order by id
   for update /*[skip_locked] skip locked [skip_locked]*/;

-- name: peek_jobs
-- What has to be locked before the jobs are.
select id, state, fence, schedule_id, task, key
  from duly.job
 where id = any(:ids::bigint[])
 order by id;

-- name: keep_history
insert into duly.history (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                          version, key, state, created_at, due_at, ready_at, deadline, late, retry,
                          attempt, crashes, worker, fence, claimed_at, schedule_id, fire_id, reason,
                          ended_at, result, error, request)
select job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       ended.state, created_at, due_at, ready_at, deadline, late, retry, attempt, ended.crashes,
       worker, fence, claimed_at, schedule_id, fire_id, ended.reason, clock.now, ended.result,
       ended.error, request
  from jsonb_to_recordset(:rows::jsonb) as ended (
           id bigint, state text, crashes int, reason text, result text, error text)
  join duly.job on job.id = ended.id
 cross join (select {now} as now) as clock;

-- name: keep_failed
insert into duly.failed (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                          version, key, state, created_at, due_at, ready_at, deadline, late, retry,
                          attempt, crashes, worker, fence, claimed_at, schedule_id, fire_id, reason,
                          ended_at, result, error, request)
select job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       ended.state, created_at, due_at, ready_at, deadline, late, retry, attempt, ended.crashes,
       worker, fence, claimed_at, schedule_id, fire_id, ended.reason, clock.now, ended.result,
       ended.error, request
  from jsonb_to_recordset(:rows::jsonb) as ended (
           id bigint, state text, crashes int, reason text, result text, error text)
  join duly.job on job.id = ended.id
 cross join (select {now} as now) as clock;

-- name: forget_jobs
delete from duly.job
 where id = any(:ids::bigint[]);

-- name: forget_signals
delete from duly.signal
 where job_id = any(:ids::bigint[]);

-- name: return_jobs
-- Back to waiting: for another attempt, or because the worker was lost. What has begun once met its
-- deadline then; what is given back unstarted still has it.
update duly.job
   set state = again.state, ready_at = again.ready_at, attempt = job.attempt - again.uncounted,
       crashes = again.crashes, reason = again.reason, worker = null, claimed_at = null,
       deadline = case when again.uncounted = 1 then job.deadline end,
       rank = greatest(again.ready_at, {now}) - job.priority * 1000000::bigint
  from jsonb_to_recordset(:rows::jsonb) as again (
           id bigint, state text, ready_at bigint, uncounted int, crashes int, reason text)
 where job.id = again.id
   and job.state = 'running'
returning job.id;

-- name: record_attempts
insert into duly.attempt (job_id, number, worker, fence, started_at, ended_at, outcome, reason, error)
select job_id, number, worker, fence, started_at, {now}, outcome, reason, error
  from jsonb_to_recordset(:rows::jsonb) as tried (
           job_id bigint, number int, worker bigint, fence bigint, started_at bigint, outcome text,
           reason text, error text)
    on conflict do nothing;

-- name: free_blocked
-- The oldest job that waits behind a schedule whose other jobs have all ended. Its schedule is held,
-- and this is a statement of its own: it sees what was committed before the lock was given.
update duly.job
   set state = case when ready_at > {now} then 'scheduled' else 'ready' end, reason = '',
       rank = greatest(ready_at, {now}) - priority * 1000000::bigint
 where state = 'blocked'
   and id = any(array(
           select waiting.id
             from unnest(:ids::bigint[]) as freed (id)
            cross join lateral (select job.id
                                  from duly.job
                                 where job.schedule_id = freed.id and job.state = 'blocked'
                                 order by job.due_at, job.id
                                 limit 1) as waiting
            where not exists (select
                                from duly.job
                               where job.schedule_id = freed.id and job.state <> 'blocked')))
returning id;

-- name: whose
-- Where a job is that was to be finished and could not be: mine already, or no longer mine. One that
-- was taken back and ended while it waited has no worker: whoever lost it did not end it.
select id, state, fence from duly.history
 where id = any(:ids::bigint[]) and worker is not null
 union all
select id, state, fence from duly.failed
 where id = any(:ids::bigint[]) and worker is not null
 union all
select id, state, fence from duly.job where id = any(:ids::bigint[]);

-- name: send_signals
-- Only for jobs that run, and none of them ends or is given back before this is over: a signal that
-- is left behind would stop the job when it is retried. The first one stays.
insert into duly.signal (job_id, what, reason, at)
select told.job_id, told.what, told.reason, {now}
  from jsonb_to_recordset(:rows::jsonb) as told (job_id bigint, what text, reason text)
  join duly.job on job.id = told.job_id
 where job.state = 'running'
   for key share of job
    on conflict (job_id) do update set what = signal.what
returning job_id;

-- name: forget_signals_of_moved
-- What was said about a job before it became another promise.
delete from duly.signal
 where job_id = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one));

-- name: told_while_waiting
-- Jobs that were asked to end while they ran, and wait again: for a retry, or because they were lost.
select job.id, signal.reason
  from duly.signal
  join duly.job on job.id = signal.job_id
 where job.state in ('scheduled', 'blocked', 'ready')
 order by job.id
 limit :limit;

-- name: signals_for
select signal.job_id, signal.what, signal.reason
  from duly.signal
  join duly.job on job.id = signal.job_id
 where job.worker = :worker and job.state = 'running'
 order by signal.job_id;

-- name: revive_jobs
-- A failed job that is given another chance, under its own number.
insert into duly.job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request)
select id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, null,
       :state, created_at, due_at, clock.now, null, late, retry, 0, 0, null, fence, null,
       schedule_id, fire_id, :reason, clock.now - priority * 1000000::bigint, request
  from duly.failed
 cross join (select {now} as now) as clock
 where id = :id
   for update of failed
    on conflict (id) do nothing
returning id;

-- name: forget_failed
delete from duly.failed
 where id = :id;
