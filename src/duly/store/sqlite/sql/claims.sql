-- part: schedule_name
(select name from duly_schedule where duly_schedule.id = schedule_id)

-- part: claimed
-- The fence rises with every claim of the job: whoever lost its lease holds a lower one. It is a
-- moment, and not the next number: a file that was put back to an older state would give those again.
update duly_job
   set state = 'running', attempt = attempt + 1, worker = :worker, fence = max(fence + 1, :now),
       claimed_at = :now, reason = ''

-- part: alive
-- Only for a worker whose lease is alive.
exists (select 1 from duly_worker where id = :worker and lease_until > :now)

-- name: claim
-- Jobs of the tasks that the worker knows, the most urgent first.
{claimed}
 where id in (select id
                from duly_job
               where state = 'ready' and queue = :queue and shelf = :shelf and rank >= :floor
                 and task in (select value from json_each(:tasks))
               order by rank, id
               limit :limit)
   and {alive}
   and {plain}
returning {job}, rank, {schedule_name};

-- name: claim_held
-- The same, for whoever holds the queue and has looked at its limits.
{claimed}
 where id in (select id
                from duly_job
               where state = 'ready' and queue = :queue and shelf = :shelf
                 and task in (select value from json_each(:tasks))
               order by rank, id
               limit :limit)
   and {alive}
returning {job}, rank, {schedule_name};

-- part: plain
-- A queue that is paused, limited or fair is not claimed from in passing.
not exists (select 1
                     from duly_queue
                    where name = :queue
                      and (paused or fair or concurrency is not null or rate_count is not null))

-- name: claim_of_tasks
-- The first of each of these tasks, out of a queue in which a crowd of others may wait. Whoever holds
-- the queue has looked at its limits.
{claimed}
 where id in (select picked.id
                from json_each(:among) as known
               cross join duly_job as picked
                  on picked.id in (select id
                                     from duly_job
                                    where state = 'ready' and queue = :queue and shelf = :shelf
                                      and task = known.value
                                    order by rank, id
                                    limit :share)
               order by picked.rank, picked.id
               limit :limit)
   and {alive}
   and (:held = 1 or {plain})
returning {job}, rank, {schedule_name};

-- part: fits
-- Nothing that the job needs is less free at this worker.
(needs is null
    or not exists (select 1
                     from json_each(needs) as need
                    where need.value > coalesce((select here.value
                                                   from json_each(:free) as here
                                                  where here.key = need.key), 0)))

-- part: fair_here
state = 'ready' and fair and queue = :queue and shelf = :shelf
               and task in (select value from json_each(:tasks))

