-- part: schedule_name
(select name from duly.schedule where schedule.id = schedule_id)

-- part: fence
-- Rises with every claim of the job: whoever lost its lease holds a lower one. It is a moment, and
-- not the next number: a database that was put back to an older state would give those again.
greatest(job.fence + 1, {now})

-- part: claimed
update duly.job
   set state = 'running', attempt = attempt + 1, worker = :worker, fence = {fence},
       claimed_at = {now}, reason = ''

-- part: alive
-- Only for a worker whose lease is alive.
exists (select from duly.worker where id = :worker and lease_until > {now})

-- part: still_ready
-- For jobs that are found by their numbers: written so that no partial index fits, and the planner
-- can only use the primary key.
state || '' = 'ready'

-- part: claimable
{still_ready}
   and {alive}

-- part: plain
-- A queue that is paused, limited or fair is not claimed from in passing.
not exists (select
                     from duly.queue
                    where name = :queue
                      and (paused or fair or concurrency is not null or rate_count is not null))

-- part: skipping
/*[skip_locked]
              for no key update skip locked
[skip_locked]*/

-- name: claim
-- Jobs of the tasks that the worker knows, the most urgent first. The array keeps the plan on the
-- index, whatever the statistics say. Nothing is looked for below the floor: rank is a time, and
-- what was claimed before has left its dead entries there.
{claimed}
 where id = any(array(
           select id
             from duly.job
            where state = 'ready' and queue = :queue and shelf = :shelf::smallint
              and rank >= :floor::bigint and task = any(:tasks::text[])
            order by rank, id
            limit :limit
              {skipping}))
   and {claimable}
   and queue = :queue
   and {plain}
returning {job}, rank, {schedule_name};

-- name: claim_held
-- The same, for whoever holds the queue and has looked at its limits.
{claimed}
 where id = any(array(
           select id
             from duly.job
            where state = 'ready' and queue = :queue and shelf = :shelf::smallint
              and task = any(:tasks::text[])
            order by rank, id
            limit :limit
              {skipping}))
   and {claimable}
   and queue = :queue
returning {job}, rank, {schedule_name};

-- name: claim_of_tasks
-- The first of each of these tasks, out of a queue in which a crowd of others may wait. Whoever holds
-- the queue has looked at its limits.
{claimed}
 where id = any(array(
           select picked.id
             from unnest(:among::text[]) as known (task)
            cross join lateral (select id, rank
                                  from duly.job
                                 where state = 'ready' and queue = :queue and shelf = :shelf::smallint
                                   and job.task = known.task
                                 order by rank, id
                                 limit :share
                                   {skipping}) as picked
            order by picked.rank, picked.id
            limit :limit))
   and {claimable}
   and queue = :queue
   and (:held::int = 1 or {plain})
returning {job}, rank, {schedule_name};

-- part: fits
-- Nothing that the job needs is less free at this worker.
(needs is null
    or not exists (select
                     from jsonb_each_text(needs::jsonb) as need (name, amount)
                    where amount::bigint > coalesce((:free::jsonb ->> name)::bigint, 0)))

-- part: fair_here
state = 'ready' and fair and queue = :queue and shelf = :shelf::smallint and task = any(:tasks::text[])

-- name: waiting_tenants
-- The next tenants that have jobs ready, behind the one that came last: a step of the index for
-- each, however many jobs they have. And nobody, if the oldest job takes no turns.
with recursive turn (tenant, place) as (
    (select tenant, 1
       from duly.job
      where {fair_here} and {fits} and tenant >= :start::text
      order by tenant
      limit 1)
     union all
    select (select job.tenant
              from duly.job
             where {fair_here} and {fits} and job.tenant > turn.tenant
             order by job.tenant
             limit 1),
           place + 1
      from turn
     where turn.tenant is not null and place < :limit)
select tenant
  from turn
 where tenant is not null
 union all
