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
