-- part: schedule_name
(select name from duly.schedule where schedule.id = schedule_id)

-- part: fence
-- The fencing token rises with every claim of the job: a worker that lost its lease holds a lower
-- one. It is a time, because a database restored from a backup would hand out counters again.
{greatest}(job.fence + 1, {now})

-- part: claimed
update duly.job
   set state = 'running', attempt = attempt + 1, worker = :worker, fence = {fence},
       claimed_at = {now}, reason = ''

-- part: alive
-- The worker's lease has not expired.
exists (select 1 from duly.worker where id = :worker and lease_until > {now})

-- part: still_ready
-- For jobs found by their numbers. Written so that no partial index matches and the planner uses the
-- primary key.
state || '' = 'ready'

-- part: claimable
{still_ready}
   and {alive}

-- part: plain
-- The queue is not paused, limited or fair: those need the lock of hold_queue.
not exists (select 1
                     from duly.queue
                    where name = :queue
                      and (paused or fair or concurrency is not null or rate_count is not null))

-- part: skipping
/*[skip_locked] {for no key update skip locked} [skip_locked]*/

-- part: ready_here
-- The shelf is in a query of its own: compared with a known number, the index of that shelf would match,
-- and SQLite would plan the statement anew for each value.
state = 'ready' and queue = :queue and shelf = (select :shelf::smallint)

-- name: claim
-- Claim jobs of the tasks that the worker knows, the most urgent first. The array keeps the plan on
-- the index, whatever the statistics say. rank is a time: the search begins at the floor, to skip the
-- dead index entries of jobs claimed before.
{claimed}
 where id {in (
           select id
             from duly.job
            where {ready_here}
              and rank >= :floor::bigint and task {in :tasks::text[]}
            order by rank, id
            limit :limit
              {skipping})}
   and {claimable}
   and queue = :queue
   and {plain}
returning {job}, rank, {schedule_name}, unawaited::int;

-- name: claim_held
-- The same for a worker that has locked the queue and checked its limits.
{claimed}
 where id {in (
           select id
             from duly.job
            where {ready_here}
              and task {in :tasks::text[]}
            order by rank, id
            limit :limit
              {skipping})}
   and {claimable}
   and queue = :queue
returning {job}, rank, {schedule_name}, unawaited::int;

-- name: claim_of_tasks
-- Claim the first jobs of each of these tasks, without reading the ready jobs of other tasks. The task is
-- a range and stands in the order, so that only job_task fits: if all jobs were of one task when the table
-- was analyzed, PostgreSQL would expect to leave none out, and walk past the others by job_ready.
-- :held is 1 if the queue is locked and its limits are checked.
{claimed}
 where id {in (
           select picked.id
             from {each :among::text[] as known (task)}
           {lateral duly.job as picked
             where {ready_here}
               and job.task >= known.task and job.task <= known.task
             order by task, rank, id
             limit :share
               {skipping}}
            order by picked.rank, picked.id
            limit :limit)}
   and {claimable}
   and queue = :queue
   and (:held::int = 1 or {plain})
returning {job}, rank, {schedule_name}, unawaited::int;

-- name: oldest_of_tasks
-- The oldest ready job of each of the worker's tasks on a shelf: one index step for each task there.
with recursive oldest (number) as (
    select (select id
              from duly.job {indexed by job_task}
             where {ready_here}
             order by task, rank, id
             limit 1)
     union all
    select (select id
              from duly.job {indexed by job_task}
             where {ready_here}
               and job.task > (select before.task from duly.job as before where before.id = oldest.number)
             order by task, rank, id
             limit 1)
      from oldest
     where oldest.number is not null)
select task, fair::int
  from duly.job
 where id {in (select number from oldest)} and task {in :tasks::text[]}
 order by rank, id;

-- part: kind
-- Whether the job has limits, and the resources it needs. An index is made of this expression.
(case when limits is null then '' else '+' end || coalesce(needs, ''))

-- part: asked
{rows :kinds as asked (task text, kind text)}

-- part: fair_here
{ready_here} and fair and job.task = asked.task and {kind} = asked.kind

-- name: waiting_tenants
-- The next tenants with ready jobs of these kinds, starting at :start: one index step for each kind and
-- tenant.
with recursive turn (tenant, place) as (
    select (select min((select tenant
                          from duly.job {indexed by job_fair}
                         where {fair_here} and tenant >= :start::text
                         order by tenant
                         limit 1))
              from {asked}), 1
     union all
    select (select min((select job.tenant
                          from duly.job {indexed by job_fair}
                         where {fair_here} and job.tenant > turn.tenant
                         order by job.tenant
                         limit 1))
              from {asked}),
           place + 1
      from turn
     where turn.tenant is not null and place < :limit)
