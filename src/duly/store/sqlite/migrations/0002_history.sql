-- What has ended, apart from what lives: the hot table stays small, and old rows are cheap to drop.

create table duly_history (
    id          integer primary key,
    task        text not null,
    args        text not null,
    queue       text not null,
    priority    integer not null,
    tenant      text not null,
    submitter   text not null,
    title       text not null,
    tags        text not null,
    owner       text not null,
    version     integer not null,
    key         text,
    state       text not null,
    created_at  integer not null,
    due_at      integer not null,
    ready_at    integer not null,
    deadline    integer,
    late        text not null,
    retry       text,
    attempt     integer not null,
    crashes     integer not null,
    worker      integer,
    fence       integer not null,
    claimed_at  integer,
    schedule_id integer,
    fire_id     integer,
    reason      text not null,
    ended_at    integer not null,
    result      text,
    error       text,
    request     integer not null
) strict;

create index duly_history_moved on duly_history (request) where request <> id;
create index duly_history_ended on duly_history (ended_at);
create index duly_history_schedule on duly_history (schedule_id, ended_at) where schedule_id is not null;

-- The dead letters: kept longer, and given another chance by moving them back.
create table duly_failed (
    id          integer primary key,
    task        text not null,
    args        text not null,
    queue       text not null,
    priority    integer not null,
    tenant      text not null,
    submitter   text not null,
    title       text not null,
    tags        text not null,
    owner       text not null,
    version     integer not null,
    key         text,
    state       text not null,
    created_at  integer not null,
    due_at      integer not null,
    ready_at    integer not null,
    deadline    integer,
    late        text not null,
    retry       text,
    attempt     integer not null,
    crashes     integer not null,
    worker      integer,
    fence       integer not null,
    claimed_at  integer,
    schedule_id integer,
    fire_id     integer,
    reason      text not null,
    ended_at    integer not null,
    result      text,
    error       text,
    request     integer not null
) strict;

create index duly_failed_moved on duly_failed (request) where request <> id;
create index duly_failed_ended on duly_failed (ended_at);

-- Attempts that did not end their job well. One that did is the job's own row in the history.
create table duly_attempt (
    job_id     integer not null,
    number     integer not null,
    worker     integer,
    fence      integer not null,
    started_at integer not null,
    ended_at   integer not null,
    outcome    text not null,
    reason     text not null,
    error      text,
    primary key (job_id, number, fence)
) strict, without rowid;

create index duly_attempt_ended on duly_attempt (ended_at);

create table duly_worker (
    id          integer primary key,
    name        text not null,
    queues      text not null,
    tasks       text not null,
    started_at  integer not null,
    lease_until integer not null
) strict;

create index duly_worker_lease on duly_worker (lease_until);

-- What a worker is told about a job that it runs. Never an update of the job's own row.
create table duly_signal (
    job_id integer primary key,
    what   text not null,
    reason text not null,
    at     integer not null
) strict;

create table duly_queue (
    name   text primary key,
    paused integer not null,
    note   text not null
) strict, without rowid;
