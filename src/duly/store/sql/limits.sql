-- part: rules
-- The operator's rule for a lane: by its name, or else by its template.
-- One index step each on PostgreSQL, however the lanes are found.
left join {postgres lateral (select * from duly.lane_rule where name = lane.name offset 0)}
            {sqlite duly.lane_rule} as by_name on by_name.name = lane.name
  left join {postgres lateral (select * from duly.lane_rule where name = lane.template offset 0)}
            {sqlite duly.lane_rule} as by_template on by_template.name = lane.template

-- part: rule_numbers
case when by_name.name is null then by_template.concurrency else by_name.concurrency end,
       case when by_name.name is null then by_template.rate_count else by_name.rate_count end,
       case when by_name.name is null then by_template.rate_period else by_name.rate_period end

-- part: at_lane
state = 'blocked' and waits = 'limit' and waits_for = lane.name

-- name: make_limits
insert into duly.lane (name, template, concurrency, rate_count, rate_period, arrival, opens_at, used_at)
select name, template, null, null, null, 0, null, {now}
  from {rows :rows as one (name text, template text)}
 where true
 order by name
    on conflict (name) do nothing;

-- name: hold_limits
-- Lock the lanes before a job enters or leaves them, in the order of names to avoid deadlocks.
select name
  from duly.lane
 where name {in :names::text[]}
 order by name
   {for update};