select tenant
  from turn
 where tenant is not null
 order by 1;

-- part: of_tenant
-- Lock up to :share jobs of one tenant, after reading up to :each of each kind.
{lateral duly.job as mine
             where id {in (
                       select one.id
                         from {asked}
                       {lateral duly.job as one {indexed by job_fair}
                         where {fair_here} and job.tenant = turn.value
                         order by rank, id
                         limit :each}
                        order by one.rank, one.id
                        limit :share)}
               and {still_ready}
                 {for no key update /*[skip_locked] skip locked [skip_locked]*/}}

-- part: tenants
{postgres unnest(:tenants::text[]) with ordinality as turn (value, key)}
{sqlite json_each(:tenants) as turn}

-- name: claim_of_tenants
-- Claim up to :share jobs of each tenant, the tenants in the given order.
{claimed}
 where id {in (
           select mine.id
             from {tenants}
           {of_tenant}
            order by turn.key
            limit :limit)}
   and {claimable}
   and queue = :queue
returning {job}, rank, {schedule_name}, unawaited::int;

-- part: careful_here
state = 'ready' and shelf = 3 and queue = :queue

-- name: kinds
-- The kinds of ready jobs that have limits or need resources: one index step for each kind of each
-- task.
with recursive line (task, kind) as (
    select known.task, (select {kind}
                          from duly.job {indexed by job_needs}
                         where {careful_here} and job.task = known.task
                         order by {kind}
                         limit 1)
      from {each :tasks::text[] as known (task)}
     union all
    select line.task, (select {kind}
                         from duly.job {indexed by job_needs}
                        where {careful_here} and job.task = line.task and {kind} > line.kind
                        order by {kind}
                        limit 1)
      from line
     where line.kind is not null)
select task, kind
  from line
 where kind is not null
 order by 1, 2;

-- name: candidates
-- Lock ready jobs of these kinds in claim order, so that a decision about their limits stays true
-- until it is written.
select mine.id, mine.rank, mine.limits, mine.needs, mine.tenant
  from {asked}
{lateral duly.job as mine {indexed by job_needs}
  where {careful_here} and job.task = asked.task and {kind} = asked.kind
  order by rank, id
  limit :share
    {for no key update /*[skip_locked] skip locked [skip_locked]*/}}
 order by mine.rank, mine.id
 limit :limit;

-- name: candidates_of_tenants
-- The same, up to :share jobs of each tenant.
select mine.id, mine.rank, mine.limits, mine.needs, mine.tenant
  from {tenants}
{of_tenant}
 order by turn.key
 limit :limit;

-- name: passed_limits
-- The limits of jobs that this worker cannot run: jobs parked at those limits may run instead.
select mine.limits
  from {asked}
{lateral duly.job as mine {indexed by job_needs}
  where {careful_here} and job.task = asked.task and {kind} = asked.kind
  order by rank, id
  limit :share}
 order by mine.rank, mine.id
 limit :limit;

-- name: claim_chosen
{claimed}
 where id {in :ids::bigint[]}
   and {claimable}
returning {job}, rank, {schedule_name}, unawaited::int;

-- name: hold_queue
-- Lock the queue's row: claims from a limited or fair queue happen one after the other.
select paused::int, concurrency, rate_count, rate_period, arrival, fair::int, {now}
  from duly.queue
 where name = :queue
   {for update};

-- name: running_in_queue
-- A statement of its own after hold_queue, so that it sees every earlier claim.
select count(*)
  from duly.job
 where worker is not null and queue = :queue;

-- name: spend_queue
update duly.queue
   set arrival = :arrival
 where name = :queue;

-- name: ready_shelves for postgres
-- The shelves of these queues with ready jobs of these tasks: one index step for each task on each
-- shelf of each queue. The third column lists the worker's tasks if other tasks wait there too.
with recursive place (queue, shelf, task) as (
    select asked.queue, head.shelf, head.task
      from {each :queues::text[] as asked (queue)}
     cross join lateral (select shelf, task
                           from duly.job
                          where state = 'ready' and job.queue = asked.queue
                          order by shelf, task
                          limit 1) as head
     union all
    select place.queue, next.shelf, next.task
      from place
     cross join lateral (select shelf, task
                           from duly.job
                          where state = 'ready' and job.queue = place.queue
                            and (job.shelf, job.task) > (place.shelf, place.task)
                          order by shelf, task
                          limit 1) as next)
