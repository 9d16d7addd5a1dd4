-- part: job
id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key, state,
       created_at, due_at, ready_at, deadline, late, retry, attempt, crashes, worker, fence, claimed_at,
       schedule_id, fire_id, reason, limits, needs, terms, parent, step, part

-- part: shelf
-- Where a worker looks for a job: see the migration that made the column.
case when limits is not null or needs is not null then 3
            when crashes > 0 then 4
            when priority <= -100 then 2
            when priority <= -50 then 1
            else 0
        end

-- part: shelf_of_moment
-- Of a job that may come from a moment of a schedule. Such a moment has a shelf of its own, so that it
-- is not late because many jobs were enqueued; what a backfill or an event asks for is work like other.
case when schedule_id is not null and request = id and {shelf} = 0 then 5 else {shelf} end

-- part: result
-- A result is kept as long as its task says, and not shown for longer.
case when coalesce(result_until > :now, true) then result end

-- name: reserve_ids
-- A block is a thousand numbers. They are never given twice: not after a crash, and not after a
-- transaction that was undone, because whoever reserves inside one forgets the rest of the block.
update duly_sequence
   set last = last + 1
 where name = 'id_block'
returning last;

-- name: note_reservation
-- A file that is restored hands out blocks again that running processes have. So whoever uses one in
-- later transactions has a row, and asks in each of them whether it is there.
insert into duly_reservation (holder, block, at)
values (:holder, :block, :now)
    on conflict (holder) do update set block = max(block, excluded.block), at = excluded.at;

-- name: confirm_ids
select 1
  from duly_reservation
 where holder = :holder and block >= :block;

-- name: prune_reservations
delete from duly_reservation
 where holder in (select holder from duly_reservation where at < :before limit :limit)
returning holder;

-- part: reserved
-- No rows, where the database does not know that it gave out their numbers.
(:holder is null or exists (select 1
                              from duly_reservation
                             where holder = :holder and block >= :block))

-- name: enqueue
-- Numbers are made by the caller, so that a repeated call after a lost answer finds its own jobs.
-- The limit keeps the two queries apart: as one, each value would be looked up wherever it is used.
insert into duly_job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf)
select id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       case when ready_at > now then 'scheduled' else 'ready' end, now, ready_at, ready_at,
       ready_at + start_within, late, retry, 0, 0, null, 0, null, null, null, '',
       max(ready_at, now) - priority * 1000000, id, limits, needs, terms,
       exists (select 1 from duly_queue where name = asked.queue and fair), {shelf}
  from (select value ->> 'id' as id, value ->> 'task' as task, value ->> 'args' as args,
               value ->> 'queue' as queue, value ->> 'priority' as priority,
               value ->> 'tenant' as tenant, value ->> 'submitter' as submitter,
               value ->> 'title' as title, value ->> 'tags' as tags, value ->> 'owner' as owner,
               value ->> 'version' as version, value ->> 'key' as key,
               :now as now,
               coalesce(value ->> 'run_at', :now + (value ->> 'delay')) as ready_at,
               value ->> 'start_within' as start_within, value ->> 'late' as late,
               value ->> 'retry' as retry, value ->> 'limits' as limits,
               value ->> 'needs' as needs, value ->> 'terms' as terms, 0 as crashes
          from json_each(:batch)
         limit -1) as asked
 where {reserved}
    on conflict (id) do nothing
returning id;

-- name: enqueue_as
-- The same for jobs that belong somewhere: to a moment of a schedule, or to a step of a flow, which
-- may wait for something to happen instead of for a worker. The request of a reaction is its event.
insert into duly_job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf, parent, step, part, waits,
                      waits_for)
select id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       case when waits is not null then 'blocked' when ready_at > now then 'scheduled' else 'ready' end,
       now, coalesce(due_at, ready_at), ready_at,
       ready_at + start_within, late, retry, 0, 0, null, 0, null, schedule_id, fire_id, reason,
       max(ready_at, now) - priority * 1000000, coalesce(event, id), limits, needs, terms,
       exists (select 1 from duly_queue where name = asked.queue and fair), {shelf},
       parent, step, part, waits, waits_for
  from (select value ->> 'id' as id, value ->> 'task' as task, value ->> 'args' as args,
               value ->> 'queue' as queue, value ->> 'priority' as priority,
               value ->> 'tenant' as tenant, value ->> 'submitter' as submitter,
               value ->> 'title' as title, value ->> 'tags' as tags, value ->> 'owner' as owner,
               value ->> 'version' as version, value ->> 'key' as key,
               :now as now,
               coalesce(value ->> 'run_at', :now + (value ->> 'delay')) as ready_at,
               value ->> 'start_within' as start_within, value ->> 'late' as late,
               value ->> 'retry' as retry, value ->> 'limits' as limits,
               value ->> 'needs' as needs, value ->> 'terms' as terms, 0 as crashes,
               value ->> 'event' as event,
               value ->> 'schedule_id' as schedule_id, value ->> 'fire_id' as fire_id,
               value ->> 'due_at' as due_at, value ->> 'parent' as parent, value ->> 'step' as step,
               value ->> 'part' as part, value ->> 'waits' as waits,
               value ->> 'waits_for' as waits_for, coalesce(value ->> 'reason', '') as reason
          from json_each(:batch)
         limit -1) as asked
 where {reserved}
    on conflict (id) do nothing
