-- Flows: whoever reads or writes here holds the row of the outermost flow, except to show it.

-- name: flow_roots
-- The outermost flows that these are in, and the schedules whose runs those are.
select flow.id, flow.root, (select schedule_id from duly.job where job.id = flow.root)
  from duly.flow
 where flow.id = any(:ids::bigint[])
 order by flow.id;

-- name: hold_flows
select id
  from duly.flow
 where id = any(:ids::bigint[])
 order by id
   for update;

-- name: running_flows
-- Flows that have not ended, with what their steps take from their jobs.
select flow.id, flow.root, flow.result, flow.steps, flow.remaining,
       flow.failed, flow.ending, flow.reason, job.args, job.due_at,
       job.tenant, job.submitter
  from duly.flow
  join duly.job on job.id = flow.id
 where flow.id = any(:ids::bigint[]) and job.id = any(:ids::bigint[])
 order by flow.id;

-- name: hold_flow_jobs
-- The jobs of flows that end now.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly.job
 where id = any(:ids::bigint[]) and coalesce(waits, '') = 'steps'
 order by id
   for update;

-- name: open_flows
-- The job goes on without its worker. One that is opened for the second time is resumed.
update duly.job
   set worker = null, waits = 'steps', reason = opened.reason, crashes = 0,
       deadline = {now} + opened.timeout, late = 'skip'
  from jsonb_to_recordset(:rows::jsonb) as opened (
           id bigint, reason text, timeout bigint)
 where job.id = {numbered} and job.id = opened.id and job.state = 'running'
returning job.id;

-- name: add_flows
insert into duly.flow (id, root, result, steps, remaining, failed, ending, reason, opened_at, ended_at)
select given.id, given.root, given.result, given.steps, given.steps, 0,
       null, '', {now}, null
  from jsonb_to_recordset(:rows::jsonb) as given (
           id bigint, root bigint, result int, steps int)
    on conflict (id) do nothing
returning id;

-- name: add_steps
insert into duly.step (flow, number, name, task, plan, follows, leads_to, runs_when, if_failed, kind,
                       wanted, rescue, state, waiting, unmet, failed, parts, remaining, missed, stopped, reason,
                       started_at, ended_at)
select given.flow, given.number, given.name, given.task, given.plan,
       given.follows, given.leads_to, given.runs_when, given.if_failed,
       given.kind, given.wanted, given.rescue, 'waiting', given.waiting, 0, 0, 0, 0, 0, 0, '', null, null
  from jsonb_to_recordset(:rows::jsonb) as given (
           flow bigint, number int, name text, task text, plan text, follows text, leads_to text,
           runs_when text, if_failed text, kind text, wanted int, rescue int, waiting int);

-- part: counted
number, name, runs_when, if_failed, wanted, rescue, leads_to, state, waiting, unmet, failed, parts,
       remaining, missed, stopped, reason

-- name: some_steps
select {counted}
  from duly.step
 where flow = :flow and number = any(:numbers::int[])
 order by number;

-- name: open_steps
-- Those that have not ended.
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
 where flow = :flow and number = any(:numbers::int[])
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
  from jsonb_to_recordset(:rows::jsonb) as asked (
           flow bigint, number int, state text, waiting int, unmet int, failed int, parts int,
           remaining int, missed int, stopped int, reason text)
 where step.flow = asked.flow and step.number = asked.number;

-- name: set_flow
update duly.flow
   set remaining = :remaining::int, failed = :failed::int, ending = :ending::text,
       reason = :reason::text, ended_at = case when :remaining::int = 0 then {now} end
 where id = :flow;

-- name: no_deadline
-- A flow that is being ended is not ended once more for being late.
update duly.job
   set deadline = null
 where id = :flow and coalesce(waits, '') = 'steps';

-- name: add_parts
-- One that was there before did not succeed, and is done again.
insert into duly.part (flow, step, part, job_id, state, result)
select :flow::bigint, given.step, given.part, given.job_id, 'running', null
  from jsonb_to_recordset(:rows::jsonb) as given (
           step int, part int, job_id bigint)
    on conflict (flow, step, part) do update
   set job_id = excluded.job_id, state = 'running', result = null;

-- name: end_parts
update duly.part
   set state = ended.state, result = ended.result
  from jsonb_to_recordset(:rows::jsonb) as ended (
           flow bigint, step int, part int, state text, result text)
 where part.flow = ended.flow and part.step = ended.step and part.part = ended.part;

