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
