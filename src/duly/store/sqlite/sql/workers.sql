-- name: register_worker
insert into duly_worker (id, name, queues, tasks, started_at, lease_until)
values (:id, :name, :queues, :tasks, :now, :now + :lease)
    on conflict (id) do nothing
returning id;

-- name: renew_lease
-- A lease that has expired is never renewed: somebody may be taking its jobs back.
update duly_worker
   set lease_until = :now + :lease
 where id = :id and lease_until > :now
returning lease_until;

-- name: end_lease
update duly_worker
   set lease_until = min(lease_until, :now)
 where id = :id
returning id;

-- name: list_workers
select id, name, queues, tasks, started_at, lease_until
  from duly_worker
 order by id;

-- name: lost_jobs
-- Jobs whose worker has no lease, or no row. By absence, so that a claim which commits after its
-- worker's row is gone is found too; paged by number, so that no row can hide those behind it.
select duly_job.id, duly_job.fence, duly_job.attempt, duly_job.crashes, duly_job.retry,
       duly_job.worker, duly_job.schedule_id, duly_job.task, duly_job.key
  from duly_job
 where duly_job.state = 'running' and duly_job.id > :after
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

-- name: set_queue
insert into duly_queue (name, paused, note)
values (:name, :paused, :note)
    on conflict (name) do update set paused = excluded.paused, note = excluded.note;

-- name: list_queues
select name, paused, note
  from duly_queue
 order by name;