returning id;

-- name: ended_already
-- Which of the numbers belong to jobs that have come and gone.
select id from duly_history where id in (select value ->> 'id' from json_each(:batch))
 union all
select id from duly_failed where id in (select value ->> 'id' from json_each(:batch));

-- name: moved_already
-- What calls have made of jobs that were there before them: the call, and the job it moved.
select request, id from duly_job
 where request in (select value ->> 'id' from json_each(:batch)) and request <> id
 union all
select request, id from duly_history
 where request in (select value ->> 'id' from json_each(:batch)) and request <> id
 union all
select request, id from duly_failed
 where request in (select value ->> 'id' from json_each(:batch)) and request <> id;

-- name: take_keys
-- The key's row is the lock for everything asked under this key: it is taken before the job is
-- looked at, in the order of the keys, so that two batches cannot wait for each other.
insert into duly_job_key (task, key, job_id)
select value ->> 'task', value ->> 'key', value ->> 'id'
  from json_each(:batch)
 where true
 order by 1, 2
    on conflict (task, key) do update set job_id = duly_job_key.job_id
returning task, key, job_id;

-- name: keyed_jobs
-- What the keys stand for now, as far as it has not ended.
select id, state
  from duly_job
 where id in (select value ->> 'id' from json_each(:batch))
 order by id;

-- name: move_jobs
-- Another moment and other arguments for a job that has not begun.
update duly_job
   set args = asked.args, queue = asked.queue, priority = asked.priority, tenant = asked.tenant,
       submitter = asked.submitter, title = asked.title, tags = asked.tags, owner = asked.owner,
       version = asked.version, state = case when asked.ready_at > asked.now then 'scheduled' else 'ready' end,
       due_at = asked.ready_at, ready_at = asked.ready_at, deadline = asked.ready_at + asked.start_within,
       late = asked.late, retry = asked.retry, attempt = 0, crashes = 0, reason = '', waits = null,
       waits_for = null, limits = asked.limits, needs = asked.needs, terms = asked.terms,
       fair = exists (select 1 from duly_queue where name = asked.queue and fair),
       shelf = (select {shelf}
                  from (select asked.limits as limits, asked.needs as needs, 0 as crashes,
                               asked.priority as priority) as it),
       rank = max(asked.ready_at, asked.now) - asked.priority * 1000000, request = asked.request
  from (select value ->> 'id' as id, value ->> 'request' as request, value ->> 'args' as args, value ->> 'queue' as queue,
               value ->> 'priority' as priority, value ->> 'tenant' as tenant,
               value ->> 'submitter' as submitter, value ->> 'title' as title,
               value ->> 'tags' as tags, value ->> 'owner' as owner, value ->> 'version' as version,
               :now as now,
               coalesce(value ->> 'run_at', :now + (value ->> 'delay')) as ready_at,
               value ->> 'start_within' as start_within, value ->> 'late' as late,
               value ->> 'retry' as retry, value ->> 'limits' as limits,
               value ->> 'needs' as needs, value ->> 'terms' as terms
          from json_each(:batch)) as asked
 where duly_job.id = asked.id
   and duly_job.state in ('scheduled', 'blocked', 'ready')
returning duly_job.id;

-- name: point_keys
-- A new job takes over keys from jobs that run or have ended.
update duly_job_key
   set job_id = asked.id
  from (select value ->> 'task' as task, value ->> 'key' as key, value ->> 'id' as id
          from json_each(:batch)) as asked
 where duly_job_key.task = asked.task
   and duly_job_key.key = asked.key
returning duly_job_key.job_id;

-- name: key_holder
select job_id
  from duly_job_key
 where task = :task and key = :key;

-- name: hold_keys
-- Locks go down in one order everywhere: schedules, keys, jobs.
select task, key
  from duly_job_key
 where (task, key) in (select value ->> 'task', value ->> 'key' from json_each(:rows))
 order by task, key;

-- name: drop_keys
delete from duly_job_key
 where (task, key, job_id) in (select value ->> 'task', value ->> 'key', value ->> 'id'
                                 from json_each(:rows));

-- name: old_keys
-- Keys of jobs that ended while somebody held them.
select task, key
  from duly_job_key
 where not exists (select 1 from duly_job where id = duly_job_key.job_id)
 limit :limit;

-- name: prune_keys
-- Those of the keys that still stand for no job.
delete from duly_job_key
 where (task, key) in (select value ->> 'task', value ->> 'key' from json_each(:rows))
   and not exists (select 1 from duly_job where id = duly_job_key.job_id)
returning job_id;