-- name: look_into_limits
-- The jobs in a lane, whether jobs are parked there, and the first parked job that the worker could
-- run and that no other transaction has locked.
select lane.name, lane.concurrency, lane.rate_count, lane.rate_period, lane.arrival, lane.used_at,
       (coalesce(by_name.name, by_template.name) is not null)::int, {rule_numbers},
       (select count(*) from duly.holding where holding.lane = lane.name),
       (select count(*) from (select 1 from duly.job where {at_lane} limit 1) as waiting),
       first.rank, first.id, {now}
  from duly.lane
  {rules}
  left join {postgres lateral (select rank, id}
            {sqlite duly.job as first on first.id = (select id}
               from duly.job
              where :queue <> '' and {at_lane} and queue = :queue and task {in :tasks::text[]}
              order by rank, id
              limit 1
                {for no key update /*[skip_locked] skip locked [skip_locked]*/})
            {postgres as first on true}
 where lane.name {in :names::text[]}
 order by lane.name;

-- name: add_holdings
insert into duly.holding (lane, job_id)
select lane, job_id
  from {rows :rows as one (lane text, job_id bigint)}
 where true
    on conflict do nothing;

-- name: drop_holdings
delete from duly.holding
 where job_id {in :ids::bigint[]};

-- name: hold_full
-- Park jobs at a full lane, so that claims do not read them again.
update duly.job
   set state = 'blocked', waits = 'limit', waits_for = one.lane, reason = one.reason
  from {rows :rows as one (id bigint, lane text, reason text)}
 where {hint job.id in :rows ->> 'id'::bigint}
   and job.id = one.id
   and job.state || '' = 'ready';

-- name: write_limits
update duly.lane
   set concurrency = one.concurrency, rate_count = one.rate_count, rate_period = one.rate_period,
       arrival = one.arrival, used_at = {now}
  from {rows :rows as one (
           name text, concurrency int, rate_count int, rate_period bigint, arrival bigint)}
 where {hint lane.name in :rows ->> 'name'::text} and lane.name = one.name;

-- name: free_parked for postgres
-- Make the first jobs that are parked at a lane ready again. They keep their rank. Jobs locked by
-- another transaction are skipped.
update duly.job
   set state = 'ready', waits = null, waits_for = null, reason = ''
 where id {in (
           select waiting.id
             from {rows :rows as place (lane text, count bigint, queue text)}
            cross join lateral (select id
                                  from duly.job
                                 where state = 'blocked' and waits = 'limit' and waits_for = place.lane
                                   and (place.queue is null
                                        or job.queue = place.queue and task {in :tasks::text[]})
                                 order by rank, id
                                 limit {least}(place.count, :most)
                                   {for no key update /*[skip_locked] skip locked [skip_locked]*/})
                    as waiting)}
   and state = 'blocked'
   and coalesce(waits, '') = 'limit'
returning queue;

-- name: free_parked for sqlite
update duly.job
   set state = 'ready', waits = null, waits_for = null, reason = ''
 where id in (select waiting.id
                from (select first.id, free.count,
                             row_number() over (partition by waits_for order by rank, id) as place
                        from (select value ->> 'lane' as lane, value ->> 'count' as count,
                                     value ->> 'queue' as queue
                                from json_each(:rows)) as free
                       cross join duly.job as first
                          on first.id in (select id
                                            from duly.job
                                           where state = 'blocked' and waits = 'limit'
                                             and waits_for = free.lane
                                             and (free.queue is null
                                                  or job.queue = free.queue
                                                 and task {in :tasks})
                                           order by rank, id
                                           limit :most)) as waiting
               where waiting.place <= waiting.count)
returning queue;

-- name: set_opening
-- When to check a lane again, null if no job is parked there. An earlier time stays.
update duly.lane
   set opens_at = again.opens_at
  from (select lane.name,
               case when (select id from duly.job where {at_lane} limit 1) is not null
                    then lane.opens_at
               end as opens_at
          from {rows :rows as lane (name text, opens_at bigint)}) as again
 where {hint lane.name in :rows ->> 'name'::text}
   and lane.name = again.name
   and coalesce(lane.opens_at, -1) <> coalesce(again.opens_at, -1)
   and (lane.opens_at is null or lane.opens_at <= {now} or lane.opens_at > again.opens_at);

-- name: opening_limits
select name
  from duly.lane
 where opens_at <= {now}
 order by opens_at
 limit :limit;

-- name: waiting_limits
-- A safety net: lanes with parked jobs and no time to check them, the least recently used first.
select name
  from duly.lane
 where opens_at is null
   and exists (select 1 from duly.job where {at_lane})
   and (concurrency is null
        or concurrency > (select count(*) from duly.holding where holding.lane = lane.name)
        or exists (select 1
                     from duly.lane_rule
                    where lane_rule.name in (lane.name, lane.template)))
 order by used_at
 limit :limit;

-- name: stale_limits
-- A safety net: lanes in which jobs that do not run have places.
select distinct lane
  from duly.holding
 where not exists (select 1 from duly.job where job.id = holding.job_id and job.state = 'running')
 order by lane
 limit :limit;

-- name: drop_stale_holdings
-- The lanes are locked, so no job is about to enter.
delete from duly.holding
 where lane {in :names::text[]}
   and not exists (select 1 from duly.job where job.id = holding.job_id and job.state = 'running');

-- name: set_limit_rule
insert into duly.lane_rule (name, concurrency, rate_count, rate_period)
values (:name, :concurrency, :rate_count, :rate_period)
    on conflict (name) do update
   set concurrency = excluded.concurrency, rate_count = excluded.rate_count,
       rate_period = excluded.rate_period;

-- name: drop_limit_rule
delete from duly.lane_rule
 where name = :name;

-- name: limits_under
select name
  from duly.lane
 where name = :name or template = :name
 order by name;

-- name: list_limits
select lane.name, lane.template,
       case when by_name.name is not null then by_name.concurrency
            when by_template.name is not null then by_template.concurrency
            else lane.concurrency end,
       case when by_name.name is not null then by_name.rate_count
            when by_template.name is not null then by_template.rate_count
            else lane.rate_count end,
       case when by_name.name is not null then by_name.rate_period
            when by_template.name is not null then by_template.rate_period
            else lane.rate_period end,
       (select count(*) from duly.holding where holding.lane = lane.name),
       (select count(*) from duly.job where {at_lane})
  from duly.lane
  {rules}
 order by lane.used_at desc, lane.name
 limit :limit;

-- name: prune_limits
-- Lanes that are empty, unused for long, and whose rate limit has refilled.
delete from duly.lane
 where name in (select name
                  from duly.lane
                 where used_at < :before
                   and arrival < :before
                   and not exists (select 1 from duly.holding where holding.lane = lane.name)
                   and not exists (select 1 from duly.job where {at_lane})
                 order by name
                 limit :limit
                   {for update})
returning name;
