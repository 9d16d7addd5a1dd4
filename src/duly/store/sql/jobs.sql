-- part: job
id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key, state,
       created_at, due_at, ready_at, deadline, late, retry, attempt, crashes, worker, fence, claimed_at,
       schedule_id, fire_id, reason, limits, needs, terms, parent, step, part

-- part: shelf
-- The shelf on which workers look for the job: see the column in the migration.
case when limits is not null or needs is not null then 3
            when crashes > 0 then 4
            when priority <= -100 then 2
            when priority <= -50 then 1
            else 0
        end

-- part: shelf_of_moment
-- Jobs fired by the clock have a shelf of their own, so that a flood of enqueued jobs does not delay
-- them. Jobs of backfills and events are treated like enqueued jobs.
case when schedule_id is not null and request = id and {shelf} = 0 then 5 else {shelf} end

-- part: result
-- A result whose retention has passed is not shown.
case when coalesce(result_until > {now}, true) then result end

-- part: live_job
{job}, waits, waits_for, null::bigint, null::text, null::text

-- part: ended_job
{job}, null::text, null::text, ended_at, {result}, error

-- part: new_columns
id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key, state,
       created_at, due_at, ready_at, deadline, late, retry, attempt, crashes, worker, fence, claimed_at,
       schedule_id, fire_id, reason, rank, request, limits, needs, terms, fair, shelf

-- part: asked_columns
id bigint, task text, args text, queue text, priority smallint, tenant text, submitter text,
           title text, tags text, owner text, version int, key text, run_at bigint, delay bigint,
           start_within bigint, late text, retry text, request bigint, limits text, needs text,
           terms text

-- part: new_state
case when ready_at > now then 'scheduled' else 'ready' end

-- part: new_deadline
ready_at + start_within

-- part: new_rank
{greatest}(ready_at, now) - priority * 1000000::bigint

-- part: in_fair_queue
exists (select 1 from duly.queue where queue.name = asked.queue and queue.fair)

-- name: reserve_ids for postgres
-- Reserve a block of a thousand numbers.
select nextval('duly.id_block');

-- name: reserve_ids for sqlite
update duly.sequence
   set last = last + 1
 where name = 'id_block'
returning last;

-- name: note_reservation
-- A database that was restored or failed over hands out blocks again that running processes hold. A
-- process therefore records its block and checks in each transaction that the record is still there.
insert into duly.reservation (holder, block, at)
values (:holder, :block, {now})
    on conflict (holder) do update
   set block = {greatest}(reservation.block, excluded.block), at = excluded.at;

-- name: confirm_ids
select 1
  from duly.reservation
 where holder = :holder and block >= :block::bigint;

-- name: prune_reservations
-- The age is checked again, because the holder may have reserved again meanwhile.
delete from duly.reservation
 where holder {in (select holder from duly.reservation where at < :before limit :limit)}
   and at < :before
returning holder;

-- part: reserved
-- Insert nothing if the database does not know that it handed out these numbers.
(:holder::text is null or exists (select 1
                                    from duly.reservation
                                   where holder = :holder::text and block >= :block::bigint))

-- name: enqueue_one
-- Insert one job. The caller chooses the number, so that a call repeated after a lost answer finds its own
-- job. Its values are parameters: as JSON, they took a quarter of the whole call on PostgreSQL.
insert into duly.job ({new_columns})
select id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       {new_state}, now, ready_at, ready_at, {new_deadline}, late, retry, 0, 0, null, 0, null, null, null, '',
       {new_rank}, id, limits, needs, terms, {in_fair_queue}, {shelf}
  from (select one.*, 0 as crashes, clock.now, coalesce(run_at, clock.now + delay) as ready_at
          from {given as one ({asked_columns})},
               {clock}
         where {reserved}) as asked
 where true
    on conflict (id) do nothing
returning id;