-- name: hand_over
-- The jobs of fires: what they are to do is copied from their schedules. The request of a job is its
-- own number, or that of the backfill that asked for it. All commands are of one task: such a job is
-- called by the name of its schedule, unless that has a title.
insert into duly_job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf)
select made.id, task, args, queue, made.priority, tenant, submitter,
       case when title = '' and task like 'duly.%' then duly_schedule.name else title end, tags, owner, version, null,
       made.state, :now, made.due_at, made.ready_at, made.deadline, made.late, made.retry, 0, 0,
       null, 0, null, duly_schedule.id, made.fire_id, made.reason,
       max(made.ready_at, :now) - made.priority * 1000000, made.request, limits, needs, terms,
       exists (select 1 from duly_queue where name = duly_schedule.queue and fair),
       (select {shelf_of_moment}
          from (select duly_schedule.limits as limits, duly_schedule.needs as needs, 0 as crashes,
                       made.priority as priority, made.schedule_id as schedule_id,
                       made.request as request, made.id as id) as it)
  from (select value ->> 'id' as id, value ->> 'schedule_id' as schedule_id,
               value ->> 'fire_id' as fire_id, value ->> 'state' as state,
               value ->> 'due_at' as due_at, value ->> 'ready_at' as ready_at,
               value ->> 'deadline' as deadline, value ->> 'late' as late,
               value ->> 'retry' as retry, value ->> 'priority' as priority,
               value ->> 'reason' as reason, value ->> 'request' as request
          from json_each(:rows)) as made
  join duly_schedule on duly_schedule.id = made.schedule_id
 where true
    on conflict (id) do nothing
returning id;

-- name: take_over
-- A waiting job that stands for a newer moment of its schedule from now on.
update duly_job
   set due_at = newer.due_at, fire_id = newer.fire_id, deadline = newer.deadline, late = newer.late
  from (select value ->> 'id' as id, value ->> 'due_at' as due_at, value ->> 'fire_id' as fire_id,
               value ->> 'deadline' as deadline, value ->> 'late' as late
          from json_each(:rows)) as newer
 where duly_job.id = newer.id
   and duly_job.state in ('scheduled', 'blocked', 'ready')
returning duly_job.id;

-- part: telling
-- The jobs of each schedule that a decision depends on: the first and the last, the newest of the
-- clock that has not started, and those of the clock that run. Each is found through its index: of
-- thousands that wait behind them, as after a backfill, none is read.
select (select id
          from duly_job
         where schedule_id = asked.value
         order by due_at, id
         limit 1)
  from json_each(:ids) as asked
 union all
select (select id
          from duly_job
         where schedule_id = asked.value
         order by due_at desc, id desc
         limit 1)
  from json_each(:ids) as asked
 union all
select (select id
          from duly_job
         where schedule_id = asked.value and request = id and state <> 'running'
         order by due_at desc, id desc
         limit 1)
  from json_each(:ids) as asked
 union all
select running.id
  from json_each(:ids) as asked
 cross join duly_job as running on running.schedule_id = asked.value
 where (running.state <> 'blocked' or running.waits is not null)
   and running.state = 'running' and running.request = running.id

-- name: live_jobs
select schedule_id, id, state, due_at, fire_id, request
  from duly_job
 where id in ({telling})
 order by schedule_id, due_at, id;

-- name: hold_live_jobs
-- The same, and nobody begins one of them before the decision about them is written.
select schedule_id, id, state, due_at, fire_id, request
  from duly_job
 where id in ({telling})
 order by schedule_id, due_at, id;

-- name: waiting_jobs
-- How many jobs of the clock wait in each schedule, up to a limit.
select asked.value,
       (select count(*)
          from (select 1
                  from duly_job
                 where schedule_id = asked.value and request = id and state <> 'running'
                 limit :most))
  from json_each(:ids) as asked;

-- name: live_job
select {job}, waits, waits_for, null, null, null
  from duly_job
 where id = :id;

-- name: ended_job
select {job}, null, null, ended_at, {result}, error from duly_history where id = :id
 union all
select {job}, null, null, ended_at, {result}, error from duly_failed where id = :id;

-- name: list_jobs
select {job}, waits, waits_for, null, null, null
  from duly_job
 where id > :after
 order by id
 limit :limit;

-- name: list_history
select {job}, null, null, ended_at, {result}, error
  from duly_history
 where ended_at >= :since and state = :state
 order by ended_at desc, id desc
 limit :limit;

-- name: list_failed
select {job}, null, null, ended_at, {result}, error
  from duly_failed
 where ended_at >= :since
 order by ended_at desc, id desc
 limit :limit;

-- name: list_attempts
select job_id, number, worker, fence, started_at, ended_at, outcome, reason, error
  from duly_attempt
 where job_id = :job_id
 order by fence;

-- name: take_once
-- Take a key that nobody has used within a day: nothing, if somebody has.
insert into duly_once (who, key, mark, jobs, at)
values (:who, :key, :mark, '[]', :now)
    on conflict (who, key) do update
   set mark = excluded.mark, jobs = '[]', at = excluded.at
 where duly_once.at <= :now - :day
returning key;

-- name: made_once
select mark, jobs
  from duly_once
 where who = :who and key = :key;

-- name: note_once
update duly_once
   set jobs = :jobs
 where who = :who and key = :key;

-- name: prune_once
delete from duly_once
 where (who, key) in (select who, key from duly_once where at < :before limit :limit)
returning key;
