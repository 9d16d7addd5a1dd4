-- part: rules
-- What the operator said about a lane counts by its name, or else by its template.
left join duly.lane_rule as by_name on by_name.name = lane.name
  left join duly.lane_rule as by_template on by_template.name = lane.template

-- part: rule_numbers
case when by_name.name is null then by_template.concurrency else by_name.concurrency end,
       case when by_name.name is null then by_template.rate_count else by_name.rate_count end,
       case when by_name.name is null then by_template.rate_period else by_name.rate_period end

-- part: named
-- The names in the rows. With them, lanes are found through the primary key, whatever the planner
-- thinks of the table.
any(array(select one ->> 'name' from jsonb_array_elements(:rows::jsonb) as one))

-- part: at_lane
state = 'blocked' and waits = 'limit' and waits_for = lane.name

-- name: make_lanes
insert into duly.lane (name, template, concurrency, rate_count, rate_period, arrival, opens_at, used_at)
select name, template, null, null, null, 0, null, {now}
  from jsonb_to_recordset(:rows::jsonb) as one (name text, template text)
 order by name
    on conflict (name) do nothing;

-- name: hold_lanes
-- Whoever enters or leaves holds the row; in the order of names, so that nobody waits in a circle.
select name
  from duly.lane
 where name = any(:names::text[])
 order by name
   for update;

-- name: look_into_lanes
-- Who is in a lane, whether some wait, and who is the first of those that the asker could take: not
-- one whom somebody holds, perhaps for long, or all the others would have to wait for that.
select lane.name, lane.concurrency, lane.rate_count, lane.rate_period, lane.arrival, lane.used_at,
       (coalesce(by_name.name, by_template.name) is not null)::int, {rule_numbers},
       (select count(*) from duly.holding where holding.lane = lane.name),
       (select count(*) from (select from duly.job where {at_lane} limit 1) as waiting),
       first.rank, first.id, {now}
  from duly.lane
  {rules}
  left join lateral (select rank, id
                       from duly.job
                      where :queue <> '' and {at_lane} and queue = :queue and task = any(:tasks::text[])
                      order by rank, id
                      limit 1
                        for no key update /*[skip_locked] skip locked [skip_locked]*/) as first on true
 where lane.name = any(:names::text[])
 order by lane.name;

-- name: add_holdings
insert into duly.holding (lane, job_id)
select lane, job_id
  from jsonb_to_recordset(:rows::jsonb) as one (lane text, job_id bigint)
    on conflict do nothing;

-- name: drop_holdings
delete from duly.holding
 where job_id = any(:ids::bigint[]);

-- name: hold_full
-- Jobs wait where it is full, out of the way of those who look for work.
update duly.job
   set state = 'blocked', waits = 'limit', waits_for = one.lane, reason = one.reason
  from jsonb_to_recordset(:rows::jsonb) as one (id bigint, lane text, reason text)
 where job.id = {numbered}
   and job.id = one.id
   and job.state || '' = 'ready';

-- name: write_lanes
update duly.lane
   set concurrency = one.concurrency, rate_count = one.rate_count, rate_period = one.rate_period,
       arrival = one.arrival, used_at = {now}
  from jsonb_to_recordset(:rows::jsonb) as one (
           name text, concurrency int, rate_count int, rate_period bigint, arrival bigint)
 where lane.name = {named} and lane.name = one.name;

-- name: free_parked
-- The first who wait at a lane are decided about again. Their rank is what it was, so they come
-- before those who came later. Who is held by somebody is passed over: he may be on his way out.
update duly.job
   set state = 'ready', waits = null, waits_for = null, reason = ''
 where id = any(array(
           select waiting.id
             from jsonb_to_recordset(:rows::jsonb) as place (lane text, count bigint, queue text)
            cross join lateral (select id
                                  from duly.job
                                 where state = 'blocked' and waits = 'limit' and waits_for = place.lane
                                   and (place.queue is null
                                        or job.queue = place.queue and task = any(:tasks::text[]))
                                 order by rank, id
                                 limit least(place.count, :most)
                                   for no key update /*[skip_locked] skip locked [skip_locked]*/)
                    as waiting))
   and state = 'blocked'
   and coalesce(waits, '') = 'limit'
returning queue;

-- name: set_opening
-- When somebody must look at a lane, if some still wait there. An earlier moment stays.
update duly.lane
   set opens_at = again.opens_at
  from (select lane.name, lane.opens_at + 0 * waiting.one as opens_at
          from jsonb_to_recordset(:rows::jsonb) as lane (name text, opens_at bigint)
          left join lateral (select 1 as one from duly.job where {at_lane} limit 1) as waiting on true)
       as again
 where lane.name = {named}
   and lane.name = again.name
   and lane.opens_at is distinct from again.opens_at
   and (lane.opens_at is null or lane.opens_at <= {now} or lane.opens_at > again.opens_at);

-- name: opening_lanes
select name
  from duly.lane
 where opens_at <= (select {now})
 order by opens_at
 limit :limit;

-- name: waiting_lanes
-- A net: lanes at which some wait and nobody is going to look, the longest forgotten first.
select name
  from duly.lane
 where opens_at is null
   and exists (select from duly.job where {at_lane})
   and (concurrency is null
        or concurrency > (select count(*) from duly.holding where holding.lane = lane.name)
        or exists (select
                     from duly.lane_rule
                    where lane_rule.name in (lane.name, lane.template)))
 order by used_at
 limit :limit;

-- name: stale_lanes
-- A net: lanes in which jobs have places that do not run.
select distinct lane
  from duly.holding
 where not exists (select from duly.job where job.id = holding.job_id and job.state = 'running')
 order by lane
 limit :limit;

-- name: drop_stale_holdings
-- Once the lanes are held: nobody who enters is on the way.
delete from duly.holding
 where lane = any(:names::text[])
   and not exists (select from duly.job where job.id = holding.job_id and job.state = 'running');

-- name: set_lane_rule
insert into duly.lane_rule (name, concurrency, rate_count, rate_period)
values (:name, :concurrency, :rate_count, :rate_period)
    on conflict (name) do update
   set concurrency = excluded.concurrency, rate_count = excluded.rate_count,
       rate_period = excluded.rate_period;

-- name: drop_lane_rule
delete from duly.lane_rule
 where name = :name;

-- name: lanes_under
select name
  from duly.lane
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
       (select count(*) from duly.holding where holding.lane = lane.name),
       (select count(*) from duly.job where {at_lane})
  from duly.lane
  {rules}
 order by lane.used_at desc, lane.name
 limit :limit;

-- name: prune_lanes
-- Lanes that nobody is in, waits at or has used for long, and whose rate has nothing to remember.
delete from duly.lane
 where name in (select name
                  from duly.lane
                 where used_at < :before
                   and arrival < :before
                   and not exists (select from duly.holding where holding.lane = lane.name)
                   and not exists (select from duly.job where {at_lane})
                 order by name
                 limit :limit
                   for update)
returning name;
