-- part: numbered
-- The numbers in the rows. With them, jobs are found through the primary key, whatever the planner
-- thinks of the table.
any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:rows::jsonb) as one))

-- name: hold_jobs
-- Those of the jobs that are still run under the fence: nobody takes them back before this ends.
select job.id, job.attempt, job.worker, job.fence, job.claimed_at, job.schedule_id, job.task, job.key,
       job.limits, job.terms, job.tenant, job.state, job.parent, job.step, job.part
  from duly.job
  join jsonb_to_recordset(:rows::jsonb) as mine (id bigint, fence bigint)
    on job.id = mine.id and job.fence = mine.fence
 where job.id = {numbered}
   and job.state = 'running' and job.waits is distinct from 'steps'
 order by job.id
   for update of job;

-- name: hold_waiting_jobs
-- Those of the jobs that have not begun.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly.job
 where id = any(:ids::bigint[]) and state in ('scheduled', 'blocked', 'ready')
 order by id
   for update;

-- name: hold_overdue_jobs
-- Those of the jobs that have not begun, and are late still: others may have moved them.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly.job
 where id = any(:ids::bigint[]) and state in ('scheduled', 'blocked', 'ready')
   and coalesce(deadline, {now}) < {now}
 order by id
   for update /*[skip_locked] skip locked [skip_locked]*/;

-- name: peek_jobs
-- What has to be locked before the jobs are.
select id, state, schedule_id, waits, parent, step
  from duly.job
 where id = any(:ids::bigint[])
 order by id;

-- name: keep_history
insert into duly.history (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                          version, key, state, created_at, due_at, ready_at, deadline, late, retry,
                          attempt, crashes, worker, fence, claimed_at, schedule_id, fire_id, reason,
                          ended_at, result, error, request, limits, needs, terms, result_until,
                          parent, step, part)
select job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       ended.state, created_at, due_at, ready_at, deadline, late, retry, attempt, ended.crashes,
       worker, fence, claimed_at, schedule_id, fire_id, ended.reason, clock.now, ended.result,
       ended.error, request, limits, needs, terms, clock.now + ended.keep, parent, step, part
  from jsonb_to_recordset(:rows::jsonb) as ended (
           id bigint, state text, crashes int, reason text, result text, error text, keep bigint)
  join duly.job on job.id = ended.id
 cross join (select {now} as now offset 0) as clock
 where job.id = {numbered};

-- name: keep_failed
insert into duly.failed (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                          version, key, state, created_at, due_at, ready_at, deadline, late, retry,
                          attempt, crashes, worker, fence, claimed_at, schedule_id, fire_id, reason,
                          ended_at, result, error, request, limits, needs, terms, result_until,
                          parent, step, part)
select job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       ended.state, created_at, due_at, ready_at, deadline, late, retry, attempt, ended.crashes,
       worker, fence, claimed_at, schedule_id, fire_id, ended.reason, clock.now, ended.result,
       ended.error, request, limits, needs, terms, clock.now + ended.keep, parent, step, part
  from jsonb_to_recordset(:rows::jsonb) as ended (
           id bigint, state text, crashes int, reason text, result text, error text, keep bigint)
  join duly.job on job.id = ended.id
 cross join (select {now} as now offset 0) as clock
 where job.id = {numbered};

-- name: forget_jobs
delete from duly.job
 where id = any(:ids::bigint[]);

-- name: forget_signals
delete from duly.signal
 where job_id = any(:ids::bigint[]);

