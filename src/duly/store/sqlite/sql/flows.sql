-- Flows: whoever reads or writes here holds the row of the outermost flow, except to show it.

-- name: flow_roots
-- The outermost flows that these are in, and the schedules whose runs those are.
select duly_flow.id, duly_flow.root, duly_job.schedule_id
  from duly_flow
  left join duly_job on duly_job.id = duly_flow.root
 where duly_flow.id in (select value from json_each(:ids))
 order by duly_flow.id;

-- name: hold_flows
select id
  from duly_flow
 where id in (select value from json_each(:ids))
 order by id;

-- name: running_flows
-- Flows that have not ended, with what their steps take from their jobs.
select duly_flow.id, duly_flow.root, duly_flow.result, duly_flow.steps, duly_flow.remaining,
       duly_flow.failed, duly_flow.ending, duly_flow.reason, duly_job.args, duly_job.due_at,
       duly_job.tenant, duly_job.submitter
  from duly_flow
  join duly_job on duly_job.id = duly_flow.id
 where duly_flow.id in (select value from json_each(:ids))
 order by duly_flow.id;

-- name: hold_flow_jobs
-- The jobs of flows that end now.
select id, attempt, worker, fence, claimed_at, schedule_id, task, key, limits, terms, tenant, state,
       parent, step, part
  from duly_job
 where id in (select value from json_each(:ids)) and +waits = 'steps'
 order by id;

-- name: open_flows
-- The job goes on without its worker. One that is opened for the second time is resumed.
update duly_job
   set worker = null, waits = 'steps', reason = opened.reason, crashes = 0,
       deadline = :now + opened.timeout, late = 'skip'
  from (select value ->> 'id' as id, value ->> 'reason' as reason, value ->> 'timeout' as timeout
          from json_each(:rows)) as opened
 where duly_job.id = opened.id and duly_job.state = 'running'
returning duly_job.id;

-- name: add_flows
insert into duly_flow (id, root, result, steps, remaining, failed, ending, reason, opened_at, ended_at)
select value ->> 'id', value ->> 'root', value ->> 'result', value ->> 'steps', value ->> 'steps', 0,
       null, '', :now, null
  from json_each(:rows)
 where true
    on conflict (id) do nothing
returning id;

-- name: add_steps
insert into duly_step (flow, number, name, task, plan, follows, leads_to, runs_when, if_failed, kind,
                       wanted, rescue, state, waiting, unmet, failed, parts, remaining, missed, stopped, reason,
                       started_at, ended_at)
select value ->> 'flow', value ->> 'number', value ->> 'name', value ->> 'task', value ->> 'plan',
       value ->> 'follows', value ->> 'leads_to', value ->> 'runs_when', value ->> 'if_failed',
       value ->> 'kind', value ->> 'wanted', value ->> 'rescue', 'waiting', value ->> 'waiting', 0, 0, 0, 0, 0, 0, '', null, null
  from json_each(:rows);

-- part: counted
number, name, runs_when, if_failed, wanted, rescue, leads_to, state, waiting, unmet, failed, parts,
       remaining, missed, stopped, reason

-- name: some_steps
select {counted}
  from duly_step
 where flow = :flow and number in (select value from json_each(:numbers))
 order by number;

-- name: open_steps
-- Those that have not ended.
select {counted}
  from duly_step
 where flow = :flow and state in ('waiting', 'running')
 order by number;

-- name: all_steps
select {counted}
  from duly_step
 where flow = :flow
 order by number;

-- name: step_plans
select number, plan
  from duly_step
 where flow = :flow and number in (select value from json_each(:numbers))
 order by number;