-- name: part_results
-- In the order of the parts; one that did not succeed has none.
select step, part, result
  from duly.part
 where flow = :flow and step = any(:numbers::int[])
 order by step, part;

-- name: broken_parts
-- The parts of a flow that did not succeed, and which of their jobs can be given another chance.
select part.step, part.part, part.job_id, failed.id is not null,
       exists (select from duly.flow where flow.id = part.job_id)
  from duly.part
  left join duly.failed on failed.id = part.job_id
 where part.flow = :flow and part.state <> 'succeeded'
 order by part.step, part.part;

-- name: drop_parts
delete from duly.part
 where flow = :flow and step = any(:numbers::int[]);

-- name: drop_results
-- Nobody asks for them any more.
update duly.part
   set result = null
 where flow = :flow and result is not null;

-- name: stop_parts
-- Ask the jobs of these steps to end. The first word to each stays.
insert into duly.signal (job_id, what, reason, at)
select part.job_id, 'cancel', :reason::text, {now}
  from duly.part
  join duly.job on job.id = part.job_id
 where part.flow = :flow and part.step = any(:numbers::int[])
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
       (select job_id from duly.part where part.flow = step.flow
           and part.step = step.number order by part limit 1)
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
-- Which of these jobs are flows, and how far they are.
select id, steps, remaining, failed
  from duly.flow
 where id = any(:ids::bigint[])
 order by id;

-- name: jobs_of_flows
select job_id
  from duly.part
 where flow = any(:ids::bigint[])
 order by job_id;

-- name: remove_flows
delete from duly.flow
 where id = any(:ids::bigint[]);

-- name: remove_flow_steps
delete from duly.step
 where flow = any(:ids::bigint[]);

-- name: remove_flow_parts
delete from duly.part
 where flow = any(:ids::bigint[]);

-- name: unused_flows
-- Of flows that are held, those without a job: one may have been given another chance meanwhile.
select id
  from duly.flow
 where id = any(:ids::bigint[])
   and not exists (select from duly.job where job.id = flow.id);

-- name: old_flows
-- Not one that is given another chance.
select id
  from duly.flow
 where ended_at < :before
   and not exists (select from duly.job where job.id = flow.id)
 order by ended_at
 limit :limit
   for update /*[skip_locked] skip locked [skip_locked]*/;

-- name: compare_steps
-- Steps that begin to wait: what they wait for may have happened already.
insert into duly.unanswered (job_id, event_id)
select id, 0
  from unnest(:ids::bigint[]) as id
    on conflict do nothing;

-- name: compare_events
-- Steps that may have waited for these events. What a tenant says answers nobody else.
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
                     offset 0) as waiting
 where event.id = any(:ids::bigint[]) and event.tenant in ('', waiting.tenant)
 order by 1, 2
    on conflict do nothing;

-- name: any_unanswered
select 1
 where exists (select from duly.unanswered) or exists (select from duly.event where not seen);

-- name: answered_jobs
-- Steps that are to be compared, each with the first event since its flow was opened that it waited
-- for, if there is one.
select asked.job_id, asked.event_id, event.id, event.name, event.payload
  from (select job_id, event_id
          from duly.unanswered
         order by job_id, event_id
         limit :limit) as asked
  left join lateral (select waits_for, tenant,
                            (select opened_at from duly.flow where flow.id = job.parent) as opened_at
                       from duly.job
                      where id = asked.job_id and coalesce(waits, '') = 'event' and state = 'blocked'
                     offset 0) as job on true
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
 where job_id = any(array(select (pair ->> 0)::bigint from jsonb_array_elements(:rows::jsonb) as pair))
   and (job_id, event_id) in (select (pair ->> 0)::bigint, (pair ->> 1)::bigint
                                from jsonb_array_elements(:rows::jsonb) as pair);

-- name: stranded_parts
-- A net: parts of flows that have not ended, whose jobs have; and what became of those.
select part.flow, part.step, part.part, ended.state, ended.reason, ended.result
  from duly.flow
  join duly.part on part.flow = flow.id and part.state = 'running'
  left join lateral (select state, reason, result from duly.history where history.id = part.job_id
                      union all
                     select state, reason, result from duly.failed where failed.id = part.job_id
                      limit 1) as ended on true
 where flow.ended_at is null
   and not exists (select from duly.job where job.id = part.job_id)
 order by part.flow, part.step, part.part
 limit :limit;
