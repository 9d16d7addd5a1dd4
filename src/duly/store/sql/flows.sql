-- Every operation except showing a flow locks the row of the outermost flow first.

-- name: flow_roots
-- The outermost flows of these flows, and the schedules that started them.
select flow.id, flow.root, (select schedule_id from duly.job where job.id = flow.root)
  from duly.flow
 where flow.id {in :ids::bigint[]}
 order by flow.id;

-- name: hold_flows
select id
  from duly.flow
 where id {in :ids::bigint[]}
 order by id
   {for update};

-- name: running_flows
-- Flows that have not ended, with the values that their steps take from the flow's job.
select flow.id, flow.root, flow.result, flow.steps, flow.remaining,
       flow.failed, flow.ending, flow.reason, job.args, job.due_at,
       job.tenant, job.submitter
  from duly.flow
  join duly.job on job.id = flow.id
 where flow.id {in :ids::bigint[]} {postgres and job.id {in :ids::bigint[]}}
 order by flow.id;

-- name: hold_flow_jobs
-- Lock the jobs of flows that end now.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly.job
 where id {in :ids::bigint[]} and coalesce(waits, '') = 'steps'
 order by id
   {for update};

-- name: add_flows
insert into duly.flow (id, root, result, steps, remaining, failed, ending, reason, opened_at, ended_at)
select given.id, given.root, given.result, given.steps, given.steps, 0, null, '', {now}, null
  from {rows :rows as given (id bigint, root bigint, result int, steps int)}
 where true
    on conflict (id) do nothing
returning id;

-- name: add_steps
insert into duly.step (flow, number, name, task, plan, follows, leads_to, runs_when, if_failed, kind,
                       wanted, rescue, state, waiting, unmet, failed, parts, remaining, missed,
                       stopped, reason, started_at, ended_at)
select flow, number, name, task, plan, follows, leads_to, runs_when, if_failed, kind, wanted, rescue,
       'waiting', waiting, 0, 0, 0, 0, 0, 0, '', null, null
  from {rows :rows as given (
           flow bigint, number int, name text, task text, plan text, follows text, leads_to text,
           runs_when text, if_failed text, kind text, wanted int, rescue int, waiting int)};

-- part: counted
number, name, runs_when, if_failed, wanted, rescue, leads_to, state, waiting, unmet, failed, parts,
       remaining, missed, stopped, reason

-- name: some_steps
select {counted}
  from duly.step
 where flow = :flow and number {in :numbers::int[]}
 order by number;

-- name: open_steps
select {counted}
  from duly.step
 where flow = :flow and state in ('waiting', 'running')
 order by number;

-- name: all_steps
select {counted}
  from duly.step
 where flow = :flow
 order by number;

-- name: step_plans
select number, plan
  from duly.step
 where flow = :flow and number {in :numbers::int[]}
 order by number;

-- name: set_steps
update duly.step
   set state = asked.state, waiting = asked.waiting, unmet = asked.unmet, failed = asked.failed,
       parts = asked.parts, remaining = asked.remaining, missed = asked.missed,
       stopped = asked.stopped, reason = asked.reason,
       started_at = case when asked.state = 'waiting' then null
                         when step.ended_at is not null and asked.state = 'running' then {now}
                         when asked.parts > 0 then coalesce(step.started_at, {now})
                    end,
       ended_at = case when asked.state not in ('waiting', 'running')
                       then coalesce(step.ended_at, {now})
                  end
  from {rows :rows as asked (
           flow bigint, number int, state text, waiting int, unmet int, failed int, parts int,
           remaining int, missed int, stopped int, reason text)}
 where step.flow = asked.flow and step.number = asked.number;

-- name: set_flow
update duly.flow
   set remaining = :remaining::int, failed = :failed::int, ending = :ending::text,
       reason = :reason::text, ended_at = case when :remaining::int = 0 then {now} end
 where id = :flow;

-- name: no_deadline
-- A flow that is ending does not end again for missing its deadline.
update duly.job
   set deadline = null
 where id = :flow and coalesce(waits, '') = 'steps';

