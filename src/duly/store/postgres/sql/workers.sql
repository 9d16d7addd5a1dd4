-- name: lock_registration
-- Until the end of the transaction: of two workers that register at once, one sees the other.
select pg_advisory_xact_lock(hashtextextended('duly.worker', 0));

-- name: register_worker
insert into duly.worker (id, name, queues, tasks, signatures, slots, resources, isolates, host, version,
                         app, holder, running, beat_at, told, told_slots, started_at, lease_until)
select :id, :name, :queues, :tasks, :signatures, :slots, :resources, :isolates::int::boolean, :host,
       :version, :app, :holder, 0, now, 'run', null, now, now + :lease::bigint
  from (select {now} as now offset 0) as clock
    on conflict (id) do nothing
returning id;

-- name: renew_lease
-- A lease that has expired is never renewed: somebody may be taking its jobs back.
update duly.worker
   set lease_until = {now} + :lease::bigint, beat_at = {now}, running = :running
 where id = :id and lease_until > {now}
returning told, told_slots;

-- name: end_lease
-- At once, and without a margin: whoever says so knows that nothing of the worker runs any more.
update duly.worker
   set lease_until = 0
 where id = :id
returning id;

-- name: tell_workers
-- What workers of a name, or a worker, are to do.
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
-- Jobs whose worker has no lease, or no row. By absence, so that a claim which commits after its
-- worker's row is gone is found too; paged by number, so that no row can hide those behind it. The
-- sums keep the planner from walking the primary key, past every job that waits.
select job.id, job.fence, job.attempt, job.crashes, job.retry, job.worker, job.schedule_id, job.task,
       job.key, coalesce(holder.isolates, false), coalesce(holder.name, ''),
       coalesce(holder.lease_until, 1) = 0, job.parent, job.step
  from duly.job
  left join duly.worker as holder on holder.id = job.worker
 where job.worker is not null and job.id + 0 > :after
   and not exists (select
                     from duly.worker
                    where worker.id = job.worker
                      and worker.lease_until + :margin::bigint > {now})
 order by job.id + 0
 limit :limit;

-- name: forget_workers
delete from duly.worker
 where lease_until < :before
   and not exists (select from duly.job where job.worker = worker.id and state = 'running')
returning id;

-- name: unknown_jobs
-- The head of a queue, as far as it has waited for long and no living worker knows the tasks.
select id, task
  from (select id, task, ready_at
          from duly.job
         where state = 'ready' and queue = :queue
         order by shelf, rank, id
         limit :limit) as head
 where ready_at < {now} - :patience::bigint and task <> all(:tasks::text[])
 order by id;

-- name: hold_unknown_jobs
update duly.job
   set state = 'blocked', waits = 'worker', waits_for = task,
       reason = 'no worker that is running knows the task ' || task
 where id = any(:ids::bigint[]) and {still_ready}
returning id;

-- part: unfit
waits in ('worker', 'signature')

-- name: any_unfit
select 1
  from duly.job
 where {unfit}
 limit 1;

-- name: free_unfit_jobs
-- Somebody lives who knows the task, or knows another form of it. They keep their rank: the wait was
-- not their fault. Those that cannot be freed are not even looked at, however many there are.
update duly.job
   set state = 'ready', waits = null, waits_for = null, reason = ''
 where id = any(array(
           select fit.id
             from jsonb_to_recordset(:known::jsonb) as known (
                      task text, waits text, low text, high text)
            cross join lateral (select id
                                  from duly.job
                                 where {unfit} and state = 'blocked'
                                   and job.task = known.task and job.waits = known.waits
                                   and waits_for >= known.low and waits_for < known.high
                                 order by waits_for, id
                                 limit :limit
                                   {skipping}) as fit
            limit :limit))
   and state = 'blocked'
returning queue;

-- name: busy_queues
-- Where something is ready: a step of the index for each queue.
with recursive line (queue) as (
    (select queue from duly.job where state = 'ready' order by queue, shelf, rank, id limit 1)
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
-- Jobs that wait already take turns from now on, or take none any more.
-- So many at a time, by number; those that somebody holds are left as they are, and so are all if the
-- queue was changed again meanwhile.
update duly.job
   set fair = :fair::int::boolean
 where id = any(array(
           select id
             from duly.job
            where id > :after and queue = :name and state in ('scheduled', 'blocked', 'ready')
              and fair <> :fair::int::boolean
            order by id
            limit :limit
              {skipping}))
   and exists (select from duly.queue where name = :name and fair = :fair::int::boolean)
returning id;

-- name: list_queues
select name, paused, note, concurrency, rate_count, rate_period, fair
  from duly.queue
 order by name;
