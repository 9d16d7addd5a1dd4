-- What a backfill must know of the ledger.

-- name: queued_fires
-- The rows of these moments that have got a job, from the clock or from whoever asked. The bounds
-- are theirs: they spare looking where none of them is.
select {fire}
  from duly_fire
 where schedule_id = :schedule_id and due_at >= :first and due_at <= :last
   and due_at in (select value from json_each(:moments))
   and outcome = 'queued'
 order by due_at, series;

-- name: oldest_fire
-- The first row of the clock that is still remembered.
select {fire}
  from duly_fire
 where schedule_id = :schedule_id and series = 0
 order by due_at
 limit 1;
