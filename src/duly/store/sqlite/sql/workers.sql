-- name: lock_registration
-- There is one writer at a time anyway.
select 1;

-- name: register_worker
insert into duly_worker (id, name, queues, tasks, signatures, slots, resources, isolates, host, version,
                         app, holder, running, beat_at, told, told_slots, started_at, lease_until)
values (:id, :name, :queues, :tasks, :signatures, :slots, :resources, :isolates, :host, :version,
        :app, :holder, 0, :now, 'run', null, :now, :now + :lease)
    on conflict (id) do nothing
returning id;

-- name: renew_lease
-- A lease that has expired is never renewed: somebody may be taking its jobs back.
update duly_worker
   set lease_until = :now + :lease, beat_at = :now, running = :running
 where id = :id and lease_until > :now
returning told, told_slots;

-- name: end_lease
-- At once, and without a margin: whoever says so knows that nothing of the worker runs any more.
update duly_worker
   set lease_until = 0
 where id = :id
returning id;

-- name: tell_workers
-- What workers of a name, or a worker, are to do.
update duly_worker
   set told = :told, told_slots = coalesce(:slots, told_slots)
 where (name = :name or id = :id) and lease_until > :now
returning id;

-- name: worker_told
select told, told_slots
  from duly_worker
 where id = :id and lease_until > :now;

-- name: list_workers
select id, name, queues, signatures, slots, resources, isolates, host, version, app, holder,
       started_at, lease_until, beat_at, running, told, told_slots
  from duly_worker
 order by id;

-- name: living_workers
select id, name, queues, signatures, slots, resources, isolates, host, version, app, holder,
       started_at, lease_until, beat_at, running, told, told_slots
  from duly_worker
 where lease_until > :now
 order by id;

-- name: lost_jobs
-- Jobs whose worker has no lease, or no row. By absence, so that a claim which commits after its
-- worker's row is gone is found too; paged by number, so that no row can hide those behind it.
select duly_job.id, duly_job.fence, duly_job.attempt, duly_job.crashes, duly_job.retry,
       duly_job.worker, duly_job.schedule_id, duly_job.task, duly_job.key,
       coalesce(holder.isolates, 0), coalesce(holder.name, ''), coalesce(holder.lease_until, 1) = 0,
       duly_job.parent, duly_job.step
  from duly_job indexed by duly_job_running
  left join duly_worker as holder on holder.id = duly_job.worker
 where duly_job.worker is not null and duly_job.id > :after
   and not exists (select 1
                     from duly_worker
                    where duly_worker.id = duly_job.worker
                      and duly_worker.lease_until + :margin > :now)
 order by duly_job.id
 limit :limit;

-- name: forget_workers
delete from duly_worker
 where lease_until < :before
   and not exists (select 1 from duly_job where duly_job.worker = duly_worker.id and state = 'running')
returning id;

-- name: unknown_jobs
-- The head of a queue, as far as it has waited for long and no living worker knows the tasks.
select id, task
  from (select id, task, ready_at
          from duly_job
         where state = 'ready' and queue = :queue
         order by shelf, rank, id
         limit :limit) as head
 where ready_at < :now - :patience and task not in (select value from json_each(:tasks))
 order by id;

-- name: hold_unknown_jobs
update duly_job
   set state = 'blocked', waits = 'worker', waits_for = task,
       reason = 'no worker that is running knows the task ' || task
 where id in (select value from json_each(:ids)) and state = 'ready'
returning id;

-- part: unfit
waits in ('worker', 'signature')

-- name: any_unfit
select 1
  from duly_job indexed by duly_job_unfit
 where {unfit}
 limit 1;

-- name: free_unfit_jobs
-- Somebody lives who knows the task, or knows another form of it. They keep their rank: the wait was
-- not their fault. Those that cannot be freed are not even looked at, however many there are.
update duly_job
   set state = 'ready', waits = null, waits_for = null, reason = ''
 where id in (select duly_job.id
                from json_each(:known) as known
               cross join duly_job indexed by duly_job_unfit
                  on {unfit} and state = 'blocked' and task = known.value ->> 'task'
                 and waits = known.value ->> 'waits' and waits_for >= known.value ->> 'low'
                 and waits_for < known.value ->> 'high'
               limit :limit)
returning queue;

-- name: busy_queues
-- Where something is ready: a step of the index for each queue.
with recursive line (queue) as (
    select min(queue) from duly_job where state = 'ready'
     union all
    select (select min(duly_job.queue) from duly_job where state = 'ready' and duly_job.queue > line.queue)
      from line
     where line.queue is not null)
select queue
  from line
 where queue is not null
 order by queue;

-- name: set_queue
insert into duly_queue (name, paused, note, concurrency, rate_count, rate_period, arrival, fair)
values (:name, :paused, :note, :concurrency, :rate_count, :rate_period, 0, :fair)
    on conflict (name) do update
   set paused = excluded.paused, note = excluded.note, concurrency = excluded.concurrency,
       rate_count = excluded.rate_count, rate_period = excluded.rate_period, fair = excluded.fair;

-- name: set_fair
-- Jobs that wait already take turns from now on, or take none any more.
-- So many at a time, by number; none if the queue was changed again meanwhile.
update duly_job
   set fair = :fair
 where id in (select id
                from duly_job
               where id > :after and queue = :name and state in ('scheduled', 'blocked', 'ready')
                 and fair <> :fair
               order by id
               limit :limit)
   and exists (select 1 from duly_queue where name = :name and fair = :fair)
returning id;

-- name: list_queues
select name, paused, note, concurrency, rate_count, rate_period, fair
  from duly_queue
 order by name;
