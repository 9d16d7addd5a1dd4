-- part: schedule
id, name, task, args, rule, zone, policies, queue, priority, tenant, submitter, title, tags, owner,
       version, created_at, cursor, next_at, settled_until, revision, pause, awaiting, fault, zone_data,
       limits, needs, terms

-- name: add_schedules
-- A name that is there already gives no row: the caller sees which are missing.
insert into duly_schedule (id, name, task, args, rule, zone, policies, queue, priority, tenant,
                           submitter, title, tags, owner, version, created_at, cursor, next_at,
                           settled_until, revision, pause, awaiting, fault, zone_data,
                           limits, needs, terms)
select value ->> 'id', value ->> 'name', value ->> 'task', value ->> 'args', value ->> 'rule',
       value ->> 'zone', value ->> 'policies', value ->> 'queue', value ->> 'priority',
       value ->> 'tenant', value ->> 'submitter', value ->> 'title', value ->> 'tags',
       value ->> 'owner', value ->> 'version', value ->> 'created_at', value ->> 'created_at',
       value ->> 'next_at',
       null, 0, null, null, null, value ->> 'zone_data', value ->> 'limits', value ->> 'needs',
       value ->> 'terms'
  from json_each(:rows)
 where true
    on conflict do nothing
returning id;

-- name: named_schedules
select {schedule}
  from duly_schedule
 where name in (select value from json_each(:names))
 order by id;

-- name: hold_named_schedules
select {schedule}, :now
  from duly_schedule
 where name in (select value from json_each(:names))
 order by id;

-- name: hold_schedules
-- The row is the lock: whoever decides about a schedule, or ends one of its jobs, holds it. On
-- SQLite there is one writer, and the whole database is its lock.
select {schedule}, :now
  from duly_schedule
 where id in (select value from json_each(:ids))
 order by id;

-- name: hold_schedules_briefly
-- The same: nobody here waits for a single row.
select {schedule}, :now
  from duly_schedule
 where id in (select value from json_each(:ids))
 order by id;

-- name: similar_schedules
-- For "did you mean": names that begin alike.
select name
  from duly_schedule
 where name >= :start and name < :start || char(1114111)
 order by name
 limit 200;

-- name: now
select :now;

-- name: list_schedules
select {schedule}
  from duly_schedule
 where name > :after
 order by name
 limit :limit;

-- name: due_schedules
-- Those with newer zone data are left to the nodes that have it, unless none of them comes.
select {schedule}, :now
  from duly_schedule
 where next_at <= :now and (zone_data <= :zone_data or next_at <= :now - :patience)
   and (settled_until > cursor) is not true
 order by next_at
 limit :limit;

-- name: due_with_settled
-- Due schedules whose ledger has rows behind the cursor: after a rewind there may be very many, and
-- reading them must not hold up the others.
select {schedule}, :now
  from duly_schedule
 where next_at <= :now and (zone_data <= :zone_data or next_at <= :now - :patience)
   and settled_until > cursor
 order by next_at
 limit :limit;

-- name: next_due
-- How long until the next schedule is due, below zero if one is overdue; and whether one is due whose
-- ledger has rows behind the cursor.
select min(next_at) - :now,
       exists (select 1 from duly_schedule where next_at <= :now and settled_until > cursor)
  from duly_schedule
 where next_at is not null;

-- name: stale_schedules
-- Schedules whose next moment was computed with older zone data.
select {schedule}, :now
  from duly_schedule
 where zone_data < :zone_data and id > :after
 order by id
 limit :limit;

-- name: advance_schedules
-- Compare and set: a decision is written only on the revision it was made on.
update duly_schedule
   set cursor = max(duly_schedule.cursor, decided.cursor),
       next_at = decided.next_at,
       awaiting = decided.awaiting,
       fault = decided.fault,
       pause = decided.pause,
       zone_data = decided.zone_data,
       revision = duly_schedule.revision + 1
  from (select value ->> 'id' as id, value ->> 'revision' as revision, value ->> 'cursor' as cursor,
               value ->> 'next_at' as next_at, value ->> 'awaiting' as awaiting,
               value ->> 'fault' as fault, value ->> 'pause' as pause,
               value ->> 'zone_data' as zone_data
          from json_each(:rows)) as decided
 where duly_schedule.id = decided.id
   and duly_schedule.revision = decided.revision
returning duly_schedule.id;

-- name: change_schedule
update duly_schedule
   set task = :task, args = :args, rule = :rule, zone = :zone, policies = :policies, queue = :queue,
       priority = :priority, tenant = :tenant, submitter = :submitter, title = :title, tags = :tags,
       owner = :owner, version = :version, limits = :limits, needs = :needs, terms = :terms, cursor = max(cursor, :cursor), next_at = :next_at,
       settled_until = :settled_until, pause = :pause, awaiting = :awaiting, fault = :fault,
       zone_data = :zone_data, revision = revision + 1
 where id = :id;

-- name: rewind_schedule
-- The one way in which a cursor goes back. What is in the ledger is not fired again.
update duly_schedule
   set cursor = :cursor, next_at = :next_at, settled_until = :settled_until, fault = null,
       revision = revision + 1
 where id = :id;

-- name: free_schedules
-- The end of the awaited job starts the delay. Comparing with the job makes a repeated end
-- harmless.
update duly_schedule
   set next_at = ended.next_at, awaiting = null, revision = revision + 1
  from (select value ->> 'id' as id, value ->> 'job_id' as job_id, value ->> 'next_at' as next_at
          from json_each(:rows)) as ended
 where duly_schedule.id = ended.id
   and duly_schedule.awaiting = ended.job_id
returning duly_schedule.id;

-- name: stranded_schedules
-- A net: fixed delays whose awaited job is gone.
select {schedule}, :now
  from duly_schedule
 where awaiting is not null
   and not exists (select 1 from duly_job where duly_job.id = duly_schedule.awaiting)
 order by id
 limit :limit;

-- name: settle_until
update duly_schedule
   set settled_until = :settled_until, revision = revision + 1
 where id = :id;

-- name: remove_schedule
delete from duly_schedule
 where id = :id
returning id;

-- name: record_change
insert into duly_change (schedule_id, at, name, who, what)
values (:schedule_id, :now, :name, :who, :what);

-- name: list_changes
select at, who, what
  from duly_change
 where schedule_id = :schedule_id
 order by at desc
 limit :limit;

-- name: removed_schedule
-- Who had the name last.
select schedule_id
  from duly_change
 where name = :name
 order by at desc
 limit 1;