select null
  from (select fair
          from duly.job
         where state = 'ready' and queue = :queue and shelf = :shelf::smallint
           and task = any(:tasks::text[])
         order by rank, id
         limit 1) as oldest
 where not fair
 order by 1;

-- name: claim_of_tenants
-- So many of each tenant.
{claimed}
 where id = any(array(
           select picked.id
             from unnest(:tenants::text[]) with ordinality as turn (tenant, place)
            cross join lateral (select id
                                  from duly.job
                                 where {fair_here} and job.tenant = turn.tenant
                                 order by rank, id
                                 limit :share
                                   {skipping}) as picked
            order by turn.place
            limit :limit))
   and {claimable}
   and queue = :queue
returning {job}, rank, {schedule_name};

-- part: kind
-- Whether a job has limits, and what it needs: the same for all that fit the same workers.
(case when limits is null then '' else '+' end || coalesce(needs, ''))

-- part: careful_here
state = 'ready' and shelf = 3 and queue = :queue

-- name: kinds
-- The kinds of jobs on the shelf of those that have limits or need resources: a step of the index for
-- each kind of each task, however many jobs there are.
with recursive line (task, kind) as (
    select known.task, head.kind
      from unnest(:tasks::text[]) as known (task)
     cross join lateral (select {kind} as kind
                           from duly.job
                          where {careful_here} and job.task = known.task
                          order by {kind}
                          limit 1) as head
     union all
    select line.task, next.kind
      from line
     cross join lateral (select {kind} as kind
                           from duly.job
                          where {careful_here} and job.task = line.task and {kind} > line.kind
                          order by {kind}
                          limit 1) as next)
select task, kind
  from line
 order by 1, 2;

-- name: candidates
-- Jobs of these kinds, in the order in which they are looked at. They are held: what is decided about
-- them is true until it is written.
select mine.id, mine.rank, mine.limits, mine.needs, mine.tenant
  from jsonb_to_recordset(:kinds::jsonb) as asked (task text, kind text)
 cross join lateral (select id, rank, limits, needs, tenant
                       from duly.job
                      where {careful_here} and job.task = asked.task and {kind} = asked.kind
                      order by rank, id
                      limit :share
                        for no key update /*[skip_locked] skip locked [skip_locked]*/) as mine
 order by mine.rank, mine.id
 limit :limit;

-- name: candidates_of_tenants
-- The same, so many of each tenant.
select mine.id, mine.rank, mine.limits, mine.needs, mine.tenant
  from unnest(:tenants::text[]) as turn (tenant)
 cross join lateral (select id, rank, limits, needs, job.tenant
                       from duly.job
                      where state = 'ready' and fair and queue = :queue and job.tenant = turn.tenant
                        and shelf = 3 and task = any(:tasks::text[]) and {fits}
                      order by rank, id
                      limit :share
                        for no key update /*[skip_locked] skip locked [skip_locked]*/) as mine
 limit :limit;

-- name: passed_limits
-- The limits of jobs that do not fit here: others may wait there for the places that these leave.
select mine.limits
  from jsonb_to_recordset(:kinds::jsonb) as asked (task text, kind text)
 cross join lateral (select id, rank, limits
                       from duly.job
                      where {careful_here} and job.task = asked.task and {kind} = asked.kind
                      order by rank, id
                      limit :share) as mine
 order by mine.rank, mine.id
 limit :limit;

-- name: claim_chosen
{claimed}
 where id = any(:ids::bigint[])
   and {claimable}
returning {job}, rank, {schedule_name};

-- name: hold_queue
-- The row of a queue is the lock for whoever claims from it under its limits.
select paused::int, concurrency, rate_count, rate_period, arrival, fair::int, {now}
  from duly.queue
 where name = :queue
   for update;

-- name: running_in_queue
-- Asked after the queue is held, as a statement of its own: it sees every claim before ours.
select count(*)
  from duly.job
 where worker is not null and queue = :queue;

-- name: spend_queue
update duly.queue
   set arrival = :arrival
 where name = :queue;

