-- name: hold_jobs
-- Lock the jobs that still run under the fencing token: they cannot be taken back meanwhile.
select job.id, job.attempt, job.worker, job.fence, job.claimed_at, job.schedule_id, job.task, job.key,
       job.limits, job.terms, job.tenant, job.state, job.parent, job.step, job.part
  from duly.job
  join {rows :rows as mine (id bigint, fence bigint)}
    on job.id = mine.id and job.fence = mine.fence
 where {hint job.id in :rows ->> 'id'::bigint}
   and job.state = 'running' and coalesce(job.waits, '') <> 'steps'
 order by job.id
   {for update of job};

-- name: hold_waiting_jobs
-- Lock the jobs that have not started.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly.job
 where id {in :ids::bigint[]} and state in ('scheduled', 'blocked', 'ready')
 order by id
   {for update};

-- name: hold_handed_off_jobs
-- Lock the jobs whose target has not reported an outcome.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly.job
 where id {in :ids::bigint[]} and coalesce(waits, '') = 'outcome'
 order by id
   {for update};

-- name: handed_off_jobs
-- What a target has to be told when its work is called off.
select id, queue, args, attempt, crashes, tenant, created_at
  from duly.job
 where id {in :ids::bigint[]} and coalesce(waits, '') = 'outcome' and task = :task
 order by id;

-- name: detach_jobs
-- The job stays running without its worker: its steps run, or its target has it.
update duly.job
   set worker = null, waits = detached.waits, waits_for = detached.waits_for, reason = detached.reason,
       crashes = detached.crashes, deadline = {now} + detached.timeout, late = 'skip'
  from {rows :rows as detached (
           id bigint, waits text, waits_for text, reason text, crashes int, timeout bigint)}
 where {hint job.id in :rows ->> 'id'::bigint} and job.id = detached.id and job.state = 'running'
returning job.id;

-- name: hold_overdue_jobs
-- Lock the jobs that have not started and are still late: another process may have moved them.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly.job
 where id {in :ids::bigint[]} and state in ('scheduled', 'blocked', 'ready')
   and coalesce(deadline, {now}) < {now}
 order by id
   {for update /*[skip_locked] skip locked [skip_locked]*/};

-- name: peek_jobs
-- What has to be locked before the jobs are locked.
select id, state, schedule_id, waits, parent, step
  from duly.job
 where id {in :ids::bigint[]}
 order by id;

-- part: ended_columns
(id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key, state,
 created_at, due_at, ready_at, deadline, late, retry, attempt, crashes, worker, fence, claimed_at,
 schedule_id, fire_id, reason, ended_at, result, error, request, limits, needs, terms, result_until,
 parent, step, part)

-- part: ended_jobs
-- SQLite's tables are keyed by the job's number alone, and a flow may end a second time.
{ended_columns}
select job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       ended.state, created_at, due_at, ready_at, deadline, late, retry, attempt, ended.crashes,
       worker, fence, claimed_at, schedule_id, fire_id, ended.reason, clock.now, ended.result,
       ended.error, request, limits, needs, terms, clock.now + ended.keep, parent, step, part
  from {rows :rows as ended (
           id bigint, state text, crashes int, reason text, result text, error text, keep bigint)}
  join duly.job on job.id = ended.id
 cross join {clock}
 where {hint job.id in :rows ->> 'id'::bigint}
 {sqlite on conflict (id) do nothing}

-- name: keep_history
insert into duly.history {ended_jobs};

-- name: keep_failed
insert into duly.failed {ended_jobs};

-- name: forget_jobs
delete from duly.job
 where id {in :ids::bigint[]};

-- name: forget_signals
delete from duly.signal
 where job_id {in :ids::bigint[]};

-- name: return_jobs
-- Return jobs to the queue: for another attempt, or because the worker was lost. A job that started
-- has met its deadline; a job given back unstarted (uncounted) keeps it; a parked job keeps its rank.
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
                   then {greatest}(again.ready_at, {now}) - job.priority * 1000000::bigint
                   else job.rank
              end
  from {rows :rows as again (
           id bigint, state text, ready_at bigint, uncounted int, crashes int, reason text,
           waits text, waits_for text)}
 where {hint job.id in :rows ->> 'id'::bigint}
   and job.id = again.id
   and job.state = 'running'
returning job.id;

-- name: record_attempts
insert into duly.attempt (job_id, number, worker, fence, started_at, ended_at, outcome, reason, error)
select job_id, number, worker, fence, started_at, {now}, outcome, reason, error
  from {rows :rows as tried (
           job_id bigint, number int, worker bigint, fence bigint, started_at bigint, outcome text,
           reason text, error text)}
 where true
    on conflict do nothing;

