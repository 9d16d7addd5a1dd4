-- part: fire
id, schedule_id, due_at, covers_from, count, outcome, cause, reason, decided_at, job_id, series

-- part: recording
insert into duly.fire ({fire})
select id, schedule_id, due_at, covers_from, count, outcome, cause, reason, {now}, job_id, series

-- part: decided_fire
id bigint, schedule_id bigint, due_at bigint, covers_from bigint, count bigint, outcome text,
           cause text, reason text, job_id bigint, series bigint

-- part: recorded_once
-- A fire that is already recorded is not an error: it gets no second row and no job.
on conflict (schedule_id, due_at, series) do nothing
returning id

-- name: record_fires
{recording}
  from {rows :rows as decided ({decided_fire})}
 where true
    {recorded_once};

-- name: write_fires for postgres
-- Advance schedules, record their fires and create the jobs of these, in one round trip. A schedule that
-- was changed since it was read is not advanced and gets no fires; a fire that is already recorded gets
-- no job. And the next moment of the other schedules, and whether a schedule with recorded fires after
-- its cursor is due.
with reserved (known) as (select {reserved}),
advanced as (
    update duly.schedule
    {advancing}
      from {rows :schedules as decided ({decided_schedule})}
     where {hint schedule.id in :schedules ->> 'id'::bigint}
       and {as_decided}
       and (select known from reserved)
    returning schedule.id, name, task, args, queue, tenant, submitter, title, tags, owner, version, limits,
              needs, terms),
recorded as (
    {recording}
      from {rows :fires as decided ({decided_fire})}
     where schedule_id in (select advanced.id from advanced)
        {recorded_once}),
made as (
    {making}
      from {rows :jobs as made ({made_job})}
      join advanced as schedule on schedule.id = made.schedule_id
     cross join {clock}
     where made.fire_id in (select recorded.id from recorded)
        on conflict (id) do nothing
    returning id)
select array(select id from advanced), array(select id from recorded), (select count(*) from made),
       (select known from reserved),
       (select next_at
          from duly.schedule
         where next_at is not null and id not in (select advanced.id from advanced)
         order by next_at
         limit 1),
       exists (select 1 from duly.schedule where next_at <= {now} and settled_until > cursor), {now};

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

-- name: queued_fires
-- Fires at these moments that have a job. The bounds (the first and last moment) exclude partitions.
select {fire}
  from duly.fire
 where schedule_id = :schedule_id and due_at >= :first and due_at <= :last
   and due_at {in :moments::bigint[]}
   and outcome = 'queued'
 order by due_at, series;

-- name: oldest_fire
-- The oldest regular fire that has not been pruned.
select {fire}
  from duly.fire
 where schedule_id = :schedule_id and series = 0
 order by due_at
 limit 1;
