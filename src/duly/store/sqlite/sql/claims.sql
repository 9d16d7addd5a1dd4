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
-- Jobs of the tasks that the worker knows, the most urgent first. A queue that is paused, limited
-- or fair is not claimed from in passing.
{claimed}
 where id in (select id
                from duly_job
               where state = 'ready' and queue = :queue and shelf = :shelf and rank >= :floor
                 and task in (select value from json_each(:tasks))
               order by rank, id
               limit :limit)
   and {alive}
   and not exists (select 1
                     from duly_queue
                    where name = :queue
                      and (paused or fair or concurrency is not null or rate_count is not null))
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
                from (select id, tenant,
                             row_number() over (partition by tenant order by rank, id) as place
                        from duly_job
                       where {fair_here}
                         and tenant in (select value from json_each(:tenants))) as mine
                join json_each(:tenants) as turn on turn.value = mine.tenant
               where mine.place <= :share
               order by turn.key
               limit :limit)
   and {alive}
returning {job}, rank, {schedule_name};

-- name: candidates
-- Jobs that have limits or need resources, in the order in which they are looked at; what does not
-- fit here is passed over, and hides nobody.
select id, rank, limits, needs, tenant
  from duly_job
 where state = 'ready' and queue = :queue and shelf = 3
   and task in (select value from json_each(:tasks))
   and {fits}
 order by rank, id
 limit :limit;

-- name: candidates_of_tenants
-- The same, so many of each tenant.
select id, rank, limits, needs, tenant
  from (select id, rank, limits, needs, tenant,
               row_number() over (partition by tenant order by rank, id) as place
          from duly_job
         where state = 'ready' and fair and queue = :queue and shelf = 3
           and tenant in (select value from json_each(:tenants))
           and task in (select value from json_each(:tasks))
           and {fits}) as mine
 where place <= :share
 order by place, rank, id
 limit :limit;

-- name: passed_limits
-- The limits of jobs that do not fit here: others may wait there for the places that these leave.
select limits
  from duly_job
 where state = 'ready' and queue = :queue and shelf = 3
   and task in (select value from json_each(:tasks))
   and limits is not null and not {fits}
 order by rank, id
 limit :limit;

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
 where state = 'running' and worker is not null and queue = :queue;

-- name: spend_queue
update duly_queue
   set arrival = :arrival
 where name = :queue;

-- name: ready_shelves
-- Where there is something to claim: a look at the head of each shelf of each queue.
select asked.value, shelf.value
  from json_each(:queues) as asked
 cross join json_each('[0, 1, 2, 3, 4]') as shelf
 where exists (select 1
                 from duly_job
                where state = 'ready' and queue = asked.value and shelf = shelf.value)
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
 where worker = :worker and state = 'running'
 order by id;
