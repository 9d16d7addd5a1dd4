-- part: like
-- A name in which * stands for anything, as this database says it; reckoned once for all rows.
replace(replace(replace(replace(said, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%')

-- part: wanted
-- What was said about every job, wherever it is kept. Letters are compared as SQLite does it: of
-- ASCII, capitals are the same as small ones. What costs more than a comparison is not even begun
-- for who did not ask for it: a page looks at thousands of rows.
(:task::text is null or job.task = :task::text)
   and (:task_like::text is null
        or job.task like (select {like} from (select :task_like::text as said) as asked))
   and (:queue::text is null or job.queue = :queue::text)
   and (:queue_like::text is null
        or job.queue like (select {like} from (select :queue_like::text as said) as asked))
   and (:tenant::text is null or job.tenant = :tenant::text)
   and (:tenant_like::text is null
        or job.tenant like (select {like} from (select :tenant_like::text as said) as asked))
   and (:key::text is null or job.key = :key::text)
   and (:key_like::text is null
        or job.key like (select {like} from (select :key_like::text as said) as asked))
   and (:flow::bigint is null or (job.parent = :flow::bigint and job.step is not null))
   and (cardinality(:tags::text[]) = 0 or job.tags::jsonb ?& :tags::text[])

-- part: wanted_alive
-- What has not ended says what is wrong with it in its reason.
{wanted}
   and job.created_at >= :since and job.created_at < :before
   and (:error::text is null
        or strpos(lower(job.reason collate "C"), lower(:error::text collate "C")) > 0)
   and (cardinality(:texts::text[]) = 0 or not exists (select
                     from unnest(:texts::text[]) as asked
                    where strpos(lower(concat_ws(e'\n', job.task, job.title, coalesce(job.key, ''),
                                                 job.reason) collate "C"),
                                 lower(asked collate "C")) = 0))

-- part: wanted_ended
{wanted}
   and (:error::text is null
        or strpos(lower(job.error collate "C"), lower(:error::text collate "C")) > 0
        or strpos(lower(job.reason collate "C"), lower(:error::text collate "C")) > 0)
   and (cardinality(:texts::text[]) = 0 or not exists (select
                     from unnest(:texts::text[]) as asked
                    where strpos(lower(concat_ws(e'\n', job.task, job.title, coalesce(job.key, ''),
                                                 job.reason, coalesce(job.error, '')) collate "C"),
                                 lower(asked collate "C")) = 0))

-- part: among_live
from duly.job as job
 where {wanted_alive}
   and job.state = any(:states::text[])

-- part: among_running
-- Jobs that workers run have an index, and flows have one.
from duly.job as job
 where {wanted_alive}
   and job.id = any(array(select id from duly.job where worker is not null
                           union all
                          select id from duly.job where waits = 'steps'))
   and job.state = 'running'

-- part: among_live_of_schedule
from duly.job as job
 where {wanted_alive}
   and job.state = any(:states::text[])
   and job.schedule_id = any(:schedules::bigint[])

-- part: among_history
from duly.history as job
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and job.state = any(:states::text[])

-- part: among_history_of_schedule
from duly.history as job
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and job.state = any(:states::text[])
   and job.schedule_id = any(:schedules::bigint[])

-- part: among_failed
from duly.failed as job
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and (:schedules::bigint[] is null or job.schedule_id = any(:schedules::bigint[]))

-- name: find_live
select {job}, waits, waits_for, null::bigint, null::text, null::text
  {among_live}
   and id < :after and id >= :edge
 order by id desc
 limit :limit;

-- name: count_live
select count(*) from (select 1 {among_live} limit :limit) as found;

-- name: find_running
select {job}, waits, waits_for, null::bigint, null::text, null::text
  {among_running}
   and id < :after
 order by id desc
 limit :limit;

-- name: count_running
select count(*) from (select 1 {among_running} limit :limit) as found;

-- name: find_live_of_schedule
select {job}, waits, waits_for, null::bigint, null::text, null::text
  {among_live_of_schedule}
   and id < :after
 order by id desc
 limit :limit;

-- name: count_live_of_schedule
select count(*) from (select 1 {among_live_of_schedule} limit :limit) as found;

-- name: find_history
select {job}, null::text, null::text, ended_at, {result}, error
  {among_history}
   and (job.ended_at, id) < (:behind, :behind_id)
 order by job.ended_at desc, id desc
 limit :limit;

-- name: count_history
select count(*) from (select 1 {among_history} limit :limit) as found;

-- name: find_history_of_schedule
-- One schedule at a time: only so does its index give them in order, and the planner take it.
select found.*
  from unnest(:schedules::bigint[]) as asked (schedule),
       lateral (select {job}, null::text, null::text, ended_at, {result}, error
                  {among_history}
                   and job.schedule_id = asked.schedule
                   and (job.ended_at, id) < (:behind, :behind_id)
                 order by job.ended_at desc, id desc
                 limit :limit) as found
 order by found.ended_at desc, found.id desc
 limit :limit;

-- name: count_history_of_schedule
select count(*) from (select 1 {among_history_of_schedule} limit :limit) as found;

-- name: find_among_failed
select {job}, null::text, null::text, ended_at, {result}, error
  {among_failed}
   and (job.ended_at, id) < (:behind, :behind_id)
 order by job.ended_at desc, id desc
 limit :limit;

-- name: count_among_failed
select count(*) from (select 1 {among_failed} limit :limit) as found;

-- name: edge_of_live
-- How far a page looks: at so many rows, whether or not they are what was asked for.
select id from duly.job where id < :after order by id desc limit 1 offset :look;

-- name: edge_of_history
select ended_at
  from duly.history
 where ended_at >= :since and ended_at < :before
 order by ended_at desc
 limit 1 offset :look;

-- name: edge_of_history_of_schedule
select ended_at
  from unnest(:schedules::bigint[]) as asked (schedule),
       lateral (select ended_at
                  from duly.history
                 where schedule_id = asked.schedule and ended_at >= :since and ended_at < :before
                 order by ended_at desc
                 limit :look + 1) as job
 order by ended_at desc
 limit 1 offset :look;

-- name: edge_of_failed
select ended_at
  from duly.failed
 where ended_at >= :since and ended_at < :before
 order by ended_at desc
 limit 1 offset :look;

-- name: failures
-- The end of an error is what says most.
select id, task, queue, job.ended_at, reason, right(coalesce(error, ''), :tail::int)
  {among_failed}
 order by job.ended_at desc, id desc
 limit :limit;

-- name: failed_numbers
-- What failed first comes first, behind the one that was given before.
select id, ended_at
  {among_failed}
   and job.ended_at <= :until
   and (job.ended_at, id) > (:behind, :behind_id)
 order by ended_at, id
 limit :limit;

-- name: schedule_numbers
select id from duly.schedule where name = :name;

-- name: former_schedule_numbers
-- Of schedules that went by the name, and are gone or are called otherwise now.
select distinct schedule_id from duly.change where name = :name;

-- name: schedule_names
select id, name from duly.schedule where id = any(:ids::bigint[]);
