-- part: fire
id, schedule_id, due_at, covers_from, count, outcome, cause, reason, decided_at, job_id, series

-- name: record_fires
-- A moment that is in the ledger already is not an error: it gets no second row, and no job.
insert into duly_fire (id, schedule_id, due_at, covers_from, count, outcome, cause, reason,
                       decided_at, job_id, series)
select value ->> 'id', value ->> 'schedule_id', value ->> 'due_at', value ->> 'covers_from',
       value ->> 'count', value ->> 'outcome', value ->> 'cause', value ->> 'reason', :now,
       value ->> 'job_id', value ->> 'series'
  from json_each(:rows)
 where true
    on conflict (schedule_id, due_at, series) do nothing
returning id;

-- name: merge_fires
-- Older moments whose waiting job now stands for a newer one.
update duly_fire
   set outcome = 'merged', reason = older.reason
  from (select value ->> 'schedule_id' as schedule_id, value ->> 'due_at' as due_at,
               value ->> 'fire_id' as fire_id, value ->> 'reason' as reason
          from json_each(:rows)) as older
 where duly_fire.schedule_id = older.schedule_id
   and duly_fire.due_at = older.due_at
   and duly_fire.id = older.fire_id;

-- name: settled_fires
-- Moments of a schedule behind an instant that are in the ledger already, the oldest first.
select due_at
  from duly_fire
 where schedule_id = :schedule_id and due_at > :after and due_at <= :until and series = 0
 order by due_at
 limit :limit;

-- name: skipped_ahead
-- Of each schedule, the moments to come that somebody has skipped in advance.
select duly_fire.schedule_id, duly_fire.due_at
  from duly_schedule
  join duly_fire on duly_fire.schedule_id = duly_schedule.id
                and duly_fire.due_at > :now and duly_fire.due_at <= duly_schedule.settled_until
 where duly_schedule.id in (select value from json_each(:ids))
   and duly_fire.series = 0 and duly_fire.cause = 'asked'
 order by duly_fire.schedule_id, duly_fire.due_at;

-- name: recorded_fires
select due_at
  from duly_fire
 where schedule_id = :schedule_id and due_at >= :since
   and id in (select value from json_each(:ids))
 order by due_at;

-- name: list_fires
select {fire}
  from duly_fire
 where schedule_id = :schedule_id and due_at >= :since and due_at < :until
 order by due_at desc, series desc
 limit :limit;

-- name: latest_fires
-- Of each schedule, the moment that was dealt with last; not those that somebody skipped ahead.
select {fire}
  from duly_fire
 where (schedule_id, due_at) in (select value,
                                        (select max(due_at)
                                           from duly_fire
                                          where schedule_id = value and due_at <= :now)
                                   from json_each(:ids))
 order by series;

-- name: recent_fires
-- Of each schedule, the last moments that were dealt with, and those that share the first of them.
select {fire}
  from duly_fire
  join (select value as number,
               coalesce((select due_at
                           from duly_fire
                          where schedule_id = value and due_at <= :now
                          order by due_at desc, series desc
                          limit 1 offset :limit - 1), 0) as since
          from json_each(:ids)) as asked
    on schedule_id = asked.number and due_at >= asked.since and due_at <= :now
 order by due_at desc, series desc;

-- name: fire_of_series
select {fire}
  from duly_fire
 where schedule_id = :schedule_id and series = :series and due_at >= :since
 limit 1;

-- name: covering_fires
-- The rows that may cover a moment: its own, or stretches that reach over it. They were written by
-- one decision, which has at most some ten thousand rows.
select {fire}
  from (select {fire}
          from duly_fire
         where schedule_id = :schedule_id and due_at >= :moment and series = 0
         order by due_at
         limit 10100) as behind
 where covers_from <= :moment
 order by due_at
 limit 10;

-- name: stretches_behind
-- The rows that stand for several moments, some of them behind a moment.
select {fire}
  from duly_fire
 where schedule_id = :schedule_id and due_at > :moment and series = 0 and count is not 1
 order by due_at;

-- name: forget_fire
delete from duly_fire
 where schedule_id = :schedule_id and due_at = :due_at and series = 0;