-- name: enqueue
-- The same for many jobs. A row of the batch is a run of jobs with consecutive numbers that differ in their
-- arguments only: all the rest is read, checked and computed once for each run (see rows.packed_calls). The
-- limit on SQLite keeps an inner query apart: merged, each JSON field would be parsed at every use; the
-- offset does the same on PostgreSQL.
insert into duly.job ({new_columns})
select asked.id + said.key{postgres  - 1}, task, said.value, queue, priority, tenant, submitter, title,
       tags, owner, version, asked.key, state, now, ready_at, ready_at, deadline, late, retry, 0, 0, null, 0,
       null, null, null, '', rank, asked.id + said.key{postgres  - 1}, limits, needs, terms, fair, shelf
  from (select asked.*, {new_state} as state, {new_deadline} as deadline, {new_rank} as rank,
               {in_fair_queue} as fair, {shelf} as shelf
          from (select one.*, 0 as crashes, clock.now, coalesce(run_at, clock.now + delay) as ready_at
                  from {rows :batch as one ({asked_columns})},
                       {clock}
                 where {reserved}
                 {sqlite limit -1}) as asked
         {postgres offset 0}{sqlite limit -1}) as asked
 cross join {postgres json_array_elements_text(asked.args::json) with ordinality as said (value, key)}
            {sqlite json_each(asked.args) as said}
 where true
    on conflict (id) do nothing
returning id;

-- name: enqueue_as
-- The same for jobs of a schedule or of a flow's step, which may wait for an event. The request of a
-- reaction is its event.
insert into duly.job ({new_columns}, parent, step, part, waits,
                      waits_for)
select id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       case when waits is not null then 'blocked' when ready_at > now then 'scheduled' else 'ready' end,
       now, coalesce(due_at, ready_at), ready_at,
       {new_deadline}, late, retry, 0, 0, null, 0, null, schedule_id, fire_id,
       coalesce(reason, ''),
       {new_rank}, coalesce(event, id), limits, needs, terms,
       {in_fair_queue}, {shelf},
       parent, step, part, waits, waits_for
  from (select one.*, 0 as crashes, clock.now, coalesce(run_at, clock.now + delay) as ready_at
          from {rows :batch as one ({asked_columns}, schedule_id bigint,
                   fire_id bigint, due_at bigint, parent bigint, step int, part int, waits text,
                   waits_for text, reason text, event bigint)},
               {clock}
         {sqlite limit -1}) as asked
 where {reserved}
    on conflict (id) do nothing
returning id;

-- name: ended_already
-- Which of the numbers belong to jobs that have ended.
select id
  from duly.history
 where id {in :batch ->> 'id'::bigint}
 union all
select id
  from duly.failed
 where id {in :batch ->> 'id'::bigint};

-- name: moved_already
-- Calls that replaced the work of an existing job: the call's number and the job's.
select request, id
  from duly.job
 where request {in :batch ->> 'id'::bigint}
   and request <> id
 union all
select request, id
  from duly.history
 where request {in :batch ->> 'id'::bigint}
   and request <> id
 union all
select request, id
  from duly.failed
 where request {in :batch ->> 'id'::bigint}
   and request <> id;

-- name: take_keys
-- The key's row is the lock for all calls with this key. It is locked before the job is read, in the
-- order of the keys, so that two batches cannot deadlock.
insert into duly.job_key (task, key, job_id)
select task, key, id
  from {rows :batch as one (task text, key text, id bigint)}
 where true
 order by 1, 2
    on conflict (task, key) do update set job_id = job_key.job_id
returning task, key, job_id;

-- name: keyed_jobs
-- The live jobs that hold the keys.
select id, state
  from duly.job
 where id {in :batch ->> 'id'::bigint}
 order by id;

