-- part: wanted
-- The conditions on jobs in every table. ASCII letters are compared regardless of case. Conditions that
-- cost more than a comparison are guarded, because a page reads thousands of rows.
(:task::text is null or job.task = :task::text)
   and (:task_like::text is null or job.task {like :task_like::text})
   and (:queue::text is null or job.queue = :queue::text)
   and (:queue_like::text is null or job.queue {like :queue_like::text})
   and (:tenant::text is null or job.tenant = :tenant::text)
   and (:tenant_like::text is null or job.tenant {like :tenant_like::text})
   and (:key::text is null or job.key = :key::text)
   and (:key_like::text is null or job.key {like :key_like::text})
   and (:flow::bigint is null or (job.parent = :flow::bigint and job.step is not null))
   and ({postgres cardinality(:tags::text[]) = 0 or job.tags::jsonb ?& :tags::text[]}
        {sqlite not exists (select 1
                              from json_each(:tags) as asked
                             where asked.value not in (select value from json_each(job.tags)))})

-- part: texts_in
job.task || {chr}(10) || job.title || {chr}(10) || coalesce(job.key, '') || {chr}(10) || job.reason

-- part: wanted_alive
-- A job that has not ended has its last error in its reason.
{wanted}
   and job.created_at >= :since and job.created_at < :before
   and (:error::text is null
        or {strpos}(lower(job.reason {bytewise}), lower(:error::text {bytewise})) > 0)
   and ({postgres cardinality(:texts::text[]) = 0 or}
        not exists (select 1
                      from {each :texts::text[] as asked (word)}
                     where {strpos}(lower(({texts_in}) {bytewise}),
                                    lower(asked.word {bytewise})) = 0))

-- part: wanted_ended
{wanted}
   and (:error::text is null
        or {strpos}(lower(job.error {bytewise}), lower(:error::text {bytewise})) > 0
        or {strpos}(lower(job.reason {bytewise}), lower(:error::text {bytewise})) > 0)
   and ({postgres cardinality(:texts::text[]) = 0 or}
        not exists (select 1
                      from {each :texts::text[] as asked (word)}
                     where {strpos}(lower(({texts_in} || {chr}(10) || coalesce(job.error, ''))
                                          {bytewise}),
                                    lower(asked.word {bytewise})) = 0))

-- part: among_live
from duly.job as job
 where {wanted_alive}
   and job.state {in :states::text[]}

-- part: among_running
-- One index has the jobs of workers, and another has flows and handed-off jobs.
from duly.job as job
 where {wanted_alive}
   and job.id {in (select id from duly.job {indexed by job_running} where worker is not null
                    union all
                   select id from duly.job {indexed by job_unattended} where waits in ('steps', 'outcome'))}
   and job.state = 'running'

-- part: among_live_of_schedule
from duly.job as job {indexed by job_schedule}
 where {wanted_alive}
   and job.state {in :states::text[]}
   and job.schedule_id {in :schedules::bigint[]}

-- part: among_history
-- Without the index named, SQLite would sort all jobs that ever ended.
from duly.history as job {indexed by history_ended}
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and job.state {in :states::text[]}

-- part: among_history_of_schedule
from duly.history as job {indexed by history_schedule}
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and job.state {in :states::text[]}
   and job.schedule_id {in :schedules::bigint[]}

-- part: among_failed
from duly.failed as job {indexed by failed_ended}
 where {wanted_ended}
   and job.ended_at >= :since and job.ended_at < :before
   and (:schedules::bigint[] is null or job.schedule_id {in :schedules::bigint[]})

-- part: page_of_ended
and (job.ended_at, id) < (:behind, :behind_id)
 order by job.ended_at desc, id desc
 limit :limit

-- part: edge_of_ended
where ended_at >= :since and ended_at < :before
 order by ended_at desc
 limit 1 offset :examined

-- name: find_live
select {live_job}
  {among_live}
   and id < :after and id >= :edge
 order by id desc
 limit :limit;

-- name: count_live
select count(*) from (select 1 {among_live} limit :limit) as found;

-- name: find_running
select {live_job}
  {among_running}
   and id < :after
 order by id desc
 limit :limit;

-- name: count_running
select count(*) from (select 1 {among_running} limit :limit) as found;

-- name: find_live_of_schedule
select {live_job}
  {among_live_of_schedule}
   and id < :after
 order by id desc
 limit :limit;

-- name: count_live_of_schedule
select count(*) from (select 1 {among_live_of_schedule} limit :limit) as found;

-- name: find_history
select {ended_job}
  {among_history}
   {page_of_ended};

-- name: count_history
select count(*) from (select 1 {among_history} limit :limit) as found;

-- name: find_history_of_schedule for sqlite
select {ended_job}
  {among_history_of_schedule}
   {page_of_ended};

-- name: find_history_of_schedule for postgres
-- One schedule at a time: its index returns the jobs in order.
select found.*
  from {each :schedules::bigint[] as asked (schedule)},
       lateral (select {ended_job}
                  {among_history}
                   and job.schedule_id = asked.schedule
                   {page_of_ended}) as found
 order by found.ended_at desc, found.id desc
 limit :limit;

-- name: count_history_of_schedule
select count(*) from (select 1 {among_history_of_schedule} limit :limit) as found;

-- name: find_among_failed
select {ended_job}
  {among_failed}
   {page_of_ended};

-- name: count_among_failed
select count(*) from (select 1 {among_failed} limit :limit) as found;

-- name: edge_of_live
-- The lower bound of a page's search: :examined rows on, whether or not they match.
select id from duly.job where id < :after order by id desc limit 1 offset :examined;

-- name: edge_of_history
select ended_at
  from duly.history {indexed by history_ended}
 {edge_of_ended};

-- name: edge_of_history_of_schedule for sqlite
select ended_at
  from duly.history {indexed by history_schedule}
 where schedule_id {in :schedules} and ended_at >= :since and ended_at < :before
 order by ended_at desc
 limit 1 offset :examined;

-- name: edge_of_history_of_schedule for postgres
select ended_at
  from {each :schedules::bigint[] as asked (schedule)},
       lateral (select ended_at
                  from duly.history
                 where schedule_id = asked.schedule and ended_at >= :since and ended_at < :before
                 order by ended_at desc
                 limit :examined + 1) as job
 order by ended_at desc
 limit 1 offset :examined;

-- name: edge_of_failed
select ended_at
  from duly.failed {indexed by failed_ended}
 {edge_of_ended};

-- name: failures
-- With the last characters of the error, which say most.
select id, task, queue, job.ended_at, reason,
       {postgres right(coalesce(error, ''), :tail::int)} {sqlite substr(coalesce(error, ''), -:tail)}
  {among_failed}
 order by job.ended_at desc, id desc
 limit :limit;

-- name: failed_numbers
-- The oldest failures first, starting after a cursor.
select id, ended_at
  {among_failed}
   and job.ended_at <= :until
   and (job.ended_at, id) > (:behind, :behind_id)
 order by ended_at, id
 limit :limit;

-- name: schedule_numbers
select id from duly.schedule where name = :name;

-- name: former_schedule_numbers
-- Schedules that had this name before they were removed or renamed.
select distinct schedule_id from duly.change where name = :name;

-- name: schedule_names
select id, name from duly.schedule where id {in :ids::bigint[]};