-- name: set_steps
-- Each row names its flow, or all steps of that one would be looked at.
update duly_step
   set state = asked.state, waiting = asked.waiting, unmet = asked.unmet, failed = asked.failed,
       parts = asked.parts, remaining = asked.remaining, missed = asked.missed,
       stopped = asked.stopped, reason = asked.reason,
       started_at = case when asked.state = 'waiting' then null
                         when duly_step.ended_at is not null and asked.state = 'running' then :now
                         when asked.parts > 0 then coalesce(duly_step.started_at, :now)
                    end,
       ended_at = case when asked.state not in ('waiting', 'running')
                       then coalesce(duly_step.ended_at, :now)
                  end
  from (select value ->> 'flow' as flow, value ->> 'number' as number, value ->> 'state' as state,
               value ->> 'waiting' as waiting, value ->> 'unmet' as unmet,
               value ->> 'failed' as failed, value ->> 'parts' as parts,
               value ->> 'remaining' as remaining, value ->> 'missed' as missed,
               value ->> 'stopped' as stopped, value ->> 'reason' as reason
          from json_each(:rows)) as asked
 where duly_step.flow = asked.flow and duly_step.number = asked.number;

-- name: set_flow
update duly_flow
   set remaining = :remaining, failed = :failed, ending = :ending, reason = :reason,
       ended_at = case when :remaining = 0 then :now end
 where id = :flow;

-- name: no_deadline
-- A flow that is being ended is not ended once more for being late.
update duly_job
   set deadline = null
 where id = :flow and waits = 'steps';

-- name: add_parts
-- One that was there before did not succeed, and is done again.
insert into duly_part (flow, step, part, job_id, state, result)
select :flow, value ->> 'step', value ->> 'part', value ->> 'job_id', 'running', null
  from json_each(:rows)
 where true
    on conflict (flow, step, part) do update
   set job_id = excluded.job_id, state = 'running', result = null;

-- name: end_parts
-- Each row names its flow, or all parts of that one would be looked at.
update duly_part
   set state = ended.state, result = ended.result
  from (select value ->> 'flow' as flow, value ->> 'step' as step, value ->> 'part' as part,
               value ->> 'state' as state, value ->> 'result' as result
          from json_each(:rows)) as ended
 where duly_part.flow = ended.flow and duly_part.step = ended.step and duly_part.part = ended.part;

-- name: part_results
-- In the order of the parts; one that did not succeed has none.
select step, part, result
  from duly_part
 where flow = :flow and step in (select value from json_each(:numbers))
 order by step, part;

-- name: broken_parts
-- The parts of a flow that did not succeed, and which of their jobs can be given another chance.
select duly_part.step, duly_part.part, duly_part.job_id, duly_failed.id is not null,
       exists (select 1 from duly_flow where duly_flow.id = duly_part.job_id)
  from duly_part
  left join duly_failed on duly_failed.id = duly_part.job_id
 where duly_part.flow = :flow and duly_part.state <> 'succeeded'
 order by duly_part.step, duly_part.part;

-- name: drop_parts
delete from duly_part
 where flow = :flow and step in (select value from json_each(:numbers));

-- name: drop_results
-- Nobody asks for them any more.
update duly_part
   set result = null
 where flow = :flow and result is not null;

-- name: stop_parts
-- Ask the jobs of these steps to end. The first word to each stays.
insert into duly_signal (job_id, what, reason, at)
select duly_part.job_id, 'cancel', :reason, :now
  from duly_part
  join duly_job on duly_job.id = duly_part.job_id
 where duly_part.flow = :flow and duly_part.step in (select value from json_each(:numbers))
   and duly_part.state = 'running'
    on conflict (job_id) do nothing
returning job_id;

-- name: show_flow
select id, root, result, remaining, failed, opened_at, ended_at
  from duly_flow
 where id = :flow;

-- name: show_steps
select number, name, task, kind, follows, runs_when, if_failed, state, parts, remaining, missed, stopped,
       reason, started_at, ended_at,
       (select job_id from duly_part where duly_part.flow = duly_step.flow
           and duly_part.step = duly_step.number order by part limit 1)
  from duly_step
 where flow = :flow
 order by number;

-- name: show_parts
select part, job_id, state
  from duly_part
 where flow = :flow and step = :step and part > :after
 order by part
 limit :limit;

-- name: flows_among
-- Which of these jobs are flows, and how far they are.
select id, steps, remaining, failed
  from duly_flow
 where id in (select value from json_each(:ids))
 order by id;