-- name: move_jobs
-- Give a job that has not started another time and other arguments.
update duly.job
   set args = asked.args, queue = asked.queue, priority = asked.priority, tenant = asked.tenant,
       submitter = asked.submitter, title = asked.title, tags = asked.tags, owner = asked.owner,
       version = asked.version,
       state = case when asked.ready_at > asked.now then 'scheduled' else 'ready' end,
       due_at = asked.ready_at, ready_at = asked.ready_at,
       deadline = asked.ready_at + asked.start_within, late = asked.late, retry = asked.retry,
       attempt = 0, crashes = 0, reason = '', waits = null, waits_for = null,
       limits = asked.limits, needs = asked.needs, terms = asked.terms,
       fair = exists (select 1 from duly.queue where queue.name = asked.queue and queue.fair),
       shelf = asked.shelf,
       rank = {greatest}(asked.ready_at, asked.now) - asked.priority * 1000000::bigint,
       request = asked.request
  from (select one.*, clock.now, coalesce(run_at, clock.now + delay) as ready_at, {shelf} as shelf
          from (select *, 0 as crashes from {rows :batch as one ({asked_columns})}) as one,
               {clock}) as asked
 where {hint job.id in :batch ->> 'id'::bigint}
   and job.id = asked.id
   and job.state in ('scheduled', 'blocked', 'ready')
returning job.id;

-- name: point_keys
-- Give keys of running or ended jobs to new jobs.
update duly.job_key
   set job_id = asked.id
  from {rows :batch as asked (task text, key text, id bigint)}
 where job_key.task = asked.task
   and job_key.key = asked.key
returning job_key.job_id;

-- name: key_holder
select job_id
  from duly.job_key
 where task = :task and key = :key;

-- name: hold_keys
-- Locks are taken in one order everywhere: schedules, keys, jobs.
select job_key.task, job_key.key
  from duly.job_key
  join {rows :rows as mine (task text, key text)}
    on job_key.task = mine.task and job_key.key = mine.key
 order by 1, 2
   {for update of job_key};

-- name: drop_keys for sqlite
delete from duly.job_key
 where (task, key, job_id) in (select task, key, id
                                 from {rows :rows as mine (task text, key text, id bigint)});

-- name: drop_keys for postgres
-- Skip keys that another transaction has locked: prune_keys deletes them later.
delete from duly.job_key
 using (select job_key.task, job_key.key
          from duly.job_key
          join {rows :rows as mine (task text, key text, id bigint)}
            on job_key.task = mine.task and job_key.key = mine.key and job_key.job_id = mine.id
           {for update of job_key /*[skip_locked] skip locked [skip_locked]*/}) as free
 where job_key.task = free.task and job_key.key = free.key;

-- name: old_keys
-- Lock keys whose jobs have ended. Another transaction may have given one to a new job that this
-- statement does not see, so prune_keys checks again.
select task, key
  from duly.job_key
 where not exists (select 1 from duly.job where job.id = job_key.job_id)
 limit :limit
   {for update /*[skip_locked] skip locked [skip_locked]*/};

-- name: prune_keys
-- Delete the locked keys that still have no job.
delete from duly.job_key
 where (task, key) in (select old.task, old.key from {rows :rows as old (task text, key text)})
   and not exists (select 1 from duly.job where job.id = job_key.job_id)
returning job_id;

-- part: making
-- Create the jobs of fires from their schedules. The request of a job is its own number, or that of
-- its backfill. All shell and HTTP schedules share a task, so their jobs get the schedule's name as
-- title.
insert into duly.job ({new_columns}, unawaited)
select made.id, task, args, queue, made.priority, tenant, submitter,
       case when title = '' and task like 'duly.%' then schedule.name else title end, tags,
       owner, version, null, made.state, clock.now, made.due_at, made.ready_at, made.deadline,
       made.late, made.retry, 0, 0, null, 0, null, schedule.id, made.fire_id, made.reason,
       {greatest}(made.ready_at, clock.now) - made.priority * 1000000::bigint, made.request, limits, needs,
       terms, coalesce((select fair from duly.queue where queue.name = schedule.queue), false),
       (select {shelf_of_moment}
          from (select schedule.limits as limits, schedule.needs as needs, 0 as crashes,
                       made.priority as priority, made.schedule_id as schedule_id,
                       made.request as request, made.id as id) as it),
       -- Before its schedule could overlap, a job may have begun to wait.
       made.unawaited and (select 1
                             from duly.job as waiting {indexed by job_blocked}
                            where waiting.schedule_id = made.schedule_id
                              and waiting.schedule_id is not null
                              and waiting.state = 'blocked' and waiting.waits is null
                            limit 1) is null

