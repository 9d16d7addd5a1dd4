-- name: peek_failed
-- What has to be locked before they are revived.
select id, schedule_id, parent, step
  from duly.failed
 where id = any(:ids::bigint[])
 order by id;

-- name: revive_jobs
-- Failed jobs that are given another chance, under their own numbers. What they crashed is forgotten,
-- so none of them is on the shelf of those who are run alone.
insert into duly.job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf, parent, step, part)
select failed.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, null,
       again.state, created_at, due_at, clock.now, null, late, retry, 0, 0, null, fence, null,
       schedule_id, fire_id, again.reason, clock.now - priority * 1000000::bigint, request, limits,
       needs, terms, exists (select from duly.queue where queue.name = failed.queue and queue.fair),
       (select {shelf}
          from (select failed.limits as limits, failed.needs as needs, 0 as crashes,
                       failed.priority as priority) as it),
       parent, step, part
  from duly.failed
  join jsonb_to_recordset(:rows::jsonb) as again (id bigint, state text, reason text)
    on failed.id = again.id
 cross join (select {now} as now offset 0) as clock
 order by failed.id
   for update of failed
    on conflict (id) do nothing
returning id;

-- name: revive_stopped_flows
-- The same for flows that were cancelled with the one that they are a step of.
insert into duly.job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf, parent, step, part)
select history.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, null,
       again.state, created_at, due_at, clock.now, null, late, retry, 0, 0, null, fence, null,
       schedule_id, fire_id, again.reason, clock.now - priority * 1000000::bigint, request, limits,
       needs, terms, exists (select from duly.queue where queue.name = history.queue and queue.fair),
       (select {shelf}
          from (select history.limits as limits, history.needs as needs, 0 as crashes,
                       history.priority as priority) as it),
       parent, step, part
  from duly.history
  join jsonb_to_recordset(:rows::jsonb) as again (id bigint, state text, reason text)
    on history.id = again.id
 cross join (select {now} as now offset 0) as clock
 order by history.id
   for update of history
    on conflict (id) do nothing
returning id;

-- name: forget_failed
delete from duly.failed
 where id = any(:ids::bigint[]);
