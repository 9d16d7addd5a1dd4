-- part: fire
id, schedule_id, due_at, covers_from, count, outcome, cause, reason, decided_at, job_id, series

-- name: record_fires
-- A fire that is already recorded is not an error: it gets no second row and no job.
insert into duly.fire (id, schedule_id, due_at, covers_from, count, outcome, cause, reason,
                       decided_at, job_id, series)
select id, schedule_id, due_at, covers_from, count, outcome, cause, reason, {now}, job_id, series
  from {rows :rows as decided (
           id bigint, schedule_id bigint, due_at bigint, covers_from bigint, count bigint,
           outcome text, cause text, reason text, job_id bigint, series bigint)}
 where true
    on conflict (schedule_id, due_at, series) do nothing
returning id;

-- name: merge_fires
-- Older fires whose waiting job now stands for a newer one.
update duly.fire
   set outcome = 'merged', reason = older.reason
  from {rows :rows as older (
           schedule_id bigint, due_at bigint, fire_id bigint, reason text)}
 where fire.schedule_id = older.schedule_id
   and fire.due_at = older.due_at
   and fire.id = older.fire_id;

-- name: settled_fires
-- Moments of a schedule after an instant that are already recorded, the oldest first.
select due_at
  from duly.fire
 where schedule_id = :schedule_id and due_at > :after and due_at <= :until and series = 0
 order by due_at
 limit :limit;

-- name: skipped_ahead
-- Future moments of each schedule that somebody has skipped.
select fire.schedule_id, fire.due_at
  from duly.schedule
  join duly.fire on fire.schedule_id = schedule.id
                and fire.due_at > {now} and fire.due_at <= schedule.settled_until
 where schedule.id {in :ids::bigint[]}
   and fire.series = 0 and fire.cause = 'asked'
 order by fire.schedule_id, fire.due_at;

-- name: recorded_fires
select due_at
  from duly.fire
 where schedule_id = :schedule_id and due_at >= :since and id {in :ids::bigint[]}
 order by due_at;

-- name: list_fires
select {fire}
  from duly.fire
 where schedule_id = :schedule_id and due_at >= :since and due_at < :until
 order by due_at desc, series desc
 limit :limit;

-- name: latest_fires for postgres
-- The latest fire of each schedule that is not in the future.
select {fire}
  from {each :ids::bigint[] as asked (number)}
 cross join lateral (select {fire}
                       from duly.fire
                      where schedule_id = asked.number and due_at <= {now}
                      order by due_at desc, series desc
                      limit 1) as latest;

-- name: latest_fires for sqlite
select {fire}
  from duly.fire
 where (schedule_id, due_at) in (select value,
                                        (select max(due_at)
                                           from duly.fire
                                          where schedule_id = value and due_at <= {now})
                                   from json_each(:ids))
 order by series;

-- name: recent_fires for sqlite
select {fire}
  from duly.fire
  join (select value as number,
               coalesce((select due_at
                           from duly.fire
                          where schedule_id = value and due_at <= {now}
                          order by due_at desc, series desc
                          limit 1 offset :limit - 1), 0) as since
          from json_each(:ids)) as asked
    on schedule_id = asked.number and due_at >= asked.since and due_at <= {now}
 order by due_at desc, series desc;

-- name: recent_fires for postgres
-- The last :limit fires of each schedule that are not in the future.
select {fire}
  from {each :ids::bigint[] as asked (number)}
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
-- The fires that may cover a moment: its own, or ranges that include it. One decision writes at most
-- ten thousand rows.
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
-- The fires that stand for several moments, some of them after :moment.
select {fire}
  from duly.fire
 where schedule_id = :schedule_id and due_at > :moment and series = 0 and coalesce(count, 0) <> 1
 order by due_at;

-- name: forget_fire
delete from duly.fire
 where schedule_id = :schedule_id and due_at = :due_at and series = 0;