-- name: jobs_of_flows
select job_id
  from duly_part
 where flow in (select value from json_each(:ids))
 order by job_id;

-- name: remove_flows
delete from duly_flow
 where id in (select value from json_each(:ids));

-- name: remove_flow_steps
delete from duly_step
 where flow in (select value from json_each(:ids));

-- name: remove_flow_parts
delete from duly_part
 where flow in (select value from json_each(:ids));

-- name: unused_flows
-- Of flows that are held, those without a job.
select id
  from duly_flow
 where id in (select value from json_each(:ids))
   and not exists (select 1 from duly_job where duly_job.id = duly_flow.id);

-- name: old_flows
-- Not one that is given another chance.
select id
  from duly_flow
 where ended_at < :before
   and not exists (select 1 from duly_job where duly_job.id = duly_flow.id)
 order by ended_at
 limit :limit;

-- name: compare_steps
-- Steps that begin to wait: what they wait for may have happened already.
insert into duly_unanswered (job_id, event_id)
select value, 0
  from json_each(:ids)
 where true
    on conflict do nothing;

-- name: compare_events
-- Steps that may have waited for these events. What a tenant says answers nobody else.
insert into duly_unanswered (job_id, event_id)
select duly_job.id, duly_event.id
  from duly_event
 cross join duly_job
    on waits = 'event' and waits_for in (name, name || ':' || duly_event.key)
   and duly_event.tenant in ('', duly_job.tenant)
 where duly_event.id in (select value from json_each(:ids))
    on conflict do nothing;

-- name: any_unanswered
select 1
 where exists (select 1 from duly_unanswered) or exists (select 1 from duly_event where not seen);

-- name: answered_jobs
-- Steps that are to be compared, each with the first event since its flow was opened that it waited
-- for, if there is one.
select compared.job_id, compared.event_id, duly_event.id, duly_event.name, duly_event.payload
  from (select asked.job_id, asked.event_id,
               case when instr(duly_job.waits_for, ':') = 0
                    then (select happened.id
                            from duly_event as happened
                           where happened.name = duly_job.waits_for
                             and happened.at >= duly_flow.opened_at
                             and happened.tenant in ('', duly_job.tenant)
                           order by happened.at, happened.id
                           limit 1)
                    else (select happened.id
                            from duly_event as happened indexed by duly_event_key
                           where happened.name = substr(duly_job.waits_for, 1,
                                                        instr(duly_job.waits_for, ':') - 1)
                             and happened.key = substr(duly_job.waits_for,
                                                       instr(duly_job.waits_for, ':') + 1)
                             and happened.at >= duly_flow.opened_at
                             and happened.tenant in ('', duly_job.tenant)
                           order by happened.at, happened.id
                           limit 1)
               end as event
          from (select job_id, event_id
                  from duly_unanswered
                 order by job_id, event_id
                 limit :limit) as asked
          left join duly_job
            on duly_job.id = asked.job_id and +waits = 'event' and +duly_job.state = 'blocked'
          left join duly_flow on duly_flow.id = duly_job.parent) as compared
  left join duly_event on duly_event.id = compared.event
 order by compared.job_id, compared.event_id;

-- name: forget_compared
delete from duly_unanswered
 where (job_id, event_id) in (select value ->> 0, value ->> 1 from json_each(:rows));

-- name: stranded_parts
-- A net: parts of flows that have not ended, whose jobs have; and what became of those.
select duly_part.flow, duly_part.step, duly_part.part,
       coalesce(done.state, dead.state), coalesce(done.reason, dead.reason), done.result
  from duly_flow indexed by duly_flow_running
 cross join duly_part on duly_part.flow = duly_flow.id and duly_part.state = 'running'
  left join duly_history as done on done.id = duly_part.job_id
  left join duly_failed as dead on dead.id = duly_part.job_id
 where duly_flow.ended_at is null
   and not exists (select 1 from duly_job where duly_job.id = duly_part.job_id)
 order by duly_part.flow, duly_part.step, duly_part.part
 limit :limit;
