-- Schedules, the ledger of their due moments, and the jobs that come from them.
-- An instant is a whole number: microseconds since 1970-01-01T00:00Z. No column has a default that
-- reads a clock.

create schema if not exists duly;

-- The database's own time, moving within a transaction too.
create function duly.now_us() returns bigint
    language sql volatile parallel safe
    as $$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

create sequence duly.id_block;
create sequence duly.fence;

create table duly.schedule (
    id            bigint primary key,
    name          text collate "C" not null unique,
    task          text not null,
    args          text not null,
    rule          text not null,
    zone          text,
    policies      text not null,
    queue         text not null,
    priority      smallint not null,
    tenant        text not null,
    submitter     text not null,
    title         text not null,
    tags          text not null,
    owner         text not null,
    version       int not null,
    created_at    bigint not null,
    cursor        bigint not null,
    next_at       bigint,
    settled_until bigint,
    revision      bigint not null,
    pause         text,
    awaiting      bigint,
    fault         text,
    zone_data     text collate "C" not null
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

create index schedule_next on duly.schedule (next_at) where next_at is not null;
create index schedule_awaiting on duly.schedule (awaiting) where awaiting is not null;
create index schedule_fault on duly.schedule (name) where fault is not null;
create index schedule_zone_data on duly.schedule (zone_data, id);

-- What was changed about a schedule, when and by whom.
create table duly.change (
    schedule_id bigint not null,
    at          bigint not null,
    name        text not null,
    who         text not null,
    what        text not null
);

create index change_schedule on duly.change (schedule_id, at);
create index change_name on duly.change (name, at);
create index change_at on duly.change (at);

-- The key is the promise: one row for a due moment of a schedule, whoever writes it.
create table duly.fire (
    schedule_id bigint not null,
    due_at      bigint not null,
    series      bigint not null,
    id          bigint not null,
    covers_from bigint not null,
    count       bigint,
    outcome     text not null,
    cause       text,
    reason      text not null,
    decided_at  bigint not null,
    job_id      bigint,
    primary key (schedule_id, due_at, series)
) /*[partitions] partition by range (due_at) [partitions]*/;

create index fire_decided on duly.fire (decided_at);

create table duly.job (
    id          bigint primary key,
    task        text not null,
    args        text not null,
    queue       text collate "C" not null,
    priority    smallint not null,
    tenant      text not null,
    submitter   text not null,
    title       text not null,
    tags        text not null,
    owner       text not null,
    version     int not null,
    key         text,
    state       text collate "C" not null,
    created_at  bigint not null,
    due_at      bigint not null,
    ready_at    bigint not null,
    deadline    bigint,
    late        text not null,
    retry       text,
    attempt     int not null,
    crashes     int not null,
    worker      bigint,
    fence       bigint not null,
    claimed_at  bigint,
    schedule_id bigint,
    fire_id     bigint,
    reason      text not null,
    rank        bigint not null,
    request     bigint not null  -- the call that last said what it is: its own number, or that of a move
) with (fillfactor = 90, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_cost_delay = 0);

-- Each index holds only the jobs in the state that is asked for through it.
create index job_ready on duly.job (queue, rank, id) where state = 'ready';
create index job_due on duly.job (ready_at) where state = 'scheduled';
create index job_running on duly.job (worker, id) where state = 'running';
create index job_deadline on duly.job (deadline) where deadline is not null;
create index job_moved on duly.job (request) where request <> id;
create index job_schedule on duly.job (schedule_id, due_at, id) where schedule_id is not null;

-- Who holds a key: its row is locked by whoever asks for the key, before the job is looked at.
create table duly.job_key (
    task   text collate "C" not null,
    key    text collate "C" not null,
    job_id bigint not null,
    primary key (task, key)
);
