-- name: register_worker
insert into duly.worker (id, name, queues, tasks, started_at, lease_until)
select :id, :name, :queues, :tasks, now, now + :lease::bigint
  from (select {now} as now) as clock
    on conflict (id) do nothing
returning id;

-- name: renew_lease
-- A lease that has expired is never renewed: somebody may be taking its jobs back.
update duly.worker
   set lease_until = {now} + :lease::bigint
 where id = :id and lease_until > {now}
returning lease_until;

-- name: end_lease
update duly.worker
   set lease_until = least(lease_until, {now})
 where id = :id
returning id;

-- name: list_workers
select id, name, queues, tasks, started_at, lease_until
  from duly.worker
 order by id;

-- name: lost_jobs
-- Jobs whose worker has no lease, or no row. By absence, so that a claim which commits after its
-- worker's row is gone is found too; paged by number, so that no row can hide those behind it.
select job.id, job.fence, job.attempt, job.crashes, job.retry, job.worker, job.schedule_id, job.task,
       job.key
  from duly.job
 where job.state = 'running' and job.id > :after
   and not exists (select
                     from duly.worker
                    where worker.id = job.worker
                      and worker.lease_until + :margin::bigint > (select {now}))
 order by job.id
 limit :limit;

-- name: forget_workers
delete from duly.worker
 where lease_until < :before
   and not exists (select from duly.job where job.worker = worker.id and state = 'running')
returning id;

-- name: set_queue
insert into duly.queue (name, paused, note)
values (:name, :paused::int::boolean, :note)
    on conflict (name) do update set paused = excluded.paused, note = excluded.note;

-- name: list_queues
select name, paused, note
  from duly.queue
 order by name;
