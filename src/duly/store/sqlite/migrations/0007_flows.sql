-- Flows: jobs whose steps are jobs. Events: what happened, and starts jobs.

-- What a job belongs to or came from; and of a step its place there: which step, which of its parts.
alter table duly_job add column parent integer;
alter table duly_job add column step integer;
alter table duly_job add column part integer;

alter table duly_history add column parent integer;
alter table duly_history add column step integer;
alter table duly_history add column part integer;

alter table duly_failed add column parent integer;
alter table duly_failed add column step integer;
alter table duly_failed add column part integer;

-- Flows that run, and those that have ended until they are forgotten. Whoever touches anything in a
-- flow, or in the flows within it, holds the row of the outermost.
create table duly_flow (
    id        integer primary key,  -- of the job that it is
    root      integer not null,     -- the outermost flow that it is in, or itself
    result    integer,              -- the step whose result is its own
    steps     integer not null,
    remaining integer not null,     -- steps that have not ended
    failed    integer not null,     -- steps that were to succeed and did not
    ending    text,                 -- what it becomes when nothing of it runs any more …
    reason    text not null,        -- … and why
    opened_at integer not null,
    ended_at  integer
) strict;

create index duly_flow_ended on duly_flow (ended_at) where ended_at is not null;
create index duly_flow_running on duly_flow (id) where ended_at is null;

-- A step is one job, or one for each item of a list. What it waits for is counted here, so that an
-- end costs as much as there are steps behind it, and not as many as there are in the flow.
create table duly_step (
    flow       integer not null,
    number     integer not null,
    name       text not null,
    task       text not null,
    plan       text not null,
    follows    text not null,     -- the steps before it, and behind it
    leads_to   text not null,
    runs_when  text not null,
    if_failed  text not null,
    kind       text not null,
    wanted     integer not null,  -- its result is taken by others
    rescue     integer not null,  -- it is there for when something fails, or behind what is
    state      text not null,
    waiting    integer not null,  -- steps before it that have not ended
    unmet      integer not null,  -- … that have ended and not succeeded
    failed     integer not null,  -- … of which because something failed
    parts      integer not null,
    remaining  integer not null,  -- parts that have not ended
    missed     integer not null,  -- … that have ended and not succeeded by themselves
    stopped    integer not null,  -- … that were cancelled with the rest of the flow
    reason     text not null,
    started_at integer,
    ended_at   integer,
    primary key (flow, number)
) strict, without rowid;

-- The jobs of a step, and the results that are waited for behind it.
create table duly_part (
    flow   integer not null,
    step   integer not null,
    part   integer not null,
    job_id integer not null,
    state  text not null,
    result text,
    primary key (flow, step, part)
) strict, without rowid;

-- What happened, as somebody said. Each row is looked at once by whoever starts jobs for it.
create table duly_event (
    id        integer primary key,
    name      text not null,
    key       text,
    payload   text not null,
    submitter text not null,
    tenant    text not null,
    at        integer not null,
    seen      integer not null
) strict;

create index duly_event_unseen on duly_event (at, id) where not seen;
create index duly_event_name on duly_event (name, at);
create index duly_event_key on duly_event (name, key, at) where key is not null;
create index duly_event_at on duly_event (at);

-- Those that events make due: found without reading all the others.
create index duly_schedule_reacting on duly_schedule (id) where substr(rule, 1, 3) = 'on ';