-- name: add_parts
-- A part that exists did not succeed and runs again.
insert into duly.part (flow, step, part, job_id, state, result)
select :flow::bigint, given.step, given.part, given.job_id, 'running', null
  from {rows :rows as given (step int, part int, job_id bigint)}
 where true
    on conflict (flow, step, part) do update
   set job_id = excluded.job_id, state = 'running', result = null;

-- name: end_parts
update duly.part
   set state = ended.state, result = ended.result
  from {rows :rows as ended (flow bigint, step int, part int, state text, result text)}
 where part.flow = ended.flow and part.step = ended.step and part.part = ended.part;

-- name: part_results
-- In the order of the parts. A part that did not succeed has no result.
select step, part, result
  from duly.part
 where flow = :flow and step {in :numbers::int[]}
 order by step, part;

-- name: broken_parts
-- The parts of a flow that did not succeed, and which of their jobs can be retried.
select part.step, part.part, part.job_id, failed.id is not null,
       exists (select 1 from duly.flow where flow.id = part.job_id)
  from duly.part
  left join duly.failed on failed.id = part.job_id
 where part.flow = :flow and part.state <> 'succeeded'
 order by part.step, part.part;

-- name: drop_parts
delete from duly.part
 where flow = :flow and step {in :numbers::int[]};

-- name: drop_results
-- Results that no later step needs.
update duly.part
   set result = null
 where flow = :flow and result is not null;

-- name: stop_parts
-- Tell the jobs of these steps to stop. The first signal to a job stays.
insert into duly.signal (job_id, what, reason, at)
select part.job_id, 'cancel', :reason::text, {now}
  from duly.part
  join duly.job on job.id = part.job_id
 where part.flow = :flow and part.step {in :numbers::int[]}
   and part.state = 'running'
    on conflict (job_id) do nothing
returning job_id;

-- name: show_flow
select id, root, result, remaining, failed, opened_at, ended_at
  from duly.flow
 where id = :flow;

-- name: show_steps
select number, name, task, kind, follows, runs_when, if_failed, state, parts, remaining, missed, stopped,
       reason, started_at, ended_at,
       (select job_id
          from duly.part
         where part.flow = step.flow and part.step = step.number
         order by part
         limit 1)
  from duly.step
 where flow = :flow
 order by number;

-- name: show_parts
select part, job_id, state
  from duly.part
 where flow = :flow and step = :step::int and part > :after::int
 order by part
 limit :limit;

-- name: flows_among
-- Which of these jobs are flows, and their progress.
select id, steps, remaining, failed
  from duly.flow
 where id {in :ids::bigint[]}
 order by id;

-- name: jobs_of_flows
select job_id
  from duly.part
 where flow {in :ids::bigint[]}
 order by job_id;

-- name: remove_flows
delete from duly.flow
 where id {in :ids::bigint[]};

-- name: remove_flow_steps
delete from duly.step
 where flow {in :ids::bigint[]};

-- name: remove_flow_parts
delete from duly.part
 where flow {in :ids::bigint[]};

-- name: unused_flows
-- Of these locked flows, those without a job: one may have been retried meanwhile.
select id
  from duly.flow
 where id {in :ids::bigint[]}
   and not exists (select 1 from duly.job where job.id = flow.id);

-- name: old_flows
select id
  from duly.flow
 where ended_at < :before
   and not exists (select 1 from duly.job where job.id = flow.id)
 order by ended_at
 limit :limit
   {for update /*[skip_locked] skip locked [skip_locked]*/};

-- name: compare_steps
-- Steps that begin to wait. Their event may have happened already.
insert into duly.unanswered (job_id, event_id)
select step.id, 0
  from {each :ids::bigint[] as step (id)}
 where true
    on conflict do nothing;

-- name: compare_events for sqlite
insert into duly.unanswered (job_id, event_id)
select job.id, event.id
  from duly.event
 cross join duly.job
    on waits = 'event' and waits_for in (name, name || ':' || event.key)
   and event.tenant in ('', job.tenant)
 where event.id {in :ids}
    on conflict do nothing;

