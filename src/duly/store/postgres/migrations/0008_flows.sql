-- Flows: jobs whose steps are jobs. Events: what happened, and starts jobs.

-- What a job belongs to or came from; and of a step its place there: which step, which of its parts.
alter table duly.job
    add column parent bigint,
    add column step int,
    add column part int;

alter table duly.history
    add column parent bigint,
    add column step int,
    add column part int;

alter table duly.failed
    add column parent bigint,
    add column step int,
    add column part int;

-- Flows that run, and those that have ended until they are forgotten. Whoever touches anything in a
-- flow, or in the flows within it, holds the row of the outermost.
create table duly.flow (
    id        bigint primary key,  -- of the job that it is
    root      bigint not null,     -- the outermost flow that it is in, or itself
    result    int,                 -- the step whose result is its own
    steps     int not null,
    remaining int not null,        -- steps that have not ended
    failed    int not null,        -- steps that were to succeed and did not
    ending    text collate "C",    -- what it becomes when nothing of it runs any more …
    reason    text not null,       -- … and why
    opened_at bigint not null,
    ended_at  bigint
);

create index flow_ended on duly.flow (ended_at) where ended_at is not null;
create index flow_running on duly.flow (id) where ended_at is null;

-- A step is one job, or one for each item of a list. What it waits for is counted here, so that an
-- end costs as much as there are steps behind it, and not as many as there are in the flow.
create table duly.step (
    flow       bigint not null,
    number     int not null,
    name       text not null,
    task       text not null,
    plan       text not null,
    follows    text not null,  -- the steps before it, and behind it
    leads_to   text not null,
    runs_when  text not null,
    if_failed  text not null,
    kind       text not null,
    wanted     int not null,   -- its result is taken by others
    rescue     int not null,   -- it is there for when something fails, or behind what is
    state      text collate "C" not null,
    waiting    int not null,   -- steps before it that have not ended
    unmet      int not null,   -- … that have ended and not succeeded
    failed     int not null,   -- … of which because something failed
    parts      int not null,
    remaining  int not null,   -- parts that have not ended
    missed     int not null,   -- … that have ended and not succeeded by themselves
    stopped    int not null,   -- … that were cancelled with the rest of the flow
    reason     text not null,
    started_at bigint,
    ended_at   bigint,
    primary key (flow, number)
);

-- The jobs of a step, and the results that are waited for behind it.
create table duly.part (
    flow   bigint not null,
    step   int not null,
    part   int not null,
    job_id bigint not null,
    state  text collate "C" not null,
    result text,
    primary key (flow, step, part)
);

-- What happened, as somebody said. Each row is looked at once by whoever starts jobs for it.
create table duly.event (
    id        bigint primary key,
    name      text collate "C" not null,
    key       text collate "C",
    payload   text not null,
    submitter text not null,
    tenant    text not null,
    at        bigint not null,
    seen      boolean not null
);

create index event_unseen on duly.event (at, id) where not seen;
create index event_name on duly.event (name, at);
create index event_key on duly.event (name, key, at) where key is not null;
create index event_at on duly.event (at);

-- One looks at events at a time: whoever holds the row.
create table duly.reactor (
    place int primary key
);

-- Those that events make due: found without reading all the others.
create index schedule_reacting on duly.schedule (id) where left(rule, 3) = 'on ';
