-- part: schedule
id, name, task, args, rule, zone, policies, queue, priority, tenant, submitter, title, tags, owner,
       version, created_at, cursor, next_at, settled_until, revision, pause, awaiting, fault, zone_data,
       limits, needs, terms

-- part: now
-- The database is the clock. A time that is given is a test's. In a query of its own, so that it is
-- asked for once and not for every row: reading a clock may cost more than writing the row.
(select coalesce(:now::bigint, duly.now_us()))

-- name: add_schedules
-- A name that is there already gives no row: the caller sees which are missing.
insert into duly.schedule (id, name, task, args, rule, zone, policies, queue, priority, tenant,
                           submitter, title, tags, owner, version, created_at, cursor, next_at,
                           settled_until, revision, pause, awaiting, fault, zone_data,
                           limits, needs, terms)
select id, name, task, args, rule, zone, policies, queue, priority, tenant, submitter, title, tags,
       owner, version, created_at, created_at, next_at, null, 0, null, null, null, zone_data,
       limits, needs, terms
  from jsonb_to_recordset(:rows::jsonb) as asked (
           id bigint, name text, task text, args text, rule text, zone text, policies text,
           queue text, priority smallint, tenant text, submitter text, title text, tags text,
           owner text, version int, created_at bigint, next_at bigint, zone_data text, limits text,
           needs text, terms text)
    on conflict do nothing
returning id;

-- name: named_schedules
select {schedule}
  from duly.schedule
 where name = any(:names::text[])
 order by id;

-- name: hold_named_schedules
select {schedule}, {now}
  from duly.schedule
 where name = any(:names::text[])
 order by id
   for no key update;

-- part: raise_revisions
update duly.schedule
   set revision = revision + 1
 where id = any(array(select id from duly.schedule where id = any(:ids::bigint[]) order by id for update))
returning {schedule}, {now}

-- name: hold_schedules
-- The row is the lock: whoever decides about a schedule, or ends one of its jobs, holds it. Where
-- due schedules are read without a lock, the revision rises instead, and their decision is void.
/*[skip_locked]
select {schedule}, {now}
  from duly.schedule
 where id = any(:ids::bigint[])
 order by id
   for no key update
[skip_locked]*/
/*[!skip_locked]
{raise_revisions}
[!skip_locked]*/

-- name: hold_schedules_briefly
-- The same, for who has other work: a transaction of an application may hold one for long.
/*[skip_locked]
with patience as materialized (select set_config('lock_timeout', '500', true))
select {schedule}, {now}
  from duly.schedule, patience
 where id = any(:ids::bigint[])
 order by id
   for no key update of schedule
[skip_locked]*/
/*[!skip_locked]
{raise_revisions}
[!skip_locked]*/

-- name: similar_schedules
-- For "did you mean": names that begin alike.
select name
  from duly.schedule
 where starts_with(name, :start::text)
 order by name
 limit 200;

-- name: now
select {now};

-- name: list_schedules
select {schedule}
  from duly.schedule
 where name > :after::text
 order by name
 limit :limit;

-- name: due_schedules
-- Those with newer zone data are left to the nodes that have it, unless none of them comes. The
-- moment is asked for once, in a query of its own: a function that changes is no key for an index.
select {schedule}, {now}
  from duly.schedule
 where next_at <= {now}
   and (zone_data <= :zone_data::text or next_at <= {now} - :patience::bigint)
   and (settled_until > cursor) is not true
 order by next_at
 limit :limit
/*[skip_locked]
   for no key update skip locked
[skip_locked]*/

-- name: due_with_settled
-- Due schedules whose ledger has rows behind the cursor: after a rewind there may be very many, and
-- reading them must not hold up the others.
select {schedule}, {now}
  from duly.schedule
 where next_at <= {now}
   and (zone_data <= :zone_data::text or next_at <= {now} - :patience::bigint)
   and settled_until > cursor
 order by next_at
 limit :limit
/*[skip_locked]
   for no key update skip locked
[skip_locked]*/

-- name: next_due
-- How long until the next schedule is due, below zero if one is overdue; and whether one is due whose
-- ledger has rows behind the cursor.
select (select next_at from duly.schedule where next_at is not null order by next_at limit 1) - {now},
       exists (select from duly.schedule where next_at <= {now} and settled_until > cursor);

-- name: stale_schedules
-- Schedules whose next moment was computed with older zone data.
select {schedule}, {now}
  from duly.schedule
 where zone_data < :zone_data::text and id > :after::bigint
 order by id
 limit :limit;

-- name: advance_schedules
-- Compare and set: a decision is written only on the revision it was made on.
update duly.schedule
   set cursor = greatest(schedule.cursor, decided.cursor),
       next_at = decided.next_at,
       awaiting = decided.awaiting,
       fault = decided.fault,
       pause = decided.pause,
       zone_data = decided.zone_data,
       revision = schedule.revision + 1
  from jsonb_to_recordset(:rows::jsonb) as decided (
           id bigint, revision bigint, cursor bigint, next_at bigint, awaiting bigint, fault text,
           pause text, zone_data text)
 where schedule.id = {numbered}
   and schedule.id = decided.id
   and schedule.revision = decided.revision
returning schedule.id;

-- name: change_schedule
update duly.schedule
   set task = :task, args = :args, rule = :rule, zone = :zone, policies = :policies, queue = :queue,
       priority = :priority, tenant = :tenant, submitter = :submitter, title = :title, tags = :tags,
       owner = :owner, version = :version, limits = :limits, needs = :needs, terms = :terms,
       cursor = greatest(cursor, :cursor::bigint),
       next_at = :next_at, settled_until = :settled_until, pause = :pause, awaiting = :awaiting,
       fault = :fault, zone_data = :zone_data, revision = revision + 1
 where id = :id;

-- name: rewind_schedule
-- The one way in which a cursor goes back. What is in the ledger is not fired again.
update duly.schedule
   set cursor = :cursor, next_at = :next_at, settled_until = :settled_until, fault = null,
       revision = revision + 1
 where id = :id;

-- name: free_schedules
-- The end of the awaited job starts the delay. Comparing with the job makes a repeated end
-- harmless.
update duly.schedule
   set next_at = ended.next_at, awaiting = null, revision = revision + 1
  from jsonb_to_recordset(:rows::jsonb) as ended (id bigint, job_id bigint, next_at bigint)
 where schedule.id = {numbered}
   and schedule.id = ended.id
   and coalesce(schedule.awaiting, 0) = ended.job_id
returning schedule.id;

-- name: stranded_schedules
-- A net: fixed delays whose awaited job is gone.
select {schedule}, {now}
  from duly.schedule
 where awaiting is not null
   and not exists (select from duly.job where job.id = schedule.awaiting)
 order by id
 limit :limit
   for no key update;

-- name: settle_until
update duly.schedule
   set settled_until = :settled_until, revision = revision + 1
 where id = :id;

-- name: remove_schedule
delete from duly.schedule
 where id = :id
returning id;

-- name: record_change
insert into duly.change (schedule_id, at, name, who, what)
values (:schedule_id, {now}, :name, :who, :what);

-- name: list_changes
select at, who, what
  from duly.change
 where schedule_id = :schedule_id
 order by at desc
 limit :limit;

-- name: removed_schedule
-- Who had the name last.
select schedule_id
  from duly.change
 where name = :name
 order by at desc
 limit 1;
