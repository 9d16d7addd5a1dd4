-- part: rules
-- What the operator said about a lane counts by its name, or else by its template.
left join duly_lane_rule as by_name on by_name.name = lane.name
  left join duly_lane_rule as by_template on by_template.name = lane.template

-- part: rule_numbers
case when by_name.name is null then by_template.concurrency else by_name.concurrency end,
       case when by_name.name is null then by_template.rate_count else by_name.rate_count end,
       case when by_name.name is null then by_template.rate_period else by_name.rate_period end

-- part: at_lane
state = 'blocked' and waits = 'limit' and waits_for = lane.name

-- name: make_lanes
insert into duly_lane (name, template, concurrency, rate_count, rate_period, arrival, opens_at, used_at)
select name, template, null, null, null, 0, null, :now
  from (select value ->> 'name' as name, value ->> 'template' as template
          from json_each(:rows)) as one
 where true
    on conflict (name) do nothing;

-- name: hold_lanes
-- There is one who writes at a time.
select name
  from duly_lane
 where name in (select value from json_each(:names))
 order by name;

-- name: look_into_lanes
-- Who is in a lane, whether some wait, and who is the first of those that the asker could take.
select lane.name, lane.concurrency, lane.rate_count, lane.rate_period, lane.arrival, lane.used_at,
       coalesce(by_name.name, by_template.name) is not null, {rule_numbers},
       (select count(*) from duly_holding where duly_holding.lane = lane.name),
       exists (select 1 from duly_job where {at_lane}),
       first.rank, first.id, :now
  from duly_lane as lane
  {rules}
  left join duly_job as first
    on first.id = (select id
                     from duly_job
                    where :queue <> '' and {at_lane} and queue = :queue
                      and task in (select value from json_each(:tasks))
                    order by rank, id
                    limit 1)
 where lane.name in (select value from json_each(:names))
 order by lane.name;

-- name: add_holdings
insert into duly_holding (lane, job_id)
select lane, job_id
  from (select value ->> 'lane' as lane, value ->> 'job_id' as job_id
          from json_each(:rows)) as one
 where true
    on conflict do nothing;

-- name: drop_holdings
delete from duly_holding
 where job_id in (select value from json_each(:ids));

-- name: hold_full
-- Jobs wait where it is full, out of the way of those who look for work.
update duly_job
   set state = 'blocked', waits = 'limit', waits_for = one.lane, reason = one.reason
  from (select value ->> 'id' as id, value ->> 'lane' as lane, value ->> 'reason' as reason
          from json_each(:rows)) as one
 where duly_job.id = one.id
   and duly_job.state = 'ready';

-- name: write_lanes
update duly_lane
   set concurrency = one.concurrency, rate_count = one.rate_count, rate_period = one.rate_period,
       arrival = one.arrival, used_at = :now
  from (select value ->> 'name' as name, value ->> 'concurrency' as concurrency,
               value ->> 'rate_count' as rate_count, value ->> 'rate_period' as rate_period,
               value ->> 'arrival' as arrival
          from json_each(:rows)) as one
 where duly_lane.name = one.name;

-- name: free_parked
-- The first who wait at a lane are decided about again. Their rank is what it was, so they come
-- before those who came later.
update duly_job
   set state = 'ready', waits = null, waits_for = null, reason = ''
 where id in (select waiting.id
                from (select first.id, free.count,
                             row_number() over (partition by waits_for order by rank, id) as place
                        from (select value ->> 'lane' as lane, value ->> 'count' as count,
                                     value ->> 'queue' as queue
                                from json_each(:rows)) as free
                       cross join duly_job as first
                          on first.id in (select id
                                            from duly_job
                                           where state = 'blocked' and waits = 'limit'
                                             and waits_for = free.lane
                                             and (free.queue is null
                                                  or duly_job.queue = free.queue
                                                 and task in (select value from json_each(:tasks)))
                                           order by rank, id
                                           limit :most)) as waiting
               where waiting.place <= waiting.count)
returning queue;

-- name: set_opening
-- When somebody must look at a lane, if some still wait there. An earlier moment stays.
update duly_lane
   set opens_at = again.opens_at
  from (select lane.name,
               case when exists (select 1 from duly_job where {at_lane}) then lane.opens_at end as opens_at
          from (select value ->> 'name' as name, value ->> 'opens_at' as opens_at
                  from json_each(:rows)) as lane) as again
 where duly_lane.name = again.name
   and duly_lane.opens_at is not again.opens_at
   and (duly_lane.opens_at is null or duly_lane.opens_at <= :now or duly_lane.opens_at > again.opens_at);

-- name: opening_lanes
select name
  from duly_lane
 where opens_at <= :now
 order by opens_at
 limit :limit;

-- name: waiting_lanes
-- A net: lanes at which some wait and nobody is going to look, the longest forgotten first.
select lane.name
  from duly_lane as lane
 where opens_at is null
   and exists (select 1 from duly_job where {at_lane})
   and (concurrency is null
        or concurrency > (select count(*) from duly_holding where duly_holding.lane = lane.name)
        or exists (select 1
                     from duly_lane_rule
                    where duly_lane_rule.name in (lane.name, lane.template)))
 order by used_at
 limit :limit;

-- name: stale_lanes
-- A net: lanes in which jobs have places that do not run.
select distinct lane
  from duly_holding
 where not exists (select 1
                     from duly_job
                    where duly_job.id = duly_holding.job_id and duly_job.state = 'running')
 order by lane
 limit :limit;

-- name: drop_stale_holdings
delete from duly_holding
 where lane in (select value from json_each(:names))
   and not exists (select 1
                     from duly_job
                    where duly_job.id = duly_holding.job_id and duly_job.state = 'running');

-- name: set_lane_rule
insert into duly_lane_rule (name, concurrency, rate_count, rate_period)
values (:name, :concurrency, :rate_count, :rate_period)
    on conflict (name) do update
   set concurrency = excluded.concurrency, rate_count = excluded.rate_count,
       rate_period = excluded.rate_period;

-- name: drop_lane_rule
delete from duly_lane_rule
 where name = :name;

-- name: lanes_under
select name
  from duly_lane
 where name = :name or template = :name
 order by name;

-- name: list_lanes
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
       (select count(*) from duly_holding where duly_holding.lane = lane.name),
       (select count(*) from duly_job where {at_lane})
  from duly_lane as lane
  {rules}
 order by lane.used_at desc, lane.name
 limit :limit;

-- name: prune_lanes
-- Lanes that nobody is in, waits at or has used for long, and whose rate has nothing to remember.
delete from duly_lane
 where name in (select name
                  from duly_lane as lane
                 where used_at < :before
                   and arrival < :before
                   and not exists (select 1 from duly_holding where duly_holding.lane = lane.name)
                   and not exists (select 1 from duly_job where {at_lane})
                 order by name
                 limit :limit)
returning name;
