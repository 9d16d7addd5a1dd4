-- part: event
id, name, payload, key, at, submitter, tenant

-- name: emit_events
-- The caller chooses the numbers, so that a call repeated after a lost answer emits nothing twice.
insert into duly.event (id, name, key, payload, submitter, tenant, at, seen)
select id, name, key, payload, submitter, tenant, clock.now, false
  from {rows :batch as said (
           id bigint, name text, key text, payload text, submitter text, tenant text)},
       {clock}
 where true
    on conflict (id) do nothing
returning id;

-- name: any_unseen
select 1
  from duly.event
 where not seen
 limit 1;

-- name: hold_reactor for sqlite
select {now};

-- name: hold_reactor for postgres
-- Lock the row that lets one reactor run at a time, so that events are handled in order.
insert into duly.reactor (place)
values (1)
    on conflict (place) do update set place = 1
returning {now};

-- name: be_brief
-- Wait at most 50 ms for locks from here on: the reactor leaves locked rows to its next turn.
/*[skip_locked]
select set_config('lock_timeout', '50', true)
[skip_locked]*/
/*[!skip_locked]
select 1
[!skip_locked]*/

-- name: unseen_events
select {event}
  from duly.event
 where not seen and (at, id) > (:at::bigint, :id::bigint)
 order by at, id
 limit :limit;

-- name: see_events
update duly.event
   set seen = true
 where id {in :ids::bigint[]};

-- name: reacting_schedules
select {schedule}, {now}
  from duly.schedule
 where substr(rule, 1, 3) = 'on '
 order by id;

-- name: later_events
-- Events that may cancel a pending reaction: handled ones, and the next :ahead unhandled ones. They
-- are not searched by name: there may be millions of events of one name.
select {event}
  from duly.event
 where name || '' >= :low::text and name || '' <= :high::text and at >= :since::bigint
   and (seen or at <= coalesce((select ahead.at from duly.event as ahead where not ahead.seen
                                 order by ahead.at, ahead.id
                                 limit 1 offset :ahead::bigint), event.at))
 order by at, id;

-- name: replayable_events
-- Events after a cursor to which a schedule has not reacted: without a fire, or skipped because the
-- schedule was paused or refused. A fire may be pruned while its job still waits, so jobs count too.
select {event},
       (select fire.id
          from duly.fire
         where fire.schedule_id = :schedule_id::bigint and fire.due_at = event.at
           and fire.series = event.id) as fire_id
  from duly.event
 where name >= :low::text and name <= :high::text and (at, id) > (:at::bigint, :id::bigint)
   and at < :until::bigint
   and not exists (select 1
                     from duly.fire
                    where fire.schedule_id = :schedule_id::bigint and fire.due_at = event.at
                      and fire.series = event.id
                      and not (fire.outcome = 'skipped' and fire.cause in ('refused', 'paused')))
   and not exists (select 1
                     from duly.job
                    where job.schedule_id = :schedule_id::bigint and job.request = event.id
                      and job.request <> job.id)
 order by at, id
 limit :limit;

-- name: key_holders
-- The jobs that hold the keys, and the events that created them if they are not pruned.
select job_key.task, job_key.key, job.id, job.state, job.schedule_id, job.fire_id, job.tenant,
       job.attempt, (select event.id from duly.event where event.id = job.request),
       (select event.at from duly.event where event.id = job.request)
  from (select asked.task, asked.key,
               (select held.job_id
                  from duly.job_key as held
                 where held.task = asked.task and held.key = asked.key) as job_id
          from {rows :rows as asked (task text, key text)}
         {postgres offset 0}) as job_key
{lateral duly.job as job where job.id = job_key.job_id limit 1};

-- name: adopt_jobs
-- Assign replaced jobs to the fires of the events that replaced them.
update duly.job
   set schedule_id = newer.schedule_id, fire_id = newer.fire_id
  from {rows :rows as newer (id bigint, schedule_id bigint, fire_id bigint)}
 where {hint job.id in :rows ->> 'id'::bigint} and job.id = newer.id;

-- name: revise_fires
-- Correct fires whose event was replaced or cancelled by a later one.
update duly.fire
   set outcome = known.outcome, cause = known.cause, reason = known.reason, job_id = known.job_id
  from {rows :rows as known (
           schedule_id bigint, due_at bigint, id bigint, outcome text, cause text, reason text,
           job_id bigint)}
 where fire.schedule_id = known.schedule_id
   and fire.due_at = known.due_at
   and fire.id = known.id;

-- name: get_events
select {event}
  from duly.event
 where id {in :ids::bigint[]};

-- name: page_events
-- The newest first, starting after a cursor.
select {event}
  from duly.event
 where name >= :low::text and name <= :high::text and at >= :since::bigint and at < :until::bigint
   and (:key::text is null or key = :key::text)
   and (:tenant::text is null or tenant = :tenant::text)
   and (at, id) < (:at::bigint, :id::bigint)
 order by at desc, id desc
 limit :limit;

-- name: reactions_to
-- The fires of these events. SQLite's cross join keeps the order of the tables.
select schedule.name, {reacted}
  from duly.event
  {sqlite cross} join duly.schedule on substr(schedule.rule, 1, 3) = 'on '
  {sqlite cross} join duly.fire on fire.schedule_id = schedule.id
                and fire.due_at = event.at and fire.series = event.id
 where event.id {in :ids::bigint[]};

-- part: reacted
fire.id, schedule_id, due_at, covers_from, count, outcome, cause, reason, decided_at, job_id, series

-- name: prune_events
-- Events that are not handled stay, and events whose reaction has not ended.
delete from duly.event
 where id {in (
           select id
             from duly.event
            where at < :before and seen
              and not exists (select 1
                                from duly.job
                               where job.request = event.id and job.request <> job.id)
            order by at
            limit :limit)}
returning id;
