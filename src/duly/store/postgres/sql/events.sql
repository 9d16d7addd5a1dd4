-- What happened, and what is done about it.

-- part: event
id, name, payload, key, at, submitter, tenant

-- name: emit_events
-- Numbers are made by the caller, so that a repeated call after a lost answer says nothing twice.
insert into duly.event (id, name, key, payload, submitter, tenant, at, seen)
select id, name, key, payload, submitter, tenant, clock.now, false
  from json_to_recordset(:batch::json) as said (
           id bigint, name text, key text, payload text, submitter text, tenant text),
       (select {now} as now offset 0) as clock
    on conflict (id) do nothing
returning id;

-- name: any_unseen
select 1
  from duly.event
 where not seen
 limit 1;

-- name: hold_reactor
-- One reactor at a time, so that events are looked at in their order. The row is the lock: the first
-- one ever makes it.
insert into duly.reactor (place)
values (1)
    on conflict (place) do update set place = 1
returning {now};

-- name: be_brief
-- From here on, for who has other work: what somebody else holds is left to the next time.
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
 where id = any(:ids::bigint[]);

-- name: reacting_schedules
-- By the index that has only those.
select {schedule}, {now}
  from duly.schedule
 where left(rule, 3) = 'on '
 order by id;

-- name: later_events
-- What may have called off what is about to be started: of what nobody has looked at, the nearest.
select {event}
  from duly.event
 where name >= :low::text and name <= :high::text and at >= :since::bigint
   and (seen or at <= coalesce((select ahead.at from duly.event as ahead where not ahead.seen
                                 order by ahead.at, ahead.id
                                 limit 1 offset :ahead::bigint), event.at))
 order by at, id;

-- name: replayable_events
-- Those behind a place in a stretch of time for which a schedule has no row in its ledger, or one
-- that says that nothing was done while it could not be. The row of a job that waits long may have
-- been forgotten before the job begins.
select {event},
       (select fire.id
          from duly.fire
         where fire.schedule_id = :schedule_id::bigint and fire.due_at = event.at
           and fire.series = event.id) as fire_id
  from duly.event
 where name >= :low::text and name <= :high::text and (at, id) > (:at::bigint, :id::bigint)
   and at < :until::bigint
   and not exists (select
                     from duly.fire
                    where fire.schedule_id = :schedule_id::bigint and fire.due_at = event.at
                      and fire.series = event.id
                      and not (fire.outcome = 'skipped' and fire.cause in ('refused', 'paused')))
   and not exists (select
                     from duly.job
                    where job.schedule_id = :schedule_id::bigint and job.request = event.id
                      and job.request <> job.id)
 order by at, id
 limit :limit;

-- name: key_holders
-- What the keys stand for, and which event has made it so, as far as that is remembered.
select job_key.task, job_key.key, job.id, job.state, job.schedule_id, job.fire_id, job.tenant,
       job.attempt, event.id, event.at
  from jsonb_to_recordset(:rows::jsonb) as asked (task text, key text)
  join duly.job_key on job_key.task = asked.task and job_key.key = asked.key
  join duly.job on job.id = job_key.job_id
  left join duly.event on event.id = job.request;

-- name: adopt_jobs
-- Jobs that were moved stand for another event now, perhaps of another schedule.
update duly.job
   set schedule_id = newer.schedule_id, fire_id = newer.fire_id
  from jsonb_to_recordset(:rows::jsonb) as newer (id bigint, schedule_id bigint, fire_id bigint)
 where job.id = {numbered} and job.id = newer.id;

-- name: revise_fires
-- What became of events is not always what was thought: another event took their place, or called
-- them off.
update duly.fire
   set outcome = known.outcome, cause = known.cause, reason = known.reason, job_id = known.job_id
  from jsonb_to_recordset(:rows::jsonb) as known (
           schedule_id bigint, due_at bigint, id bigint, outcome text, cause text, reason text,
           job_id bigint)
 where fire.schedule_id = known.schedule_id
   and fire.due_at = known.due_at
   and fire.id = known.id;

-- name: get_events
select {event}
  from duly.event
 where id = any(:ids::bigint[]);

-- name: page_events
-- The newest first, behind a place.
select {event}
  from duly.event
 where name >= :low::text and name <= :high::text and at >= :since::bigint and at < :until::bigint
   and (:key::text is null or key = :key::text)
   and (:tenant::text is null or tenant = :tenant::text)
   and (at, id) < (:at::bigint, :id::bigint)
 order by at desc, id desc
 limit :limit;

-- name: reactions_to
-- The rows of the ledger for some events, of schedules that are there and react to events.
select schedule.name, {reacted}
  from duly.event
  join duly.schedule on left(schedule.rule, 3) = 'on '
  join duly.fire on fire.schedule_id = schedule.id
                and fire.due_at = event.at and fire.series = event.id
 where event.id = any(:ids::bigint[]);

-- part: reacted
fire.id, schedule_id, due_at, covers_from, count, outcome, cause, reason, decided_at, job_id, series

-- name: prune_events
-- What nobody has looked at stays, however old it is; and so does what a job waits to react to.
delete from duly.event
 where id = any(array(select id
                        from duly.event
                       where at < :before and seen
                         and not exists (select
                                           from duly.job
                                          where job.request = event.id and job.request <> job.id)
                       order by at
                       limit :limit))
returning id;
