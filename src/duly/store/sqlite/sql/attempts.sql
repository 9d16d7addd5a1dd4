-- name: hold_jobs
-- Those of the jobs that are still run under the fence: nobody takes them back before this ends.
select duly_job.id, duly_job.attempt, duly_job.worker, duly_job.fence, duly_job.claimed_at,
       duly_job.schedule_id, duly_job.task, duly_job.key, duly_job.limits, duly_job.terms,
       duly_job.tenant, duly_job.state, duly_job.parent, duly_job.step, duly_job.part
  from duly_job
  join (select value ->> 'id' as id, value ->> 'fence' as fence from json_each(:rows)) as mine
    on duly_job.id = mine.id and duly_job.fence = mine.fence
 where duly_job.state = 'running' and duly_job.worker is not null
 order by duly_job.id;

-- name: hold_waiting_jobs
-- Those of the jobs that have not begun.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly_job
 where id in (select value from json_each(:ids)) and state in ('scheduled', 'blocked', 'ready')
 order by id;

-- name: hold_overdue_jobs
-- Those of the jobs that have not begun, and are late still: others may have moved them.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly_job
 where id in (select value from json_each(:ids)) and state in ('scheduled', 'blocked', 'ready')
   and deadline < :now
 order by id;

-- name: peek_jobs
-- What has to be locked before the jobs are.
select id, state, schedule_id, waits, parent, step
  from duly_job
 where id in (select value from json_each(:ids))
 order by id;

-- name: keep_history
insert into duly_history (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                          version, key, state, created_at, due_at, ready_at, deadline, late, retry,
                          attempt, crashes, worker, fence, claimed_at, schedule_id, fire_id, reason,
                          ended_at, result, error, request, limits, needs, terms, result_until,
                          parent, step, part)
select duly_job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       ended.state, created_at, due_at, ready_at, deadline, late, retry, attempt, ended.crashes,
       worker, fence, claimed_at, schedule_id, fire_id, ended.reason, :now, ended.result, ended.error,
       request, limits, needs, terms, :now + ended.keep, parent, step, part
  from (select value ->> 'id' as id, value ->> 'state' as state, value ->> 'crashes' as crashes,
               value ->> 'reason' as reason, value ->> 'result' as result,
               value ->> 'error' as error, value ->> 'keep' as keep
          from json_each(:rows)) as ended
  join duly_job on duly_job.id = ended.id
 where true
    on conflict (id) do nothing;

-- name: keep_failed
insert into duly_failed (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                         version, key, state, created_at, due_at, ready_at, deadline, late, retry,
                         attempt, crashes, worker, fence, claimed_at, schedule_id, fire_id, reason,
                         ended_at, result, error, request, limits, needs, terms, result_until,
                          parent, step, part)
select duly_job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       ended.state, created_at, due_at, ready_at, deadline, late, retry, attempt, ended.crashes,
       worker, fence, claimed_at, schedule_id, fire_id, ended.reason, :now, ended.result, ended.error,
       request, limits, needs, terms, :now + ended.keep, parent, step, part
  from (select value ->> 'id' as id, value ->> 'state' as state, value ->> 'crashes' as crashes,
               value ->> 'reason' as reason, value ->> 'result' as result,
               value ->> 'error' as error, value ->> 'keep' as keep
          from json_each(:rows)) as ended
  join duly_job on duly_job.id = ended.id
 where true
    on conflict (id) do nothing;

-- name: forget_jobs
delete from duly_job
 where id in (select value from json_each(:ids));

-- name: forget_signals
delete from duly_signal
 where job_id in (select value from json_each(:ids));

