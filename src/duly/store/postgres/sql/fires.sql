-- part: fire
id, schedule_id, due_at, covers_from, count, outcome, cause, reason, decided_at, job_id, series

-- name: record_fires
-- A moment that is in the ledger already is not an error: it gets no second row, and no job.
insert into duly.fire (id, schedule_id, due_at, covers_from, count, outcome, cause, reason,
                       decided_at, job_id, series)
select id, schedule_id, due_at, covers_from, count, outcome, cause, reason, {now}, job_id, series
  from jsonb_to_recordset(:rows::jsonb) as decided (
           id bigint, schedule_id bigint, due_at bigint, covers_from bigint, count bigint,
           outcome text, cause text, reason text, job_id bigint, series bigint)
    on conflict (schedule_id, due_at, series) do nothing
returning id;

-- name: merge_fires
-- Older moments whose waiting job now stands for a newer one.
update duly.fire
   set outcome = 'merged', reason = older.reason
  from jsonb_to_recordset(:rows::jsonb) as older (
           schedule_id bigint, due_at bigint, fire_id bigint, reason text)
 where fire.schedule_id = older.schedule_id
   and fire.due_at = older.due_at
   and fire.id = older.fire_id;

-- name: settled_fires
-- Moments of a schedule behind an instant that are in the ledger already, the oldest first.
select due_at
  from duly.fire
 where schedule_id = :schedule_id and due_at > :after and due_at <= :until and series = 0
 order by due_at
 limit :limit;

-- name: skipped_ahead
-- Of each schedule, the moments to come that somebody has skipped in advance.
select fire.schedule_id, fire.due_at
  from duly.schedule
  join duly.fire on fire.schedule_id = schedule.id
                and fire.due_at > {now} and fire.due_at <= schedule.settled_until
 where schedule.id = any(:ids::bigint[])
   and fire.series = 0 and fire.cause = 'asked'
 order by fire.schedule_id, fire.due_at;

-- name: recorded_fires
select due_at
  from duly.fire
 where schedule_id = :schedule_id and due_at >= :since and id = any(:ids::bigint[])
 order by due_at;

-- name: list_fires
select {fire}
  from duly.fire
 where schedule_id = :schedule_id and due_at >= :since and due_at < :until
 order by due_at desc, series desc
 limit :limit;

-- name: latest_fires
-- Of each schedule, the moment that was dealt with last; not those that somebody skipped ahead.
select {fire}
  from unnest(:ids::bigint[]) as asked (number)
 cross join lateral (select {fire}
                       from duly.fire
                      where schedule_id = asked.number and due_at <= {now}
                      order by due_at desc, series desc
                      limit 1) as latest;

-- name: recent_fires
-- Of each schedule, the last moments that were dealt with.
select {fire}
  from unnest(:ids::bigint[]) as asked (number)
 cross join lateral (select {fire}
                       from duly.fire
                      where schedule_id = asked.number and due_at <= {now}
                      order by due_at desc, series desc
                      limit :limit) as recent
 order by due_at desc, series desc;

-- name: fire_of_series
select {fire}
  from duly.fire
 where schedule_id = :schedule_id and series = :series and due_at >= :since
 limit 1;

-- name: covering_fires
-- The rows that may cover a moment: its own, or stretches that reach over it. They were written by
-- one decision, which has at most some ten thousand rows.
select {fire}
  from (select {fire}
          from duly.fire
         where schedule_id = :schedule_id and due_at >= :moment and series = 0
         order by due_at
         limit 10100) as behind
 where covers_from <= :moment
 order by due_at
 limit 10;

-- name: stretches_behind
-- The rows that stand for several moments, some of them behind a moment.
select {fire}
  from duly.fire
 where schedule_id = :schedule_id and due_at > :moment and series = 0 and count is distinct from 1
 order by due_at;

-- name: forget_fire
delete from duly.fire
 where schedule_id = :schedule_id and due_at = :due_at and series = 0;