-- name: return_jobs
-- Back to waiting: for another attempt, or because the worker was lost. What has begun once met its
-- deadline then; what is given back unstarted still has it, and what is parked keeps its rank.
update duly.job
   set state = again.state, ready_at = again.ready_at, attempt = job.attempt - again.uncounted,
       crashes = again.crashes, reason = again.reason, worker = null, claimed_at = null,
       waits = again.waits, waits_for = again.waits_for,
       shelf = (select {shelf_of_moment}
                  from (select job.limits as limits, job.needs as needs, again.crashes as crashes,
                               job.priority as priority, job.schedule_id as schedule_id,
                               job.request as request, job.id as id) as it),
       deadline = case when again.uncounted = 1 then job.deadline end,
       rank = case when again.waits is null
                   then greatest(again.ready_at, {now}) - job.priority * 1000000::bigint
                   else job.rank
              end
  from jsonb_to_recordset(:rows::jsonb) as again (
           id bigint, state text, ready_at bigint, uncounted int, crashes int, reason text,
           waits text, waits_for text)
 where job.id = {numbered}
   and job.id = again.id
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
-- The oldest job that waits behind a schedule whose other jobs have all ended. Its schedule is
-- held, and this is a statement of its own: it sees what was committed before the lock was given.
-- Where no job is unblocked, the first of all is the first that waits: so each is found in one step
-- of an index, however many wait.
update duly.job
   set state = case when ready_at > {now} then 'scheduled' else 'ready' end, reason = '',
       rank = greatest(ready_at, {now}) - priority * 1000000::bigint
 where state = 'blocked'
   and waits is null
   and id = any(array(
           select waiting.id
             from unnest(:ids::bigint[]) as freed (id)
            cross join lateral (select job.id
                                  from duly.job
                                 where job.schedule_id = freed.id
                                 order by job.due_at, job.id
                                 limit 1) as waiting
            where (select job.id
                     from duly.job
                    where job.schedule_id = freed.id
                      and (job.state <> 'blocked' or job.waits is not null)
                    limit 1) is null))
returning id;

-- name: whose
-- Where a job is that was to be finished and could not be: mine already, or no longer mine. One
-- that was taken back and ended while it waited has no worker: whoever lost it did not end it.
-- One that was moved by its key since has no reason any more, and is another promise; and so is one
-- that ended and was retried by somebody.
select id, state, fence from duly.history
 where id = any(:ids::bigint[]) and worker is not null
 union all
select id, state, fence from duly.failed
 where id = any(:ids::bigint[]) and worker is not null
 union all
select id, state, fence from duly.job where id = any(:ids::bigint[]) and reason <> '' and reason not like 'retried%';

-- name: send_signals
-- Only for jobs that run, and none of them ends or is given back before this is over: a signal that
-- is left behind would stop the job when it is retried. The first one stays.
insert into duly.signal (job_id, what, reason, at)
select told.job_id, told.what, told.reason, {now}
  from jsonb_to_recordset(:rows::jsonb) as told (job_id bigint, what text, reason text)
  join duly.job on job.id = told.job_id
 where job.id = any(array(select (one ->> 'job_id')::bigint
                            from jsonb_array_elements(:rows::jsonb) as one))
   and job.state = 'running'
   for key share of job
    on conflict (job_id) do update set what = signal.what
returning job_id;

-- name: forget_signals_of_moved
-- What was said about a job before it became another promise.
delete from duly.signal
 where job_id = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one));

-- name: told_while_waiting
-- Jobs that were asked to end while they ran, and wait again: for a retry, or because they were
-- lost; and flows, which no worker holds.
select job.id, signal.reason, job.waits
  from duly.signal
 cross join lateral (select id, waits
                       from duly.job
                      where id = signal.job_id
                        and (state in ('scheduled', 'blocked', 'ready') or waits = 'steps')
                     offset 0) as job
 order by job.id
 limit :limit;

-- name: signals_for
select signal.job_id, signal.what, signal.reason
  from duly.signal
 cross join lateral (select from duly.job where id = signal.job_id and coalesce(worker, 0) = :worker
                     offset 0) as mine
 order by signal.job_id;

-- name: old_signals
-- What was said to a job that was finished in passing meanwhile, and that nobody will hear.
select job_id
  from duly.signal
 where at < :before and not exists (select from duly.job where job.id = signal.job_id)
 limit :limit
   for update /*[skip_locked] skip locked [skip_locked]*/;

-- name: prune_signals
-- Not one whose job was retried and told to end again, before the signal was held.
delete from duly.signal
 where job_id = any(:ids::bigint[])
   and not exists (select from duly.job where job.id = signal.job_id)
returning job_id;