-- part: made_job
id bigint, schedule_id bigint, fire_id bigint, state text, due_at bigint, ready_at bigint,
           deadline bigint, late text, retry text, priority smallint, reason text, request bigint,
           unawaited boolean

-- name: add_fired_jobs
{making}
  from {rows :rows as made ({made_job})}
  join duly.schedule on schedule.id = made.schedule_id
 cross join {clock}
 where {hint schedule.id in :rows ->> 'schedule_id'::bigint}
    on conflict (id) do nothing
returning id;

-- name: set_awaited
-- From now on other jobs of the schedule may wait for the end of these.
update duly.job
   set unawaited = {postgres false}{sqlite 0}
 where schedule_id = :schedule_id and unawaited;

-- name: take_over
-- Let a waiting job stand for a newer fire of its schedule.
update duly.job
   set due_at = newer.due_at, fire_id = newer.fire_id, deadline = newer.deadline, late = newer.late
  from {rows :rows as newer (
           id bigint, due_at bigint, fire_id bigint, deadline bigint, late text)}
 where {hint job.id in :rows ->> 'id'::bigint}
   and job.id = newer.id
   and job.state in ('scheduled', 'blocked', 'ready')
returning job.id;

-- part: deciding
-- The jobs of each schedule that a decision depends on: the first, the last, the newest clock job that
-- has not started, and running clock jobs. Each is one index step, however many jobs wait behind them
-- after a backfill.
select (select id from duly.job where schedule_id = asked.number order by due_at, id limit 1)
  from {each :ids::bigint[] as asked (number)}
 union all
select (select id from duly.job where schedule_id = asked.number order by due_at desc, id desc limit 1)
  from {each :ids::bigint[] as asked (number)}
 union all
select (select id
          from duly.job
         where schedule_id = asked.number and request = id and state <> 'running'
         order by due_at desc, id desc
         limit 1)
  from {each :ids::bigint[] as asked (number)}
 union all
select unblocked.id
  from {each :ids::bigint[] as asked (number)}
{lateral duly.job as unblocked {indexed by job_unblocked}
  where schedule_id + 0 = asked.number and schedule_id is not null
    and (state <> 'blocked' or waits is not null)
  order by due_at, id
  limit 1000}
 where unblocked.state = 'running' and unblocked.request = unblocked.id

-- name: live_jobs
select schedule_id, id, state, due_at, fire_id, request
  from duly.job
 where id {in ({deciding})}
 order by schedule_id, due_at, id;

-- name: hold_live_jobs
-- The same, locked: no worker starts one of them before the decision is written.
select schedule_id, id, state, due_at, fire_id, request
  from duly.job
 where id {in ({deciding})}
 order by schedule_id, due_at, id
   {for no key update};

-- name: waiting_jobs
-- The number of clock jobs that wait in each schedule, up to :most.
select asked.number,
       (select count(*)
          from (select 1
                  from duly.job
                 where schedule_id = asked.number and request = id and state <> 'running'
                 order by due_at desc, id desc
                 limit :most) as waiting)
  from {each :ids::bigint[] as asked (number)};

-- name: live_job
select {live_job}
  from duly.job
 where id = :id;

-- name: ended_job
select {ended_job} from duly.history where id = :id
 union all
select {ended_job} from duly.failed where id = :id;

-- name: list_jobs
select {live_job}
  from duly.job
 where id > :after
 order by id
 limit :limit;

-- name: list_history
select {ended_job}
  from duly.history
 where ended_at >= :since and state = :state
 order by ended_at desc, id desc
 limit :limit;

-- name: list_failed
select {ended_job}
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
-- Take an idempotency key that was not used within a day; return nothing if it was. A concurrent call
-- with the same key waits here for the first one's commit.
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
-- The age is checked again, because an old key may have been taken anew meanwhile.
delete from duly.once
 where (who, key) in (select who, key from duly.once where at < :before limit :limit)
   and at < :before
returning key;
