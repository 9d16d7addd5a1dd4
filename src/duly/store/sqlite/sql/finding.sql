-- part: wanted
-- What was said about every job, wherever it is kept.
(:task is null or job.task = :task)
   and (:task_like is null or job.task glob replace(replace(:task_like, '[', '[[]'), '?', '[?]'))
   and (:queue is null or job.queue = :queue)
   and (:queue_like is null or job.queue glob replace(replace(:queue_like, '[', '[[]'), '?', '[?]'))
   and (:tenant is null or job.tenant = :tenant)
   and (:tenant_like is null or job.tenant glob replace(replace(:tenant_like, '[', '[[]'), '?', '[?]'))
   and (:key is null or job.key = :key)
   and (:key_like is null or job.key glob replace(replace(:key_like, '[', '[[]'), '?', '[?]'))
   and (:flow is null or (job.parent = :flow and job.step is not null))
   and not exists (select 1
                     from json_each(:tags) as asked
                    where asked.value not in (select value from json_each(job.tags)))

-- part: wanted_alive
-- What has not ended says what is wrong with it in its reason.
{wanted}
   and job.created_at >= :since and job.created_at < :before
   and (:error is null or instr(lower(job.reason), lower(:error)) > 0)
   and not exists (select 1
                     from json_each(:texts) as asked
                    where instr(lower(job.task || char(10) || job.title || char(10)
                                      || coalesce(job.key, '') || char(10) || job.reason),
                                lower(asked.value)) = 0)

-- part: wanted_ended
{wanted}
   and (:error is null
        or instr(lower(job.error), lower(:error)) > 0
        or instr(lower(job.reason), lower(:error)) > 0)
   and not exists (select 1
                     from json_each(:texts) as asked
                    where instr(lower(job.task || char(10) || job.title || char(10)
                                      || coalesce(job.key, '') || char(10) || job.reason
                                      || char(10) || coalesce(job.error, '')),
                                lower(asked.value)) = 0)

-- part: among_live
from duly_job as job
 where {wanted_alive}
   and job.state in (select value from json_each(:states))

-- part: among_running
-- Jobs that workers run have an index, and flows have one: by number, everything that waits would
-- be passed over.
from duly_job as job
 where {wanted_alive}
   and job.id in (select id from duly_job indexed by duly_job_running where worker is not null
                   union all
                  select id from duly_job indexed by duly_job_flow where waits = 'steps')
   and job.state = 'running'

-- part: among_live_of_schedule
from duly_job as job indexed by duly_job_schedule
 where {wanted_alive}
   and job.state in (select value from json_each(:states))
   and job.schedule_id in (select value from json_each(:schedules))

-- part: among_history
-- SQLite has to be told: it would rather go by number, and sort all that ever ended.
from duly_history as job indexed by duly_history_ended
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and job.state in (select value from json_each(:states))

-- part: among_history_of_schedule
from duly_history as job indexed by duly_history_schedule
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and job.state in (select value from json_each(:states))
   and job.schedule_id in (select value from json_each(:schedules))

-- part: among_failed
from duly_failed as job indexed by duly_failed_ended
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and (:schedules is null or job.schedule_id in (select value from json_each(:schedules)))

-- name: find_live
select {job}, waits, waits_for, null, null, null
  {among_live}
   and id < :after and id >= :edge
 order by id desc
 limit :limit;

-- name: count_live
select count(*) from (select 1 {among_live} limit :limit) as found;

-- name: find_running
select {job}, waits, waits_for, null, null, null
  {among_running}
   and id < :after
 order by id desc
 limit :limit;

-- name: count_running
select count(*) from (select 1 {among_running} limit :limit) as found;

-- name: find_live_of_schedule
select {job}, waits, waits_for, null, null, null
  {among_live_of_schedule}
   and id < :after
 order by id desc
 limit :limit;

-- name: count_live_of_schedule
select count(*) from (select 1 {among_live_of_schedule} limit :limit) as found;

-- name: find_history
select {job}, null, null, ended_at, {result}, error
  {among_history}
   and (job.ended_at, id) < (:behind, :behind_id)
 order by job.ended_at desc, id desc
 limit :limit;

-- name: count_history
select count(*) from (select 1 {among_history} limit :limit) as found;

-- name: find_history_of_schedule
select {job}, null, null, ended_at, {result}, error
  {among_history_of_schedule}
   and (job.ended_at, id) < (:behind, :behind_id)
 order by job.ended_at desc, id desc
 limit :limit;

-- name: count_history_of_schedule
select count(*) from (select 1 {among_history_of_schedule} limit :limit) as found;

-- name: find_among_failed
select {job}, null, null, ended_at, {result}, error
  {among_failed}
   and (job.ended_at, id) < (:behind, :behind_id)
 order by job.ended_at desc, id desc
 limit :limit;

-- name: count_among_failed
select count(*) from (select 1 {among_failed} limit :limit) as found;

-- name: edge_of_live
-- How far a page looks: at so many rows, whether or not they are what was asked for.
select id from duly_job where id < :after order by id desc limit 1 offset :look;

-- name: edge_of_history
select ended_at
  from duly_history indexed by duly_history_ended
 where ended_at >= :since and ended_at < :before
 order by ended_at desc
 limit 1 offset :look;

-- name: edge_of_history_of_schedule
select ended_at
  from duly_history indexed by duly_history_schedule
 where schedule_id in (select value from json_each(:schedules))
   and ended_at >= :since and ended_at < :before
 order by ended_at desc
 limit 1 offset :look;

-- name: edge_of_failed
select ended_at
  from duly_failed indexed by duly_failed_ended
 where ended_at >= :since and ended_at < :before
 order by ended_at desc
 limit 1 offset :look;

-- name: failures
-- The end of an error is what says most.
select id, task, queue, job.ended_at, reason, substr(coalesce(error, ''), -:tail)
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
select id from duly_schedule where name = :name;

-- name: former_schedule_numbers
-- Of schedules that went by the name, and are gone or are called otherwise now.
select distinct schedule_id from duly_change where name = :name;

-- name: schedule_names
select id, name from duly_schedule where id in (select value from json_each(:ids));