select queue, shelf,
       case when bool_and(task {in :tasks::text[]}) then '[]'
            else (json_agg(task order by task) filter (where task {in :tasks::text[]}))::text
       end
  from place
 group by queue, shelf
having bool_or(task {in :tasks::text[]})
 order by 1, 2;

-- name: ready_shelves for sqlite
with recursive place (number) as (
    select (select id
              from duly.job
             where state = 'ready' and queue = asked.value
             order by shelf, task
             limit 1)
      from json_each(:queues) as asked
     union all
    select coalesce((select id
                       from duly.job
                      where state = 'ready' and queue = here.queue and shelf = here.shelf
                        and task > here.task
                      order by task
                      limit 1),
                    (select id
                       from duly.job
                      where state = 'ready' and queue = here.queue and shelf > here.shelf
                      order by shelf, task
                      limit 1))
      from place
     cross join duly.job as here on here.id = place.number)
select queue, shelf,
       case when min(mine) then '[]' else json_group_array(task) filter (where mine) end
  from (select queue, shelf, task, task {in :tasks} as mine
          from place
         cross join duly.job on job.id = place.number
         order by task) as seen
 group by queue, shelf
having max(mine)
 order by 1, 2;

-- part: nothing_waits
-- No other job waits for the end of this one. An edit that ends the overlapping of runs says so on the
-- jobs, so this is decided by the row and not by what a worker knows.
(schedule_id is null or unawaited)

-- part: succeeded
{ended_columns}
select mine.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       'succeeded', created_at, due_at, ready_at, deadline, late, retry, attempt, 0, worker, fence,
       claimed_at, schedule_id, fire_id, 'succeeded at attempt ' || attempt, clock.now, mine.result,
       null, request, limits, needs, terms, clock.now + mine.keep, parent, step, part

-- name: keep_plain
-- Copy jobs that succeeded, and that no other row waits for, into the history …
insert into duly.history {succeeded}
  from (select (one ->> 0)::bigint as id, one ->> 1 as result, (one ->> 2)::bigint as keep
          from {each :rows::json as given (one)}) as mine
  join duly.job on job.id = mine.id
 cross join {clock}
 where {hint job.id in :rows ->> 0::bigint}
   and job.fence = :fence and job.state = 'running' and {nothing_waits}
   {for update of job};

-- name: finish_plain
-- … and delete them from the hot table.
delete from duly.job
 where id {in :ids::bigint[]} and fence = :fence and state = 'running' and {nothing_waits}
returning id;

-- name: finish_and_claim for postgres
-- Finish jobs and claim the next ones in one round trip and one commit. The claim does not see what the
-- finish has freed; no other row waits for the jobs finished here.
--
-- The claim comes first in the result, and so is made first. It reads what was committed when the statement
-- began, and locks every job that was ready then, also one that another worker has claimed since: that
-- worker could not finish the job before this transaction ends. After the finish there would be hundreds
-- of those.
--
-- :ids rise, so that width_bucket finds the place of an id by halving.
with done as (
    delete from duly.job
     where id {in :ids::bigint[]} and state = 'running' and {nothing_waits}
       and fence = (:fences::bigint[])[width_bucket(id, :ids::bigint[])]
    returning {job}, request),
kept as (
    insert into duly.history {succeeded}
      from done
      join unnest(:ids::bigint[], :results::text[], :keeps::bigint[]) as mine (id, result, keep)
        on mine.id = done.id
     cross join {clock}),
taken as (
    {claimed}
     where id {in (
               select id
                 from duly.job
                where state = 'ready' and queue = :queue and shelf = :shelf::smallint
                  and rank >= :floor::bigint and task {in :tasks::text[]}
                order by rank, id
                limit :limit
                  {skipping})}
       and {claimable}
       and queue = :queue
       and {plain}
    returning {job}, rank, unawaited)
select (select json_agg(json_build_array({job}, rank, {schedule_name}, unawaited::int))::text
          from (select * from taken order by rank, id) as taken),
       (select json_agg(id)::text from done);

-- name: held_jobs
select {job}, rank, {schedule_name}, unawaited::int
  from duly.job
 where worker = :worker
 order by id + 0;
