-- The tables as they are now, in one place, to be read. Databases are built by the migrations, and
-- a test compares what both make.

-- Schedules, the ledger of their due moments, and the jobs that come from them.
-- An instant is a whole number: microseconds since 1970-01-01T00:00Z. No column has a default that
-- reads a clock.

create table duly_sequence (
    name text primary key,
    last integer not null
) strict, without rowid;

insert into duly_sequence (name, last) values ('id_block', 0), ('fence', 0);

create table duly_schedule (
    id            integer primary key,
    name          text not null unique,
    task          text not null,
    args          text not null,
    rule          text not null,
    zone          text,
    policies      text not null,
    queue         text not null,
    priority      integer not null,
    tenant        text not null,
    submitter     text not null,
    title         text not null,
    tags          text not null,
    owner         text not null,
    version       integer not null,
    created_at    integer not null,
    cursor        integer not null,
    next_at       integer,
    settled_until integer,
    revision      integer not null,
    pause         text,
    awaiting      integer,
    fault         text,
    zone_data     text not null
) strict;

create index duly_schedule_next on duly_schedule (next_at) where next_at is not null;
create index duly_schedule_awaiting on duly_schedule (awaiting) where awaiting is not null;
create index duly_schedule_fault on duly_schedule (name) where fault is not null;
create index duly_schedule_zone_data on duly_schedule (zone_data, id);

-- What was changed about a schedule, when and by whom.
create table duly_change (
    schedule_id integer not null,
    at          integer not null,
    name        text not null,
    who         text not null,
    what        text not null
) strict;

create index duly_change_schedule on duly_change (schedule_id, at);
create index duly_change_name on duly_change (name, at);
create index duly_change_at on duly_change (at);

-- The key is the promise: one row for a due moment of a schedule, whoever writes it.
create table duly_fire (
    schedule_id integer not null,
    due_at      integer not null,
    series      integer not null,
    id          integer not null,
    covers_from integer not null,
    count       integer,
    outcome     text not null,
    cause       text,
    reason      text not null,
    decided_at  integer not null,
    job_id      integer,
    primary key (schedule_id, due_at, series)
) strict, without rowid;

create index duly_fire_decided on duly_fire (decided_at);

create table duly_job (
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
    rank        integer not null,
    request     integer not null  -- the call that last said what it is: its own number, or that of a move
) strict;

-- Each index holds only the jobs in the state that is asked for through it.
create index duly_job_ready on duly_job (queue, rank, id) where state = 'ready';
create index duly_job_due on duly_job (ready_at) where state = 'scheduled';
create index duly_job_running on duly_job (worker) where state = 'running';
create index duly_job_deadline on duly_job (deadline) where deadline is not null;
create index duly_job_moved on duly_job (request) where request <> id;
create index duly_job_schedule on duly_job (schedule_id, due_at, id) where schedule_id is not null;

-- Who holds a key: its row is locked by whoever asks for the key, before the job is looked at.
create table duly_job_key (
    task   text not null,
    key    text not null,
    job_id integer not null,
    primary key (task, key)
) strict, without rowid;

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