-- name: waiting_tenants
-- The next tenants that have jobs ready, behind the one that came last: a step of the index for
-- each, however many jobs they have. And nobody, if the oldest job takes no turns.
with recursive turn (tenant, place) as (
    select (select tenant
              from duly_job
             where {fair_here} and {fits} and tenant >= :start
             order by tenant
             limit 1),
           1
     union all
    select (select duly_job.tenant
              from duly_job
             where {fair_here} and {fits} and duly_job.tenant > turn.tenant
             order by duly_job.tenant
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
          from duly_job
         where state = 'ready' and queue = :queue and shelf = :shelf
           and task in (select value from json_each(:tasks))
         order by rank, id
         limit 1) as oldest
 where not fair
 order by 1;

-- name: claim_of_tenants
-- So many of each tenant.
{claimed}
 where id in (select mine.id
                from json_each(:tenants) as turn
               cross join duly_job as mine
                  on mine.id in (select id
                                   from duly_job indexed by duly_job_fair
                                  where {fair_here} and tenant = turn.value
                                  order by rank, id
                                  limit :share)
               order by turn.key
               limit :limit)
   and {alive}
returning {job}, rank, {schedule_name};

-- part: kind
-- Whether a job has limits, and what it needs: the same for all that fit the same workers.
(case when limits is null then '' else '+' end || ifnull(needs, ''))

-- part: careful_here
state = 'ready' and shelf = 3 and queue = :queue

-- name: kinds
-- The kinds of jobs on the shelf of those that have limits or need resources: a step of the index for
-- each kind of each task, however many jobs there are.
with recursive line (task, kind) as (
    select known.value, (select min({kind}) from duly_job where {careful_here} and task = known.value)
      from json_each(:tasks) as known
     union all
    select line.task,
           (select min({kind}) from duly_job where {careful_here} and task = line.task and {kind} > line.kind)
      from line
     where line.kind is not null)
select task, kind
  from line
 where kind is not null
 order by 1, 2;

-- part: of_kinds
from json_each(:kinds) as asked
 cross join duly_job
    on duly_job.id in (select id
                         from duly_job indexed by duly_job_needs
                        where {careful_here} and task = asked.value ->> 'task'
                          and {kind} = asked.value ->> 'kind'
                        order by rank, id
                        limit :share)
 order by rank, duly_job.id
 limit :limit

-- name: candidates
-- Jobs of these kinds, in the order in which they are looked at.
select duly_job.id, rank, limits, needs, tenant
  {of_kinds};

-- name: candidates_of_tenants
-- The same, so many of each tenant.
select mine.id, mine.rank, mine.limits, mine.needs, mine.tenant
  from json_each(:tenants) as turn
 cross join duly_job as mine
    on mine.id in (select id
                     from duly_job indexed by duly_job_fair
                    where state = 'ready' and fair and queue = :queue and shelf = 3
                      and tenant = turn.value
                      and task in (select value from json_each(:tasks))
                      and {fits}
                    order by rank, id
                    limit :share)
 limit :limit;

-- name: passed_limits
-- The limits of jobs that do not fit here: others may wait there for the places that these leave.
select limits
  {of_kinds};

-- name: claim_chosen
{claimed}
 where id in (select value from json_each(:ids))
   and state = 'ready'
   and {alive}
returning {job}, rank, {schedule_name};

-- name: hold_queue
select paused, concurrency, rate_count, rate_period, arrival, fair, :now
  from duly_queue
 where name = :queue;

-- name: running_in_queue
-- Not flows: their steps run.
select count(*)
  from duly_job
 where worker is not null and queue = :queue;

-- name: spend_queue
update duly_queue
   set arrival = :arrival
 where name = :queue;

-- name: ready_shelves
-- Where there is something to claim for a worker that knows these tasks: a step of the index for each
-- task on each shelf of each queue. Where others' tasks wait too, it is told which of its own do.
with recursive place (number) as (
    select (select id
              from duly_job
             where state = 'ready' and queue = asked.value
             order by shelf, task
             limit 1)
      from json_each(:queues) as asked
     union all
    select coalesce((select id
                       from duly_job
                      where state = 'ready' and queue = here.queue and shelf = here.shelf
                        and task > here.task
                      order by task
                      limit 1),
                    (select id
                       from duly_job
                      where state = 'ready' and queue = here.queue and shelf > here.shelf
                      order by shelf, task
                      limit 1))
      from place
     cross join duly_job as here on here.id = place.number)
select queue, shelf,
       case when min(mine) then '[]' else json_group_array(task) filter (where mine) end
  from (select queue, shelf, task, task in (select value from json_each(:tasks)) as mine
          from place
         cross join duly_job on duly_job.id = place.number
         order by task) as seen
 group by queue, shelf
having max(mine)
 order by 1, 2;

-- name: keep_plain
-- Jobs that succeeded and that nothing waits for go into the history …
insert into duly_history (id, task, args, queue, priority, tenant, submitter, title, tags, owner,
                          version, key, state, created_at, due_at, ready_at, deadline, late, retry,
                          attempt, crashes, worker, fence, claimed_at, schedule_id, fire_id, reason,
                          limits, needs, terms, ended_at, result, error, request, result_until,
                          parent, step, part)
select duly_job.id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, key,
       'succeeded', created_at, due_at, ready_at, deadline, late, retry, attempt, 0, worker, fence,
       claimed_at, schedule_id, fire_id, 'succeeded at attempt ' || attempt, limits, needs, terms,
       :now, mine.result, null, request, :now + mine.keep, parent, step, part
  from (select value ->> 0 as id, value ->> 1 as result, value ->> 2 as keep
          from json_each(:rows)) as mine
  join duly_job on duly_job.id = mine.id
 where duly_job.fence = :fence and duly_job.state = 'running';

-- name: finish_plain
-- … and out of the hot table.
delete from duly_job
 where id in (select value from json_each(:ids)) and fence = :fence and state = 'running'
returning id;

-- name: held_jobs
select {job}, rank, {schedule_name}
  from duly_job
 where worker = :worker
 order by +id;
