-- part: rules
-- The operator's rule for a limit: by its name, or else by its template.
-- One index step each on PostgreSQL, however the limits are found.
left join {postgres lateral (select * from duly.limit_rule where name = named_limit.name offset 0)}
            {sqlite duly.limit_rule} as by_name on by_name.name = named_limit.name
  left join {postgres lateral (select * from duly.limit_rule where name = named_limit.template offset 0)}
            {sqlite duly.limit_rule} as by_template on by_template.name = named_limit.template

-- part: rule_numbers
case when by_name.name is null then by_template.concurrency else by_name.concurrency end,
       case when by_name.name is null then by_template.rate_count else by_name.rate_count end,
       case when by_name.name is null then by_template.rate_period else by_name.rate_period end

-- part: at_limit
state = 'blocked' and waits = 'limit' and waits_for = named_limit.name

-- name: make_limits
insert into duly.named_limit (name, template, concurrency, rate_count, rate_period, arrival, opens_at,
                             used_at)
select name, template, null, null, null, 0, null, {now}
  from {rows :rows as one (name text, template text)}
 where true
 order by name
    on conflict (name) do nothing;

-- name: hold_limits
-- Lock the limits before a job enters or leaves them, in the order of names to avoid deadlocks.
select name
  from duly.named_limit
 where name {in :names::text[]}
 order by name
   {for update};