-- name: free_blocked
-- Unblock the oldest job of each schedule that has only blocked jobs. The schedule is locked, and this
-- is a statement of its own, so it sees everything committed before the lock was granted. If all jobs
-- are blocked, the first job of the schedule is the one: a single index step.
update duly.job
   set state = case when ready_at > {now} then 'scheduled' else 'ready' end, reason = '',
       rank = {greatest}(ready_at, {now}) - priority * 1000000::bigint
 where state = 'blocked'
   and waits is null
   and id {in (
           select (select job.id
                     from duly.job
                    where job.schedule_id = freed.id
                    order by job.due_at, job.id
                    limit 1)
             from {each :ids::bigint[] as freed (id)}
            where (select job.id
                     from duly.job {indexed by job_unblocked}
                    where job.schedule_id + 0 = freed.id and job.schedule_id is not null
                      and (job.state <> 'blocked' or job.waits is not null)
                    limit 1) is null)}
returning id;

-- name: whose
-- Where jobs are that could not be finished, to tell "already finished by me" from "lost". A job that
-- was taken back and ended while it waited has no worker. A job that was replaced by its key has no
-- reason, and one that was retried is new work.
select id, state, fence from duly.history
 where id {in :ids::bigint[]} and worker is not null
 union all
select id, state, fence from duly.failed
 where id {in :ids::bigint[]} and worker is not null
 union all
select id, state, fence from duly.job
 where id {in :ids::bigint[]} and reason <> '' and reason not like 'retried%';

-- name: send_signals
-- Only for running jobs, which are locked: a signal left behind by a job that ended would stop the job
-- when it is retried. The first signal stays.
insert into duly.signal (job_id, what, reason, at)
select told.job_id, told.what, told.reason, {now}
  from {rows :rows as told (job_id bigint, what text, reason text)}
  join duly.job on job.id = told.job_id
 where {hint job.id in :rows ->> 'job_id'::bigint}
   and job.state = 'running'
   {for key share of job}
    on conflict (job_id) do update set what = signal.what
returning job_id;

-- name: forget_signals_of_moved
-- Signals to a job whose work was replaced through its key.
delete from duly.signal
 where job_id {in :batch ->> 'id'::bigint};

-- name: told_while_waiting
-- Jobs that were told to stop while they ran and wait again (for a retry, or because the worker was
-- lost), and flows and handed-off jobs, which no worker runs.
select job_id, reason, (select waits from duly.job where id = signal.job_id)
  from duly.signal
 where {told_while_waiting}
 order by job_id
 limit :limit;

-- part: told_while_waiting
exists (select 1
          from duly.job
         where id = signal.job_id and (state in ('scheduled', 'blocked', 'ready') or waits in ('steps', 'outcome'))
        {postgres offset 0})

-- name: signals_for
select job_id, what, reason
  from duly.signal
 where exists (select 1
                 from duly.job
                where id = signal.job_id and coalesce(worker, 0) = :worker
               {postgres offset 0})
 order by job_id;

-- name: old_signals
-- Signals to jobs that have ended.
select job_id
  from duly.signal
 where at < :before and not exists (select 1 from duly.job where job.id = signal.job_id)
 limit :limit
   {for update /*[skip_locked] skip locked [skip_locked]*/};

-- name: prune_signals
-- Except where the job was retried and told to stop again before the signal was locked.
delete from duly.signal
 where job_id {in :ids::bigint[]}
   and not exists (select 1 from duly.job where job.id = signal.job_id)
returning job_id;

-- name: peek_failed
-- What has to be locked before the jobs are revived.
select id, schedule_id, parent, step, task, key
  from duly.failed
 where id {in :ids::bigint[]}
 order by id;

-- part: revival
-- The job keeps its number. Its crashes are forgotten, so it need not run alone.
insert into duly.job ({new_columns}, parent, step, part)
select ended.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
       case when again.keyed then key end, again.state, created_at, due_at, clock.now, null, late,
       retry, 0, 0, null, fence, null, schedule_id, fire_id, again.reason,
       clock.now - priority * 1000000::bigint, request, limits, needs, terms,
       exists (select 1 from duly.queue where queue.name = ended.queue and queue.fair),
       (select {shelf_of_moment}
          from (select ended.limits as limits, ended.needs as needs, 0 as crashes,
                       ended.priority as priority, ended.schedule_id as schedule_id,
                       ended.request as request, ended.id as id) as it),
       parent, step, part

-- part: revived
  join {rows :rows as again (id bigint, state text, reason text, keyed boolean)}
    on ended.id = again.id
 cross join {clock}
 where true
 order by ended.id
   {for update of ended}
    on conflict (id) do nothing
returning id

-- name: revive_jobs
-- Failed jobs that are retried.
{revival}
  from duly.failed as ended
{revived};

-- name: revive_stopped_flows
-- Inner flows that were cancelled with their outer flow and continue with it.
{revival}
  from duly.history as ended
{revived};

-- name: forget_failed
delete from duly.failed
 where id {in :ids::bigint[]};
