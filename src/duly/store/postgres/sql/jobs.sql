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
case when coalesce(result_until > {now}, true) then result end

-- name: reserve_ids
-- A block is a thousand numbers. One that is used up within the transaction leaves no trace.
select nextval('duly.id_block');

-- name: note_reservation
-- A database that is restored, or fails over, hands out blocks again that running processes have.
-- So whoever uses one in later transactions has a row, and asks in each of them whether it is there.
insert into duly.reservation (holder, block, at)
values (:holder, :block, {now})
    on conflict (holder) do update
   set block = greatest(reservation.block, excluded.block), at = excluded.at;

-- name: confirm_ids
select 1
  from duly.reservation
 where holder = :holder and block >= :block::bigint;

-- name: prune_reservations
-- A holder may reserve again meanwhile: the age of the row that is deleted is what counts.
delete from duly.reservation
 where holder in (select holder from duly.reservation where at < :before limit :limit)
   and at < :before
returning holder;

-- part: reserved
-- No rows, where the database does not know that it gave out their numbers.
(:holder::text is null or exists (select
                                    from duly.reservation
                                   where holder = :holder::text and block >= :block::bigint))

-- name: enqueue
-- Numbers are made by the caller, so that a repeated call after a lost answer finds its own jobs.
-- The text is read once, so that json is faster than jsonb.
insert into duly.job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf)
select id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       case when ready_at > now then 'scheduled' else 'ready' end, now, ready_at, ready_at,
       ready_at + start_within, late, retry, 0, 0, null, 0, null, null, null, '',
       greatest(ready_at, now) - priority * 1000000::bigint, id, limits, needs, terms,
       exists (select from duly.queue where queue.name = asked.queue and queue.fair), {shelf}
  from (select one.*, 0 as crashes, clock.now, coalesce(run_at, clock.now + delay) as ready_at
          from json_to_recordset(:batch::json) as one (
                   id bigint, task text, args text, queue text, priority smallint, tenant text,
                   submitter text, title text, tags text, owner text, version int, key text,
                   run_at bigint, delay bigint, start_within bigint, late text, retry text,
                   request bigint, limits text, needs text, terms text),
               (select {now} as now offset 0) as clock) as asked
 where {reserved}
    on conflict (id) do nothing
returning id;

-- name: enqueue_as
-- The same for jobs that belong somewhere: to a moment of a schedule, or to a step of a flow, which
-- may wait for something to happen instead of for a worker. The request of a reaction is its event.
insert into duly.job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf, parent, step, part, waits,
                      waits_for)
select id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       case when waits is not null then 'blocked' when ready_at > now then 'scheduled' else 'ready' end,
       now, coalesce(due_at, ready_at), ready_at,
       ready_at + start_within, late, retry, 0, 0, null, 0, null, schedule_id, fire_id,
       coalesce(reason, ''),
       greatest(ready_at, now) - priority * 1000000::bigint, coalesce(event, id), limits, needs, terms,
       exists (select from duly.queue where queue.name = asked.queue and queue.fair), {shelf},
       parent, step, part, waits, waits_for
  from (select one.*, 0 as crashes, clock.now, coalesce(run_at, clock.now + delay) as ready_at
          from json_to_recordset(:batch::json) as one (
                   id bigint, task text, args text, queue text, priority smallint, tenant text,
                   submitter text, title text, tags text, owner text, version int, key text,
                   run_at bigint, delay bigint, start_within bigint, late text, retry text,
                   request bigint, limits text, needs text, terms text, schedule_id bigint,
                   fire_id bigint, due_at bigint, parent bigint, step int, part int, waits text,
                   waits_for text, reason text, event bigint),
               (select {now} as now offset 0) as clock) as asked
 where {reserved}
    on conflict (id) do nothing
returning id;

-- name: ended_already
-- Which of the numbers belong to jobs that have come and gone.
select id
  from duly.history
 where id = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one))
 union all
select id
  from duly.failed
 where id = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one));

-- name: moved_already
-- What calls have made of jobs that were there before them: the call, and the job it moved.
select request, id
  from duly.job
 where request = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one))
   and request <> id
 union all
select request, id
  from duly.history
 where request = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one))
   and request <> id
 union all
select request, id
  from duly.failed
 where request = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one))
   and request <> id;

-- name: take_keys
-- The key's row is the lock for everything asked under this key: it is taken before the job is
-- looked at, in the order of the keys, so that two batches cannot wait for each other.
insert into duly.job_key (task, key, job_id)
select task, key, id
  from jsonb_to_recordset(:batch::jsonb) as one (task text, key text, id bigint)
 order by 1, 2
    on conflict (task, key) do update set job_id = job_key.job_id
returning task, key, job_id;

-- name: keyed_jobs
-- What the keys stand for now, as far as it has not ended.
select id, state
  from duly.job
 where id = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one))
 order by id;

