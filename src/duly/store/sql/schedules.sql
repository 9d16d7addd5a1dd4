-- part: schedule
id, name, task, args, rule, zone, policies, queue, priority, tenant, submitter, title, tags, owner,
       version, created_at, cursor, next_at, settled_until, revision, pause, runs, awaiting, fault,
       zone_data, limits, needs, terms

-- name: add_schedules
-- A name that exists returns no row: the caller sees which are missing.
insert into duly.schedule (id, name, task, args, rule, zone, policies, queue, priority, tenant,
                           submitter, title, tags, owner, version, created_at, cursor, next_at,
                           settled_until, revision, pause, runs, awaiting, fault, zone_data,
                           limits, needs, terms)
select id, name, task, args, rule, zone, policies, queue, priority, tenant, submitter, title, tags,
       owner, version, created_at, cursor, next_at, null, 0, pause, 0, null, null, zone_data,
       limits, needs, terms
  from {rows :rows as asked (
           id bigint, name text, task text, args text, rule text, zone text, policies text,
           queue text, priority smallint, tenant text, submitter text, title text, tags text,
           owner text, version int, created_at bigint, cursor bigint, next_at bigint, pause text,
           zone_data text, limits text, needs text, terms text)}
 where true
    on conflict do nothing
returning id;

-- name: named_schedules
select {schedule}
  from duly.schedule
 where name {in :names::text[]}
 order by id;

-- name: hold_named_schedules
select {schedule}, {now}
  from duly.schedule
 where name {in :names::text[]}
 order by id
   {for no key update};

-- part: raise_revisions
-- Without SKIP LOCKED, due schedules are read without a lock: raising the revision voids decisions
-- made meanwhile.
update duly.schedule
   set revision = revision + 1
 where id {in (select id from duly.schedule where id {in :ids::bigint[]} order by id {for update})}
returning {schedule}, {now}

-- name: hold_schedules
-- Lock the schedules. Everything that decides about a schedule or ends one of its jobs takes this
-- lock.
/*[skip_locked]
select {schedule}, {now}
  from duly.schedule
 where id {in :ids::bigint[]}
 order by id
   {for no key update}
[skip_locked]*/
/*[!skip_locked] {raise_revisions} [!skip_locked]*/

-- name: hold_schedules for sqlite
select {schedule}, {now}
  from duly.schedule
 where id {in :ids::bigint[]}
 order by id;

-- name: hold_schedules_briefly for sqlite
select {schedule}, {now}
  from duly.schedule
 where id {in :ids::bigint[]}
 order by id;

-- name: hold_schedules_briefly for postgres
-- The same with a timeout, because a transaction of an application may hold a schedule for long.
/*[skip_locked]
with patience as materialized (select set_config('lock_timeout', '500', true))
select {schedule}, {now}
  from duly.schedule, patience
 where id {in :ids::bigint[]}
 order by id
   {for no key update of schedule}
[skip_locked]*/
/*[!skip_locked] {raise_revisions} [!skip_locked]*/

-- name: similar_schedules
-- For "did you mean": names with the same beginning.
select name
  from duly.schedule
 where substr(name, 1, length(:start::text)) = :start::text
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
-- Schedules with newer zone data are left to the nodes that have it, for as long as :patience.
select {schedule}, {now}
  from duly.schedule
 where next_at <= {now}
   and (zone_data <= :zone_data::text or next_at <= {now} - :patience::bigint)
   and (settled_until > cursor) is not true
 order by next_at
 limit :limit
   {skipping};

-- name: due_with_settled
-- Due schedules with recorded fires after the cursor: after a rewind there may be very many, and
-- reading them must not delay other schedules.
select {schedule}, {now}
  from duly.schedule
 where next_at <= {now}
   and (zone_data <= :zone_data::text or next_at <= {now} - :patience::bigint)
   and settled_until > cursor
 order by next_at
 limit :limit
   {skipping};

-- name: next_due
-- Microseconds until the next schedule is due (negative if overdue), and whether a schedule with
-- recorded fires after its cursor is due.
select (select next_at from duly.schedule where next_at is not null order by next_at limit 1) - {now},
       exists (select 1 from duly.schedule where next_at <= {now} and settled_until > cursor);

-- name: stale_schedules
-- Schedules whose next fire was computed with older zone data.
select {schedule}, {now}
  from duly.schedule
 where zone_data < :zone_data::text and id > :after::bigint
 order by id
 limit :limit;

-- part: advancing
   set cursor = {greatest}(schedule.cursor, decided.cursor),
       next_at = decided.next_at,
       awaiting = decided.awaiting,
       fault = decided.fault,
       pause = decided.pause,
       runs = schedule.runs + decided.runs,
       zone_data = decided.zone_data,
       revision = schedule.revision + 1

-- part: decided_schedule
id bigint, revision bigint, cursor bigint, next_at bigint, awaiting bigint, fault text,
           pause text, runs bigint, zone_data text

-- part: as_decided
-- Compare and set: a decision is written only if the revision is still the one it was made on.
schedule.id = decided.id
   and schedule.revision = decided.revision

-- name: advance_schedules
update duly.schedule
   {advancing}
  from {rows :rows as decided ({decided_schedule})}
 where {hint schedule.id in :rows ->> 'id'::bigint}
   and {as_decided}
returning schedule.id;

-- name: change_schedule
update duly.schedule
   set task = :task, args = :args, rule = :rule, zone = :zone, policies = :policies, queue = :queue,
       priority = :priority, tenant = :tenant, submitter = :submitter, title = :title, tags = :tags,
       owner = :owner, version = :version, limits = :limits, needs = :needs, terms = :terms,
       cursor = {greatest}(cursor, :cursor::bigint),
       next_at = :next_at, settled_until = :settled_until, pause = :pause, runs = :runs,
       awaiting = :awaiting, fault = :fault, zone_data = :zone_data, revision = revision + 1
 where id = :id;

-- name: rewind_schedule
-- The only statement that moves a cursor back. Recorded moments do not fire again.
update duly.schedule
   set cursor = :cursor, next_at = :next_at, settled_until = :settled_until, fault = null,
       revision = revision + 1
 where id = :id;

-- name: free_schedules
-- The end of the awaited job starts the delay. The schedules are locked, and were found to await it
-- under that lock.
update duly.schedule
   set next_at = ended.next_at, awaiting = null, revision = revision + 1
  from {rows :rows as ended (id bigint, next_at bigint)}
 where {hint schedule.id in :rows ->> 'id'::bigint}
   and schedule.id = ended.id
returning schedule.id;

-- name: stranded_schedules
-- A safety net: fixed delays whose awaited job is gone.
select {schedule}, {now}
  from duly.schedule
 where awaiting is not null
   and not exists (select 1 from duly.job where job.id = schedule.awaiting)
 order by id
 limit :limit
   {for no key update};

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
-- The schedule that had the name last.
select schedule_id
  from duly.change
 where name = :name
 order by at desc
 limit 1;
