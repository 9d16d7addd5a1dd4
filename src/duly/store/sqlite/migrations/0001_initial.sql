-- Schedules, the ledger of their due moments, and the jobs that come from them.
-- An instant is a whole number: microseconds since 1970-01-01T00:00Z. No column has a default that
-- reads a clock.

create table duly_sequence (
    name text primary key,
    last integer not null
) strict, without rowid;

insert into duly_sequence (name, last) values ('id_block', 0);

-- Who counts in a block of numbers that was given out: see confirm_ids.
create table duly_reservation (
    holder text primary key,
    block  integer not null,
    at     integer not null
) strict, without rowid;

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
create index duly_schedule_settled on duly_schedule (next_at) where settled_until > cursor;
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
create index duly_job_moved on duly_job (request) where request <> id;
create index duly_job_schedule on duly_job (schedule_id, due_at, id) where schedule_id is not null;
-- … without what somebody asked for: a backfill makes thousands of jobs that a fire need not look at.
create index duly_job_clock on duly_job (schedule_id, due_at, id)
    where schedule_id is not null and request = id;

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

-- What workers go by: limits, resources, turns among tenants, who they are and what they are told;
-- and a place for what jobs say while they run.

alter table duly_schedule add column limits text;
alter table duly_schedule add column needs text;
alter table duly_schedule add column terms text;

-- The shelf is where a worker looks: 0 normal, 1 low, 2 idle, 3 what has limits or needs resources
-- and is claimed with care, 4 what crashed with its worker and is run alone, 5 moments of schedules.
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
create index duly_job_ready on duly_job (queue, shelf, rank, id) where state = 'ready';
-- The same by task, and by what is needed: for a worker that can run only some of what waits.
create index duly_job_task on duly_job (queue, shelf, task, rank, id) where state = 'ready';
create index duly_job_needs on duly_job (
    queue, task, (case when limits is null then '' else '+' end || ifnull(needs, '')), rank, id)
    where state = 'ready' and shelf = 3;
create index duly_job_fair on duly_job (queue, shelf, tenant, rank, id) where state = 'ready' and fair;
-- Jobs that a worker runs. Not flows: they are running too, for weeks perhaps, and only their steps
-- are run by workers.
create index duly_job_running on duly_job (queue, id) where worker is not null;
create index duly_job_flow on duly_job (claimed_at, id) where waits = 'steps';
-- Deadlines that can still be missed: of jobs that have not begun, and of flows.
create index duly_job_deadline on duly_job (deadline)
    where deadline is not null and (state <> 'running' or waits = 'steps');
create index duly_job_unblocked on duly_job (schedule_id, due_at, id)
    where schedule_id is not null and (state <> 'blocked' or waits is not null);
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
alter table duly_worker add column app text not null default '';
alter table duly_worker add column holder text not null default '';
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

-- What applications declare in their code: who speaks for each of them, and what was said last.

-- The set of schedules that holds for an app, and since when. Its row is the lock of all the rest.
create table duly_app (
    name  text primary key,
    mark  text not null,
    since integer not null
) strict, without rowid;

-- Every set that was ever announced for an app, and when somebody last did.
create table duly_declaration (
    app        text not null,
    mark       text not null,
    first_seen integer not null,
    seen_at    integer not null,
    since      integer not null, -- announced without a pause
    primary key (app, mark)
) strict, without rowid;

-- Schedules as code declared them last: what a person has changed since is the difference.
create table duly_declared (
    name text primary key,
    app  text not null,
    plan text not null
) strict, without rowid;

create index duly_declared_app on duly_declared (app, name);

-- Files as they were applied last: what a person has changed since is the difference. The row is the
-- lock of whoever applies one, and the number tells an application that is repeated.
create table duly_applied (
    file   text primary key,
    sheet  text,
    number integer not null,
    at     integer not null,
    who    text not null
) strict, without rowid;

-- Who may use the HTTP side, who did what, and what somebody has said is not a problem.

-- Of the secret only its hash is kept. A name is free again when its token was revoked.
create table duly_token (
    id           integer primary key,
    name         text not null,
    role         text not null,
    tenant       text,
    hash         text not null unique,
    created_at   integer not null,
    created_by   text not null,
    expires_at   integer,
    revoked_at   integer,
    last_used_at integer
) strict;

create unique index duly_token_name on duly_token (name) where revoked_at is null;

-- A browser that signed in. The holder is the hash of the secret that it signed in with: a token's,
-- or that of the link which a server printed when it started.
create table duly_session (
    hash       text primary key,
    holder     text not null,
    expires_at integer not null
) strict;

-- Who did what. Each hash is made of the row and of the hash before it; the deed is the number under
-- which a write that is repeated is known.
create table duly_audit (
    number   integer primary key,
    at       integer not null,
    who      text not null,
    how      text not null,
    action   text not null,
    subject  text not null,
    details  text not null,
    deed     integer not null unique,
    previous text not null,
    hash     text not null
) strict;

create index duly_audit_subject on duly_audit (subject, number);
create index duly_audit_who on duly_audit (who, number);

-- The end of the chain, in one row. Who writes the next entry holds it, so the chain never forks; and
-- entries that vanish from the end are missed.
create table duly_audit_head (
    id     integer primary key,
    number integer not null,
    hash   text not null
) strict;

create trigger duly_audit_is_not_changed before update on duly_audit begin
    select raise(abort, 'the audit log is only ever added to: update was refused');
end;

create trigger duly_audit_is_not_deleted before delete on duly_audit begin
    select raise(abort, 'the audit log is only ever added to: delete was refused');
end;

-- What needs somebody and has been seen, as far as it had gone then.
create table duly_acknowledgement (
    subject text not null,
    kind    text not null,
    until   integer not null,
    who     text not null,
    at      integer not null,
    note    text not null,
    primary key (subject, kind)
) strict, without rowid;

-- Under which key jobs were enqueued, by whom, and which they are: who asks again gets the same.
-- The mark tells what was asked.
create table duly_once (
    who  text not null,
    key  text not null,
    mark text not null,
    jobs text not null,
    at   integer not null,
    primary key (who, key)
) strict, without rowid;

create index duly_once_at on duly_once (at);

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

-- Steps that wait for an event and are to be compared with the events that are written down: those
-- that have just begun to wait (event 0), and those for which an event has come. A step is written
-- here together with itself, and an event when it is seen: whichever of the two is committed later
-- finds the other.
create table duly_unanswered (
    job_id   integer not null,
    event_id integer not null,
    primary key (job_id, event_id)
) strict, without rowid;

-- Those that events make due: found without reading all the others.
create index duly_schedule_reacting on duly_schedule (id) where substr(rule, 1, 3) = 'on ';