-- name: move_jobs
-- Another moment and other arguments for a job that has not begun.
update duly.job
   set args = asked.args, queue = asked.queue, priority = asked.priority, tenant = asked.tenant,
       submitter = asked.submitter, title = asked.title, tags = asked.tags, owner = asked.owner,
       version = asked.version,
       state = case when asked.ready_at > asked.now then 'scheduled' else 'ready' end,
       due_at = asked.ready_at, ready_at = asked.ready_at,
       deadline = asked.ready_at + asked.start_within, late = asked.late, retry = asked.retry,
       attempt = 0, crashes = 0, reason = '', waits = null, waits_for = null,
       limits = asked.limits, needs = asked.needs, terms = asked.terms,
       fair = exists (select from duly.queue where queue.name = asked.queue and queue.fair),
       shelf = asked.shelf,
       rank = greatest(asked.ready_at, asked.now) - asked.priority * 1000000::bigint,
       request = asked.request
  from (select one.*, clock.now, coalesce(run_at, clock.now + delay) as ready_at, {shelf} as shelf
          from (select *, 0 as crashes from jsonb_to_recordset(:batch::jsonb) as one (
                   id bigint, task text, args text, queue text, priority smallint, tenant text,
                   submitter text, title text, tags text, owner text, version int, key text,
                   run_at bigint, delay bigint, start_within bigint, late text, retry text,
                   request bigint, limits text, needs text, terms text)) as one,
               (select {now} as now offset 0) as clock) as asked
 where job.id = any(array(select (one ->> 'id')::bigint from jsonb_array_elements(:batch::jsonb) as one))
   and job.id = asked.id
   and job.state in ('scheduled', 'blocked', 'ready')
returning job.id;

-- name: point_keys
-- A new job takes over keys from jobs that run or have ended.
update duly.job_key
   set job_id = asked.id
  from jsonb_to_recordset(:batch::jsonb) as asked (task text, key text, id bigint)
 where job_key.task = asked.task
   and job_key.key = asked.key
returning job_key.job_id;

-- name: key_holder
select job_id
  from duly.job_key
 where task = :task and key = :key;

-- name: hold_keys
-- Locks go down in one order everywhere: schedules, keys, jobs.
select job_key.task, job_key.key
  from duly.job_key
  join jsonb_to_recordset(:rows::jsonb) as mine (task text, key text)
    on job_key.task = mine.task and job_key.key = mine.key
 order by 1, 2
   for update of job_key;

-- name: drop_keys
-- Not those that somebody holds, perhaps in a long transaction: what they find is a job that ended.
delete from duly.job_key
 using (select job_key.task, job_key.key
          from duly.job_key
          join jsonb_to_recordset(:rows::jsonb) as mine (task text, key text, id bigint)
            on job_key.task = mine.task and job_key.key = mine.key and job_key.job_id = mine.id
           for update of job_key /*[skip_locked] skip locked [skip_locked]*/) as free
 where job_key.task = free.task and job_key.key = free.key;

-- name: old_keys
-- Keys of jobs that ended while somebody held them, as it seems: whoever held one until now may have
-- given it to a new job, which this statement does not see.
select task, key
  from duly.job_key
 where not exists (select from duly.job where job.id = job_key.job_id)
 limit :limit
   for update /*[skip_locked] skip locked [skip_locked]*/;

-- name: prune_keys
-- Those of the keys that still stand for no job, now that they are held.
delete from duly.job_key
 using jsonb_to_recordset(:rows::jsonb) as old (task text, key text)
 where job_key.task = old.task and job_key.key = old.key
   and not exists (select from duly.job where job.id = job_key.job_id)
returning job_key.job_id;

-- name: hand_over
-- The jobs of fires: what they are to do is copied from their schedules. The request of a job is its
-- own number, or that of the backfill that asked for it. All commands are of one task: such a job is
-- called by the name of its schedule, unless that has a title.
insert into duly.job (id, task, args, queue, priority, tenant, submitter, title, tags, owner, version,
                      key, state, created_at, due_at, ready_at, deadline, late, retry, attempt,
                      crashes, worker, fence, claimed_at, schedule_id, fire_id, reason, rank,
                      request, limits, needs, terms, fair, shelf)
