-- What workers go by: limits, resources, turns among tenants, who they are and what they are told;
-- and a place for what jobs say while they run.

alter table duly_schedule add column limits text;
alter table duly_schedule add column needs text;
alter table duly_schedule add column terms text;

-- The shelf is where a worker looks: 0 normal, 1 low, 2 idle, 3 what has limits or needs resources
-- and is claimed with care, 4 what crashed with its worker and is run alone.
alter table duly_job add column limits text;
alter table duly_job add column needs text;
alter table duly_job add column terms text;
alter table duly_job add column fair integer not null default 0;
alter table duly_job add column waits text;
alter table duly_job add column waits_for text;
alter table duly_job add column shelf integer not null default 0;

alter table duly_history add column limits text;
alter table duly_history add column needs text;
alter table duly_history add column terms text;
alter table duly_history add column result_until integer;

alter table duly_failed add column limits text;
alter table duly_failed add column needs text;
alter table duly_failed add column terms text;
alter table duly_failed add column result_until integer;

drop index duly_job_ready;
drop index duly_job_running;
create index duly_job_ready on duly_job (queue, shelf, rank, id) where state = 'ready';
create index duly_job_fair on duly_job (queue, shelf, tenant, rank, id) where state = 'ready' and fair;
create index duly_job_running on duly_job (queue, id) where state = 'running';
create index duly_job_waits on duly_job (waits, waits_for, rank, id) where waits is not null;
create index duly_job_unfit on duly_job (task, waits, waits_for, id)
    where waits in ('worker', 'signature');

alter table duly_queue add column concurrency integer;
alter table duly_queue add column rate_count integer;
alter table duly_queue add column rate_period integer;
alter table duly_queue add column arrival integer not null default 0;
alter table duly_queue add column fair integer not null default 0;

-- A limit under one rendered name. Its row is the lock for whoever enters or leaves it; how many
-- are in it is counted from the holdings, after the lock was given.
create table duly_lane (
    name        text primary key,
    template    text not null,
    concurrency integer,
    rate_count  integer,
    rate_period integer,
    arrival     integer not null,  -- when the last job that was let through would have come, at an even pace
    opens_at    integer,           -- when the next may enter, if some wait for that
    used_at     integer not null
) strict;

create index duly_lane_opens on duly_lane (opens_at) where opens_at is not null;
create index duly_lane_used on duly_lane (used_at);

create table duly_holding (
    lane   text not null,
    job_id integer not null,
    primary key (lane, job_id)
) strict;

create index duly_holding_job on duly_holding (job_id);

-- What the operator said about a limit, by its name or its template; it counts for more than code.
create table duly_lane_rule (
    name        text primary key,
    concurrency integer,
    rate_count  integer,
    rate_period integer
) strict;

alter table duly_worker add column signatures text not null default '{}';
alter table duly_worker add column slots integer not null default 0;
alter table duly_worker add column resources text not null default '{}';
alter table duly_worker add column isolates integer not null default 0;
alter table duly_worker add column host text not null default '{}';
alter table duly_worker add column version text not null default '';
alter table duly_worker add column running integer not null default 0;
alter table duly_worker add column beat_at integer not null default 0;
alter table duly_worker add column told text not null default 'run';
alter table duly_worker add column told_slots integer;

create table duly_log (
    job_id  integer not null,
    seq     integer not null,
    attempt integer not null,
    at      integer not null,
    level   text not null,
    text    text not null,
    primary key (job_id, seq)
) strict;

create index duly_log_at on duly_log (at);

-- How far a job says it is.
create table duly_note (
    job_id  integer primary key,
    attempt integer not null,
    at      integer not null,
    percent real not null,
    message text not null,
    meta    text
) strict;

create index duly_note_at on duly_note (at);