-- name: compare_events for postgres
-- Steps that may wait for these events. An event of a tenant answers only that tenant's steps.
insert into duly.unanswered (job_id, event_id)
select waiting.id, event.id
  from duly.event
 cross join lateral (select id, tenant
                       from duly.job
                      where waits = 'event' and waits_for = event.name
                      union all
                     select id, tenant
                       from duly.job
                      where waits = 'event' and waits_for = event.name || ':' || event.key
                     {postgres offset 0}) as waiting
 where event.id {in :ids::bigint[]} and event.tenant in ('', waiting.tenant)
 order by 1, 2
    on conflict do nothing;

-- name: any_unanswered
select 1
 where exists (select 1 from duly.unanswered) or exists (select 1 from duly.event where not seen);

-- name: answered_jobs for sqlite
select compared.job_id, compared.event_id, event.id, event.name, event.payload
  from (select asked.job_id, asked.event_id,
               case when instr(job.waits_for, ':') = 0
                    then (select happened.id
                            from duly.event as happened
                           where happened.name = job.waits_for
                             and happened.at >= flow.opened_at
                             and happened.tenant in ('', job.tenant)
                           order by happened.at, happened.id
                           limit 1)
                    else (select happened.id
                            from duly.event as happened {indexed by event_key}
                           where happened.name = substr(job.waits_for, 1,
                                                        instr(job.waits_for, ':') - 1)
                             and happened.key = substr(job.waits_for,
                                                       instr(job.waits_for, ':') + 1)
                             and happened.at >= flow.opened_at
                             and happened.tenant in ('', job.tenant)
                           order by happened.at, happened.id
                           limit 1)
               end as event
          from (select job_id, event_id
                  from duly.unanswered
                 order by job_id, event_id
                 limit :limit) as asked
          left join duly.job
            on job.id = asked.job_id and +waits = 'event' and +job.state = 'blocked'
          left join duly.flow on flow.id = job.parent) as compared
  left join duly.event on event.id = compared.event
 order by compared.job_id, compared.event_id;

-- name: answered_jobs for postgres
-- Steps to compare, each with the first event since its flow was opened that it waits for, if any.
select asked.job_id, asked.event_id, event.id, event.name, event.payload
  from (select job_id, event_id
          from duly.unanswered
         order by job_id, event_id
         limit :limit) as asked
  left join lateral (select waits_for, tenant,
                            (select opened_at from duly.flow where flow.id = job.parent) as opened_at
                       from duly.job
                      where id = asked.job_id and coalesce(waits, '') = 'event' and state = 'blocked'
                     {postgres offset 0}) as job on true
  left join lateral (
           (select happened.id, happened.name, happened.payload
              from duly.event as happened
             where strpos(job.waits_for, ':') = 0 and happened.name = job.waits_for
               and happened.at >= job.opened_at and happened.tenant in ('', job.tenant)
             order by happened.at, happened.id
             limit 1)
            union all
           (select happened.id, happened.name, happened.payload
              from duly.event as happened
             where strpos(job.waits_for, ':') > 0
               and happened.name = split_part(job.waits_for, ':', 1)
               and happened.key = substr(job.waits_for, strpos(job.waits_for, ':') + 1)
               and happened.at >= job.opened_at and happened.tenant in ('', job.tenant)
             order by happened.at, happened.id
             limit 1)) as event on true
 order by asked.job_id, asked.event_id;

-- name: forget_compared
delete from duly.unanswered
 where {hint job_id in :rows ->> 0::bigint}
   and (job_id, event_id) in (select (pair ->> 0)::bigint, (pair ->> 1)::bigint
                                from {each :rows::json as compared (pair)});

-- name: stranded_parts
-- A safety net: parts of running flows whose jobs have ended, with the outcome of the jobs.
select part.flow, part.step, part.part,
       coalesce((select state from duly.history where history.id = part.job_id limit 1),
                (select state from duly.failed where failed.id = part.job_id)),
       coalesce((select reason from duly.history where history.id = part.job_id limit 1),
                (select reason from duly.failed where failed.id = part.job_id)),
       (select result from duly.history where history.id = part.job_id limit 1)
  from duly.flow {indexed by flow_running}
  {sqlite cross} join duly.part on part.flow = flow.id and part.state = 'running'
 where flow.ended_at is null
   and not exists (select 1 from duly.job where job.id = part.job_id)
 order by part.flow, part.step, part.part
 limit :limit;
