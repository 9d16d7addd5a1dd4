-- name: peek_failed
-- What has to be looked at before they are revived.
select id, schedule_id, parent, step
  from duly_failed
 where id in (select value from json_each(:ids))
 order by id;

-- name: revive_jobs
-- Failed jobs that are given another chance, under their own numbers. What they crashed is forgotten,
-- so none of them is on the shelf of those who are run alone.
insert into duly_job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf, parent, step, part)
select duly_failed.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
       null, again.state, created_at, due_at, :now, null, late, retry, 0, 0, null, fence, null,
       schedule_id, fire_id, again.reason, :now - priority * 1000000, request, limits, needs, terms,
       exists (select 1 from duly_queue where name = duly_failed.queue and fair),
       (select {shelf}
          from (select duly_failed.limits as limits, duly_failed.needs as needs, 0 as crashes,
                       duly_failed.priority as priority) as it),
       parent, step, part
  from duly_failed
  join (select value ->> 'id' as id, value ->> 'state' as state, value ->> 'reason' as reason
          from json_each(:rows)) as again
    on duly_failed.id = again.id
 where true
    on conflict (id) do nothing
returning id;

-- name: revive_stopped_flows
-- The same for flows that were cancelled with the one that they are a step of.
insert into duly_job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf, parent, step, part)
select duly_history.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
       null, again.state, created_at, due_at, :now, null, late, retry, 0, 0, null, fence, null,
       schedule_id, fire_id, again.reason, :now - priority * 1000000, request, limits, needs, terms,
       exists (select 1 from duly_queue where name = duly_history.queue and fair),
       (select {shelf}
          from (select duly_history.limits as limits, duly_history.needs as needs, 0 as crashes,
                       duly_history.priority as priority) as it),
       parent, step, part
  from duly_history
  join (select value ->> 'id' as id, value ->> 'state' as state, value ->> 'reason' as reason
          from json_each(:rows)) as again
    on duly_history.id = again.id
 where true
    on conflict (id) do nothing
returning id;

-- name: forget_failed
delete from duly_failed
 where id in (select value from json_each(:ids));