-- name: return_jobs
-- Back to waiting: for another attempt, or because the worker was lost. What has begun once met its
-- deadline then; what is given back unstarted still has it, and what is parked keeps its rank.
update duly_job
   set state = again.state, ready_at = again.ready_at, attempt = duly_job.attempt - again.uncounted,
       crashes = again.crashes, reason = again.reason, worker = null, claimed_at = null,
       waits = again.waits, waits_for = again.waits_for,
       shelf = (select {shelf_of_moment}
                  from (select duly_job.limits as limits, duly_job.needs as needs,
                               again.crashes as crashes, duly_job.priority as priority, duly_job.schedule_id as schedule_id,
                               duly_job.request as request, duly_job.id as id) as it),
       deadline = case when again.uncounted = 1 then duly_job.deadline end,
       rank = case when again.waits is null
                   then max(again.ready_at, :now) - duly_job.priority * 1000000
                   else duly_job.rank
              end
  from (select value ->> 'id' as id, value ->> 'state' as state, value ->> 'ready_at' as ready_at,
               value ->> 'uncounted' as uncounted, value ->> 'crashes' as crashes,
               value ->> 'reason' as reason, value ->> 'waits' as waits,
               value ->> 'waits_for' as waits_for
          from json_each(:rows)) as again
 where duly_job.id = again.id
   and duly_job.state = 'running'
returning duly_job.id;

-- name: record_attempts
insert into duly_attempt (job_id, number, worker, fence, started_at, ended_at, outcome, reason, error)
select value ->> 'job_id', value ->> 'number', value ->> 'worker', value ->> 'fence',
       value ->> 'started_at', :now, value ->> 'outcome', value ->> 'reason', value ->> 'error'
  from json_each(:rows)
 where true
    on conflict do nothing;

-- name: free_blocked
-- The oldest job that waits behind a schedule whose other jobs have all ended. Where no job is
-- unblocked, the first of all is the first that waits: each is found in one step of an index.
update duly_job
   set state = case when ready_at > :now then 'scheduled' else 'ready' end, reason = '',
       rank = max(ready_at, :now) - priority * 1000000
 where state = 'blocked'
   and waits is null
   and id in (select (select waiting.id
                        from duly_job as waiting
                       where waiting.schedule_id = freed.value
                       order by waiting.due_at, waiting.id
                       limit 1)
                from json_each(:ids) as freed
               where not exists (select 1
                                   from duly_job as other
                                  where other.schedule_id = freed.value
                                    and (other.state <> 'blocked' or other.waits is not null)))
returning id;

-- name: whose
-- Where a job is that was to be finished and could not be: mine already, or no longer mine. One
-- that was taken back and ended while it waited has no worker: whoever lost it did not end it.
-- One that was moved by its key since has no reason any more, and is another promise; and so is one
-- that ended and was retried by somebody.
select id, state, fence from duly_history
 where id in (select value from json_each(:ids)) and worker is not null
 union all
select id, state, fence from duly_failed
 where id in (select value from json_each(:ids)) and worker is not null
 union all
select id, state, fence from duly_job
 where id in (select value from json_each(:ids)) and reason <> '' and reason not like 'retried%';

-- name: send_signals
-- Only for jobs that run. The first one stays.
insert into duly_signal (job_id, what, reason, at)
select value ->> 'job_id', value ->> 'what', value ->> 'reason', :now
  from json_each(:rows)
 where exists (select 1 from duly_job where id = value ->> 'job_id' and state = 'running')
    on conflict (job_id) do update set what = duly_signal.what
returning job_id;

-- name: forget_signals_of_moved
-- What was said about a job before it became another promise.
delete from duly_signal
 where job_id in (select value ->> 'id' from json_each(:batch));

-- name: told_while_waiting
-- Jobs that were asked to end while they ran, and wait again: for a retry, or because they were
-- lost; and flows, which no worker holds.
select duly_job.id, duly_signal.reason, duly_job.waits
  from duly_signal
 cross join duly_job on duly_job.id = duly_signal.job_id
 where duly_job.state in ('scheduled', 'blocked', 'ready') or duly_job.waits = 'steps'
 order by duly_job.id
 limit :limit;

-- name: signals_for
select duly_signal.job_id, duly_signal.what, duly_signal.reason
  from duly_signal
 cross join duly_job on duly_job.id = duly_signal.job_id
 where duly_job.worker = :worker
 order by duly_signal.job_id;

-- name: old_signals
-- What was said to a job that was finished in passing meanwhile, and that nobody will hear.
select job_id
  from duly_signal
 where at < :before and not exists (select 1 from duly_job where duly_job.id = duly_signal.job_id)
 limit :limit;

-- name: prune_signals
delete from duly_signal
 where job_id in (select value from json_each(:ids))
   and not exists (select 1 from duly_job where duly_job.id = duly_signal.job_id)
returning job_id;
