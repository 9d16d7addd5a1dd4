-- What happened, and what is done about it.

-- part: event
id, name, payload, key, at, submitter, tenant

-- name: emit_events
-- Numbers are made by the caller, so that a repeated call after a lost answer says nothing twice.
insert into duly_event (id, name, key, payload, submitter, tenant, at, seen)
select value ->> 'id', value ->> 'name', value ->> 'key', value ->> 'payload',
       value ->> 'submitter', value ->> 'tenant', :now, 0
  from json_each(:batch)
 where true
    on conflict (id) do nothing
returning id;

-- name: any_unseen
select 1
  from duly_event
 where not seen
 limit 1;

-- name: hold_reactor
-- One reactor at a time, so that events are looked at in their order. On SQLite there is one writer.
select :now;

-- name: be_brief
-- Nobody here waits for a single row.
select 1;

-- name: unseen_events
select {event}
  from duly_event
 where not seen and (at, id) > (:at, :id)
 order by at, id
 limit :limit;

-- name: see_events
update duly_event
   set seen = 1
 where id in (select value from json_each(:ids));

-- name: reacting_schedules
-- By the index that has only those.
select {schedule}, :now
  from duly_schedule
 where substr(rule, 1, 3) = 'on '
 order by id;

-- name: later_events
-- What may have called off what is about to be started: of what nobody has looked at, the nearest.
-- By their moments: of a name there may be millions.
select {event}
  from duly_event
 where +name >= :low and +name <= :high and at >= :since
   and (seen or at <= ifnull((select at from duly_event where not seen order by at, id
                               limit 1 offset :ahead), at))
 order by at, id;

-- name: replayable_events
-- Those behind a place in a stretch of time for which a schedule has no row in its ledger, or one
-- that says that nothing was done while it could not be. The row of a job that waits long may have
-- been forgotten before the job begins.
select {event},
       (select id
          from duly_fire
         where schedule_id = :schedule_id and due_at = duly_event.at
           and series = duly_event.id) as fire_id
  from duly_event
 where name >= :low and name <= :high and (at, id) > (:at, :id) and at < :until
   and not exists (select 1
                     from duly_fire
                    where schedule_id = :schedule_id and due_at = duly_event.at
                      and series = duly_event.id
                      and not (outcome = 'skipped' and cause in ('refused', 'paused')))
   and not exists (select 1
                     from duly_job
                    where schedule_id = :schedule_id and request = duly_event.id
                      and request <> duly_job.id)
 order by at, id
 limit :limit;

-- name: key_holders
-- What the keys stand for, and which event has made it so, as far as that is remembered.
select duly_job_key.task, duly_job_key.key, duly_job.id, duly_job.state, duly_job.schedule_id,
       duly_job.fire_id, duly_job.tenant, duly_job.attempt, duly_event.id, duly_event.at
  from (select value ->> 'task' as task, value ->> 'key' as key from json_each(:rows)) as asked
  join duly_job_key on duly_job_key.task = asked.task and duly_job_key.key = asked.key
  join duly_job on duly_job.id = duly_job_key.job_id
  left join duly_event on duly_event.id = duly_job.request;

-- name: adopt_jobs
-- Jobs that were moved stand for another event now, perhaps of another schedule.
update duly_job
   set schedule_id = newer.schedule_id, fire_id = newer.fire_id
  from (select value ->> 'id' as id, value ->> 'schedule_id' as schedule_id,
               value ->> 'fire_id' as fire_id
          from json_each(:rows)) as newer
 where duly_job.id = newer.id;

-- name: revise_fires
-- What became of events is not always what was thought: another event took their place, or called
-- them off.
update duly_fire
   set outcome = known.outcome, cause = known.cause, reason = known.reason, job_id = known.job_id
  from (select value ->> 'schedule_id' as schedule_id, value ->> 'due_at' as due_at,
               value ->> 'id' as id, value ->> 'outcome' as outcome, value ->> 'cause' as cause,
               value ->> 'reason' as reason, value ->> 'job_id' as job_id
          from json_each(:rows)) as known
 where duly_fire.schedule_id = known.schedule_id
   and duly_fire.due_at = known.due_at
   and duly_fire.id = known.id;

-- name: get_events
select {event}
  from duly_event
 where id in (select value from json_each(:ids));

-- name: page_events
-- The newest first, behind a place.
select {event}
  from duly_event
 where name >= :low and name <= :high and at >= :since and at < :until
   and (:key is null or key = :key)
   and (:tenant is null or tenant = :tenant)
   and (at, id) < (:at, :id)
 order by at desc, id desc
 limit :limit;

-- name: reactions_to
-- The rows of the ledger for some events, of schedules that are there and react to events; in this
-- order, which a cross join keeps.
select duly_schedule.name, {reacted}
  from duly_event
 cross join duly_schedule
 cross join duly_fire
 where duly_event.id in (select value from json_each(:ids))
   and substr(duly_schedule.rule, 1, 3) = 'on '
   and duly_fire.schedule_id = duly_schedule.id
   and duly_fire.due_at = duly_event.at and duly_fire.series = duly_event.id;

-- part: reacted
duly_fire.id, schedule_id, due_at, covers_from, count, outcome, cause, reason, decided_at, job_id,
       series

-- name: prune_events
-- What nobody has looked at stays, however old it is; and so does what a job waits to react to.
delete from duly_event
 where id in (select id
                from duly_event
               where at < :before and seen
                 and not exists (select 1
                                   from duly_job
                                  where request = duly_event.id and request <> duly_job.id)
               order by at
               limit :limit)
returning id;