-- name: read_locked_limits
-- The jobs in a limit, whether jobs are parked there, and the first parked job that the worker could
-- run and that no other transaction has locked.
select named_limit.name, named_limit.concurrency, named_limit.rate_count, named_limit.rate_period,
       named_limit.arrival, named_limit.used_at,
       (coalesce(by_name.name, by_template.name) is not null)::int, {rule_numbers},
       (select count(*) from duly.holding where holding.limit_name = named_limit.name),
       (select count(*) from (select 1 from duly.job where {at_limit} limit 1) as waiting),
       first.rank, first.id, {now}
  from duly.named_limit
  {rules}
  left join {postgres lateral (select rank, id}
            {sqlite duly.job as first on first.id = (select id}
               from duly.job
              where :queue <> '' and {at_limit} and queue = :queue and task {in :tasks::text[]}
              order by rank, id
              limit 1
                {for no key update /*[skip_locked] skip locked [skip_locked]*/})
            {postgres as first on true}
 where named_limit.name {in :names::text[]}
 order by named_limit.name;

-- name: add_holdings
insert into duly.holding (limit_name, job_id)
select limit_name, job_id
  from {rows :rows as one (limit_name text, job_id bigint)}
 where true
    on conflict do nothing;

-- name: drop_holdings
delete from duly.holding
 where job_id {in :ids::bigint[]};

-- name: hold_full
-- Park jobs at a full limit, so that claims do not read them again.
update duly.job
   set state = 'blocked', waits = 'limit', waits_for = one.limit_name, reason = one.reason
  from {rows :rows as one (id bigint, limit_name text, reason text)}
 where {hint job.id in :rows ->> 'id'::bigint}
   and job.id = one.id
   and job.state || '' = 'ready';

-- name: write_limits
update duly.named_limit
   set concurrency = one.concurrency, rate_count = one.rate_count, rate_period = one.rate_period,
       arrival = one.arrival, used_at = {now}
  from {rows :rows as one (
           name text, concurrency int, rate_count int, rate_period bigint, arrival bigint)}
 where {hint named_limit.name in :rows ->> 'name'::text} and named_limit.name = one.name;

-- name: free_parked for postgres
-- Make the first jobs that are parked at a limit ready again. They keep their rank. Jobs locked by
-- another transaction are skipped.
update duly.job
   set state = 'ready', waits = null, waits_for = null, reason = ''
 where id {in (
           select waiting.id
             from {rows :rows as place (limit_name text, count bigint, queue text)}
            cross join lateral (select id
                                  from duly.job
                                 where state = 'blocked' and waits = 'limit'
                                   and waits_for = place.limit_name
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
                        from (select value ->> 'limit_name' as limit_name, value ->> 'count' as count,
                                     value ->> 'queue' as queue
                                from json_each(:rows)) as free
                       cross join duly.job as first
                          on first.id in (select id
                                            from duly.job
                                           where state = 'blocked' and waits = 'limit'
                                             and waits_for = free.limit_name
                                             and (free.queue is null
                                                  or job.queue = free.queue
                                                 and task {in :tasks})
                                           order by rank, id
                                           limit :most)) as waiting
               where waiting.place <= waiting.count)
returning queue;

-- name: set_opening
-- When to check a limit again, null if no job is parked there. An earlier time stays.
update duly.named_limit
   set opens_at = again.opens_at
  from (select named_limit.name,
               case when (select id from duly.job where {at_limit} limit 1) is not null
                    then named_limit.opens_at
               end as opens_at
          from {rows :rows as named_limit (name text, opens_at bigint)}) as again
 where {hint named_limit.name in :rows ->> 'name'::text}
   and named_limit.name = again.name
   and coalesce(named_limit.opens_at, -1) <> coalesce(again.opens_at, -1)
   and (named_limit.opens_at is null or named_limit.opens_at <= {now}
        or named_limit.opens_at > again.opens_at);

-- name: opening_limits
select name
  from duly.named_limit
 where opens_at <= {now}
 order by opens_at
 limit :limit;

-- name: waiting_limits
-- A safety net: limits with parked jobs and no time to check them, the least recently used first.
select name
  from duly.named_limit
 where opens_at is null
   and exists (select 1 from duly.job where {at_limit})
   and (concurrency is null
        or concurrency > (select count(*) from duly.holding where holding.limit_name = named_limit.name)
        or exists (select 1
                     from duly.limit_rule
                    where limit_rule.name in (named_limit.name, named_limit.template)))
 order by used_at
 limit :limit;

-- name: stale_limits
-- A safety net: limits in which jobs that do not run have places.
select distinct limit_name
  from duly.holding
 where not exists (select 1 from duly.job where job.id = holding.job_id and job.state = 'running')
 order by limit_name
 limit :limit;

-- name: drop_stale_holdings
-- The limits are locked, so no job is about to enter.
delete from duly.holding
 where limit_name {in :names::text[]}
   and not exists (select 1 from duly.job where job.id = holding.job_id and job.state = 'running');

-- name: set_limit_rule
insert into duly.limit_rule (name, concurrency, rate_count, rate_period)
values (:name, :concurrency, :rate_count, :rate_period)
    on conflict (name) do update
   set concurrency = excluded.concurrency, rate_count = excluded.rate_count,
       rate_period = excluded.rate_period;

-- name: drop_limit_rule
delete from duly.limit_rule
 where name = :name;

-- name: limits_under
select name
  from duly.named_limit
 where name = :name or template = :name
 order by name;

-- name: list_limits
select named_limit.name, named_limit.template,
       case when by_name.name is not null then by_name.concurrency
            when by_template.name is not null then by_template.concurrency
            else named_limit.concurrency end,
       case when by_name.name is not null then by_name.rate_count
            when by_template.name is not null then by_template.rate_count
            else named_limit.rate_count end,
       case when by_name.name is not null then by_name.rate_period
            when by_template.name is not null then by_template.rate_period
            else named_limit.rate_period end,
       (select count(*) from duly.holding where holding.limit_name = named_limit.name),
       (select count(*) from duly.job where {at_limit})
  from duly.named_limit
  {rules}
 order by named_limit.used_at desc, named_limit.name
 limit :limit;

-- name: prune_limits
-- Lanes that are empty, unused for long, and whose rate limit has refilled.
delete from duly.named_limit
 where name in (select name
                  from duly.named_limit
                 where used_at < :before
                   and arrival < :before
                   and not exists (select 1 from duly.holding where holding.limit_name = named_limit.name)
                   and not exists (select 1 from duly.job where {at_limit})
                 order by name
                 limit :limit
                   {for update})
returning name;
