-- What workers go by: limits, resources, turns among tenants, who they are and what they are told;
-- and a place for what jobs say while they run.

alter table duly.schedule
    add column limits text,
    add column needs text,
    add column terms text;

-- The shelf is where a worker looks: 0 normal, 1 low, 2 idle, 3 what has limits or needs resources
-- and is claimed with care, 4 what crashed with its worker and is run alone.
alter table duly.job
    add column limits text,
    add column needs text,
    add column terms text,
    add column fair boolean not null default false,
    add column waits text collate "C",
    add column waits_for text collate "C",
    add column shelf smallint not null default 0;

alter table duly.history
    add column limits text,
    add column needs text,
    add column terms text,
    add column result_until bigint;

alter table duly.failed
    add column limits text,
    add column needs text,
    add column terms text,
    add column result_until bigint;

drop index duly.job_ready;
drop index duly.job_running;
create index job_ready on duly.job (queue, shelf, rank, id) where state = 'ready';
create index job_fair on duly.job (queue, shelf, tenant, rank, id) where state = 'ready' and fair;
create index job_running on duly.job (queue, id) where state = 'running';
create index job_waits on duly.job (waits, waits_for, rank, id) where waits is not null;
create index job_unfit on duly.job (task, waits, waits_for, id) where waits in ('worker', 'signature');

alter table duly.queue
    add column concurrency int,
    add column rate_count int,
    add column rate_period bigint,
    add column arrival bigint not null default 0,
    add column fair boolean not null default false;

-- A limit under one rendered name. Its row is the lock for whoever enters or leaves it; how many
-- are in it is counted from the holdings, after the lock was given.
create table duly.lane (
    name        text collate "C" primary key,
    template    text collate "C" not null,
    concurrency int,
    rate_count  int,
    rate_period bigint,
    arrival     bigint not null,  -- when the last job that was let through would have come, at an even pace
    opens_at    bigint,           -- when the next may enter, if some wait for that
    used_at     bigint not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

create index lane_opens on duly.lane (opens_at) where opens_at is not null;
create index lane_used on duly.lane (used_at);

create table duly.holding (
    lane   text collate "C" not null,
    job_id bigint not null,
    primary key (lane, job_id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

create index holding_job on duly.holding (job_id);

-- What the operator said about a limit, by its name or its template; it counts for more than code.
create table duly.lane_rule (
    name        text collate "C" primary key,
    concurrency int,
    rate_count  int,
    rate_period bigint
);

alter table duly.worker
    add column signatures text not null default '{}',
    add column slots int not null default 0,
    add column resources text not null default '{}',
    add column isolates boolean not null default false,
    add column host text not null default '{}',
    add column version text not null default '',
    add column running int not null default 0,
    add column beat_at bigint not null default 0,
    add column told text not null default 'run',
    add column told_slots int;

create table duly.log (
    job_id  bigint not null,
    seq     bigint not null,
    attempt int not null,
    at      bigint not null,
    level   text not null,
    text    text not null,
    primary key (job_id, seq)
);

create index log_at on duly.log (at);

-- How far a job says it is.
create table duly.note (
    job_id  bigint primary key,
    attempt int not null,
    at      bigint not null,
    percent double precision not null,
    message text not null,
    meta    text
);

create index note_at on duly.note (at);