select made.id, task, args, queue, made.priority, tenant, submitter,
       case when title = '' and task like 'duly.%' then schedule.name else title end, tags, owner, version, null,
       made.state, clock.now, made.due_at, made.ready_at, made.deadline, made.late, made.retry, 0, 0,
       null, 0, null, schedule.id, made.fire_id, made.reason,
       greatest(made.ready_at, clock.now) - made.priority * 1000000::bigint, made.request, limits, needs,
       terms, exists (select from duly.queue where queue.name = schedule.queue and queue.fair),
       (select {shelf_of_moment}
          from (select schedule.limits as limits, schedule.needs as needs, 0 as crashes,
                       made.priority as priority, made.schedule_id as schedule_id,
                       made.request as request, made.id as id) as it)
  from jsonb_to_recordset(:rows::jsonb) as made (
           id bigint, schedule_id bigint, fire_id bigint, state text, due_at bigint, ready_at bigint,
           deadline bigint, late text, retry text, priority smallint, reason text, request bigint)
  join duly.schedule on schedule.id = made.schedule_id
 cross join (select {now} as now offset 0) as clock
 where schedule.id = any(array(select (one ->> 'schedule_id')::bigint
                                 from jsonb_array_elements(:rows::jsonb) as one))
    on conflict (id) do nothing
returning id;

-- name: take_over
-- A waiting job that stands for a newer moment of its schedule from now on.
update duly.job
   set due_at = newer.due_at, fire_id = newer.fire_id, deadline = newer.deadline, late = newer.late
  from jsonb_to_recordset(:rows::jsonb) as newer (
           id bigint, due_at bigint, fire_id bigint, deadline bigint, late text)
 where job.id = {numbered}
   and job.id = newer.id
   and job.state in ('scheduled', 'blocked', 'ready')
returning job.id;

-- part: telling
-- The jobs of each schedule that a decision depends on: the first and the last, the newest of the
-- clock that has not started, and those of the clock that run. Each is found through its index: of
-- thousands that wait behind them, as after a backfill, none is read.
select found.id
  from unnest(:ids::bigint[]) as asked (number)
 cross join lateral ((select id
                        from duly.job
                       where schedule_id = asked.number
                       order by due_at, id
                       limit 1)
                      union all
                     (select id
                        from duly.job
                       where schedule_id = asked.number
                       order by due_at desc, id desc
                       limit 1)
                      union all
                     (select id
                        from duly.job
                       where schedule_id = asked.number and request = id and state <> 'running'
                       order by due_at desc, id desc
                       limit 1)
                      union all
                     (select id
                        from (select id, state, request
                                from duly.job
                               where schedule_id = asked.number
                                 and (state <> 'blocked' or waits is not null)
                               order by due_at, id
                               limit 1000) as unblocked
                       where state = 'running' and request = id)) as found

-- name: live_jobs
select schedule_id, id, state, due_at, fire_id, request
  from duly.job
 where id = any(array({telling}))
 order by schedule_id, due_at, id;

-- name: hold_live_jobs
-- The same, and nobody begins one of them before the decision about them is written.
select schedule_id, id, state, due_at, fire_id, request
  from duly.job
 where id = any(array({telling}))
 order by schedule_id, due_at, id
   for no key update;

-- name: waiting_jobs
-- How many jobs of the clock wait in each schedule, up to a limit.
select asked.number,
       (select count(*)
          from (select
                  from duly.job
                 where schedule_id = asked.number and request = id and state <> 'running'
                 order by due_at desc, id desc
                 limit :most) as waiting)
  from unnest(:ids::bigint[]) as asked (number);

-- name: live_job
select {job}, waits, waits_for, null::bigint, null::text, null::text
  from duly.job
 where id = :id;

-- name: ended_job
select {job}, null::text, null::text, ended_at, {result}, error from duly.history where id = :id
 union all
select {job}, null::text, null::text, ended_at, {result}, error from duly.failed where id = :id;

-- name: list_jobs
select {job}, waits, waits_for, null::bigint, null::text, null::text
  from duly.job
 where id > :after
 order by id
 limit :limit;

-- name: list_history
select {job}, null::text, null::text, ended_at, {result}, error
  from duly.history
 where ended_at >= :since and state = :state
 order by ended_at desc, id desc
 limit :limit;

-- name: list_failed
select {job}, null::text, null::text, ended_at, {result}, error
  from duly.failed
 where ended_at >= :since
 order by ended_at desc, id desc
 limit :limit;

-- name: list_attempts
select job_id, number, worker, fence, started_at, ended_at, outcome, reason, error
  from duly.attempt
 where job_id = :job_id
 order by fence;

-- name: take_once
-- Take a key that nobody has used within a day: nothing, if somebody has. Who asks at the same time
-- waits here until the other has committed.
insert into duly.once (who, key, mark, jobs, at)
values (:who, :key, :mark, '[]', {now})
    on conflict (who, key) do update
   set mark = excluded.mark, jobs = '[]', at = excluded.at
 where once.at <= {now} - :day::bigint
returning key;

-- name: made_once
select mark, jobs
  from duly.once
 where who = :who and key = :key;

-- name: note_once
update duly.once
   set jobs = :jobs
 where who = :who and key = :key;

-- name: prune_once
-- A key that is too old may be taken anew: the age is compared with the row that is deleted.
delete from duly.once
 where (who, key) in (select who, key from duly.once where at < :before limit :limit)
   and at < :before
returning key;
