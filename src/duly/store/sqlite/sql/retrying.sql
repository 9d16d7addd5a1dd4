-- name: peek_failed
-- What has to be looked at before they are revived.
select id, schedule_id, parent, step, task, key
  from duly_failed
 where id in (select value from json_each(:ids))
 order by id;

-- part: revival
-- Under its own number. What it crashed is forgotten, so it is not on the shelf of those who are run
-- alone.
insert into duly_job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf, parent, step, part)
select ended.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
       case when again.keyed then key end, again.state, created_at, due_at, :now, null, late, retry, 0, 0, null, fence, null,
       schedule_id, fire_id, again.reason, :now - priority * 1000000, request, limits, needs, terms,
       exists (select 1 from duly_queue where name = ended.queue and fair),
       (select {shelf_of_moment}
          from (select ended.limits as limits, ended.needs as needs, 0 as crashes,
                       ended.priority as priority, ended.schedule_id as schedule_id,
                       ended.request as request, ended.id as id) as it),
       parent, step, part

-- name: revive_jobs
-- Failed jobs that are given another chance.
{revival}
  from duly_failed as ended
  join (select value ->> 'id' as id, value ->> 'state' as state, value ->> 'reason' as reason,
               value ->> 'keyed' as keyed
          from json_each(:rows)) as again
    on ended.id = again.id
 where true
    on conflict (id) do nothing
returning id;

-- name: revive_stopped_flows
-- Flows that were cancelled with the one that they are a step of, and go on with it.
{revival}
  from duly_history as ended
  join (select value ->> 'id' as id, value ->> 'state' as state, value ->> 'reason' as reason,
               value ->> 'keyed' as keyed
          from json_each(:rows)) as again
    on ended.id = again.id
 where true
    on conflict (id) do nothing
returning id;

-- name: forget_failed
delete from duly_failed
 where id in (select value from json_each(:ids));
