-- name: lock_registration for sqlite
select 1;

-- name: lock_registration for postgres
-- Held until the transaction ends: of two workers that register at once, one sees the other.
select pg_advisory_xact_lock(hashtextextended('duly.worker', 0));

-- name: register_worker
insert into duly.worker (id, name, queues, tasks, signatures, slots, resources, isolates, host, version,
                         app, holder, running, beat_at, told, told_slots, started_at, lease_until)
select :id, :name, :queues, :tasks, :signatures, :slots, :resources, :isolates::int::boolean, :host,
       :version, :app, :holder, 0, now, 'run', null, now, now + :lease::bigint
  from {clock}
 where true
    on conflict (id) do nothing
returning id;

-- name: renew_lease
-- An expired lease is never renewed: another process may be taking the jobs back. Also whether any job
-- is asked to end.
update duly.worker
   set lease_until = {now} + :lease::bigint, beat_at = {now}, running = :running
 where id = :id and lease_until > {now}
returning told, told_slots, exists (select 1 from duly.signal);

-- name: end_lease
-- At once and without a margin: the caller knows that the worker runs no job any more.
update duly.worker
   set lease_until = 0, died = :died::int::boolean
 where id = :id
returning id;

-- name: tell_workers
-- Set the command (run, drain, …) for workers of a name, or for one worker.
update duly.worker
   set told = :told, told_slots = coalesce(:slots::int, told_slots)
 where (name = :name or id = :id) and lease_until > {now}
returning id;

-- name: worker_told
select told, told_slots
  from duly.worker
 where id = :id and lease_until > {now};

-- name: list_workers
select id, name, queues, signatures, slots, resources, isolates, host, version, app, holder,
       started_at, lease_until, beat_at, running, told, told_slots
  from duly.worker
 order by id;

-- name: living_workers
select id, name, queues, signatures, slots, resources, isolates, host, version, app, holder,
       started_at, lease_until, beat_at, running, told, told_slots
  from duly.worker
 where lease_until > {now}
 order by id;

-- name: lost_jobs
-- Jobs whose worker has no valid lease, or no row: a claim may commit after its worker's row is
-- deleted. Paged by number, so that no job hides those behind it. The sums keep PostgreSQL from walking
-- the primary key past every waiting job.
select job.id, job.fence, job.attempt, job.crashes, job.retry, job.worker, job.schedule_id, job.task,
       job.key, coalesce(holder.isolates, false), coalesce(holder.name, ''),
       coalesce(holder.lease_until, 1) = 0, job.parent, job.step, job.reason
  from duly.job {indexed by job_running}
  left join duly.worker as holder on holder.id = job.worker
 where job.worker is not null and job.id + 0 > :after
   and not exists (select 1
                     from duly.worker
                    where worker.id = job.worker
                      and worker.lease_until + :margin::bigint > {now})
 order by job.id + 0
 limit :limit;

-- name: set_reason
-- Set the reason of a running job, under its fencing token.
update duly.job
   set reason = :reason
 where id = :id and fence = :fence and state || '' = 'running'
returning id;

-- name: forget_workers
delete from duly.worker
 where lease_until < :before
   and not exists (select 1 from duly.job where job.worker = worker.id and state = 'running')
returning id;

-- name: unknown_jobs
-- Jobs at the head of a queue that have waited for long and whose task no living worker knows.
select id, task
  from (select id, task, ready_at
          from duly.job
         where state = 'ready' and queue = :queue
         order by shelf, rank, id
         limit :limit) as head
 where ready_at < {now} - :patience::bigint and task {not in :tasks::text[]}
 order by id;

-- name: hold_unknown_jobs
update duly.job
   set state = 'blocked', waits = 'worker', waits_for = task,
       reason = 'no running worker knows the task ' || task
 where id {in :ids::bigint[]} and {still_ready}
returning id;

-- part: unfit
waits in ('worker', 'signature')

-- name: free_unfit_jobs
-- Unblock jobs whose task a living worker knows. They keep their rank. Jobs that cannot be unblocked
-- are not read.
update duly.job
   set state = 'ready', waits = null, waits_for = null, reason = ''
 where id {in (
           select fit.id
             from {rows :known as known (task text, waits text, low text, high text)}
           {lateral duly.job as fit {indexed by job_unfit}
             where {unfit} and state = 'blocked'
               and job.task = known.task and job.waits = known.waits
               and waits_for >= known.low and waits_for < known.high
             order by waits_for, id
             limit :limit
               {skipping}}
            limit :limit)}
   and state = 'blocked'
returning queue;

-- name: busy_queues
-- Queues with ready jobs: one index step for each queue.
with recursive line (queue) as (
    select (select queue from duly.job where state = 'ready' order by queue, shelf, rank, id limit 1)
     union all
    select (select job.queue
              from duly.job
             where state = 'ready' and job.queue > line.queue
             order by job.queue, shelf, rank, id
             limit 1)
      from line
     where line.queue is not null)
select queue
  from line
 where queue is not null
 order by queue;

-- name: set_queue
insert into duly.queue (name, paused, note, concurrency, rate_count, rate_period, arrival, fair)
values (:name, :paused::int::boolean, :note, :concurrency, :rate_count, :rate_period, 0,
        :fair::int::boolean)
    on conflict (name) do update
   set paused = excluded.paused, note = excluded.note, concurrency = excluded.concurrency,
       rate_count = excluded.rate_count, rate_period = excluded.rate_period, fair = excluded.fair;

-- name: set_fair
-- Set the flag on waiting jobs, :limit at a time by number. Locked jobs are skipped, and all jobs if the
-- queue was changed again meanwhile.
update duly.job
   set fair = :fair::int::boolean
 where id {in (
           select id
             from duly.job
            where id > :after and queue = :name and state in ('scheduled', 'blocked', 'ready')
              and fair <> :fair::int::boolean
            order by id
            limit :limit
              {skipping})}
   and exists (select 1 from duly.queue where name = :name and fair = :fair::int::boolean)
returning id;

-- name: list_queues
select name, paused, note, concurrency, rate_count, rate_period, fair
  from duly.queue
 order by name;