-- name: ready_shelves
-- Where there is something to claim for a worker that knows these tasks: a step of the index for each
-- task on each shelf of each queue. Where others' tasks wait too, it is told which of its own do.
with recursive place (queue, shelf, task) as (
    select asked.queue, head.shelf, head.task
      from unnest(:queues::text[]) as asked (queue)
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
       case when bool_and(task = any(:tasks::text[])) then '[]'
            else (json_agg(task order by task) filter (where task = any(:tasks::text[])))::text
       end
  from place
 group by queue, shelf
having bool_or(task = any(:tasks::text[]))
 order by 1, 2;

-- name: keep_plain
-- Jobs that succeeded and that nothing waits for go into the history …
insert into duly.history (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                          version, key, state, created_at, due_at, ready_at, deadline, late, retry,
                          attempt, crashes, worker, fence, claimed_at, schedule_id, fire_id, reason,
                          limits, needs, terms, ended_at, result, error, request, result_until,
                          parent, step, part)
select job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       'succeeded', created_at, due_at, ready_at, deadline, late, retry, attempt, 0, worker, fence,
       claimed_at, schedule_id, fire_id, 'succeeded at attempt ' || attempt, limits, needs, terms,
       clock.now, mine.result, null, request, clock.now + mine.keep, parent, step, part
  from (select (row ->> 0)::bigint as id, row ->> 1 as result, (row ->> 2)::bigint as keep
          from jsonb_array_elements(:rows::jsonb) as row) as mine
  join duly.job on job.id = mine.id
 cross join (select {now} as now offset 0) as clock
 where job.id = any(array(select (row ->> 0)::bigint from jsonb_array_elements(:rows::jsonb) as row))
   and job.fence = :fence and job.state = 'running'
   for update of job;

-- name: finish_plain
-- … and out of the hot table.
delete from duly.job
 where id = any(:ids::bigint[]) and fence = :fence and state = 'running'
returning id;

-- name: turn
-- The same, and the next jobs with it: one statement, one round trip, one commit. The claim does
-- not see what the finish has freed, and nothing waits for what is finished here.
with done as (
    delete from duly.job
     where id = any(:ids::bigint[]) and state = 'running'
       and fence = (:fences::bigint[])[array_position(:ids::bigint[], id)]
    returning {job}, request),
kept as (
    insert into duly.history (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                              version, key, state, created_at, due_at, ready_at, deadline, late,
                              retry, attempt, crashes, worker, fence, claimed_at, schedule_id,
                              fire_id, reason, limits, needs, terms, ended_at, result, error, request,
                              result_until, parent, step, part)
    select done.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
           'succeeded', created_at, due_at, ready_at, deadline, late, retry, attempt, 0, worker,
           fence, claimed_at, schedule_id, fire_id, 'succeeded at attempt ' || attempt, limits, needs,
           terms, clock.now, mine.result, null, request, clock.now + mine.keep, parent, step, part
      from done
      join unnest(:ids::bigint[], :results::text[], :keeps::bigint[]) as mine (id, result, keep)
        on mine.id = done.id
     cross join (select {now} as now offset 0) as clock),
taken as (
    update duly.job
       set state = 'running', attempt = attempt + 1, worker = :worker, fence = {fence},
           claimed_at = {now}, reason = ''
     where id = any(array(
               select id
                 from duly.job
                where state = 'ready' and queue = :queue and shelf = :shelf::smallint
                  and rank >= :floor::bigint and task = any(:tasks::text[])
                order by rank, id
                limit :limit
                  {skipping}))
       and {still_ready}
       and {alive}
       and queue = :queue
       and {plain}
    returning {job}, rank)
select (select json_agg(id)::text from done),
       (select json_agg(json_build_array({job}, rank, {schedule_name}) order by rank, id)::text from taken);

-- name: held_jobs
select {job}, rank, {schedule_name}
  from duly.job
 where worker = :worker
 order by id + 0;
