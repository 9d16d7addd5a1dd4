-- A time is a whole number: microseconds since 1970-01-01T00:00Z. No column has a default that reads a
-- clock.

create table duly_sequence (
    name text primary key,
    last integer not null
) strict, without rowid;

insert into duly_sequence (name, last) values ('id_block', 0);

-- Processes that use a reserved block of numbers: see confirm_ids.
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
    runs          integer not null,
    awaiting      integer,
    fault         text,
    zone_data     text not null,
    limits        text,
    needs         text,
    terms         text
) strict;

create index duly_schedule_next on duly_schedule (next_at) where next_at is not null;
create index duly_schedule_cursor on duly_schedule (cursor) where next_at is not null;
create index duly_schedule_settled on duly_schedule (next_at) where settled_until > cursor;
create index duly_schedule_awaiting on duly_schedule (awaiting) where awaiting is not null;
create index duly_schedule_fault on duly_schedule (name) where fault is not null;
create index duly_schedule_zone_data on duly_schedule (zone_data, id);

-- Changes of a schedule: when, and by whom.
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

-- The ledger. The primary key makes a schedule fire once for each due time.
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

-- The shelf decides in which order workers look for jobs: 0 normal, 1 low, 2 idle, 3 with limits or
-- resources, 4 crashed with its worker and runs alone, 5 fired by the clock.
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
    request     integer not null,  -- the call that defined it: its own number, or a later call's
    limits      text,
    needs       text,
    terms       text,
    fair        integer not null default 0,
    waits       text,
    waits_for   text,
    shelf       integer not null default 0,
    parent      integer,
    step        integer,
    part        integer
) strict;

-- Each index contains only the jobs that are searched through it.
create index duly_job_due on duly_job (ready_at) where state = 'scheduled';
create index duly_job_moved on duly_job (request) where request <> id;
create index duly_job_schedule on duly_job (schedule_id, due_at, id) where schedule_id is not null;
-- Without backfilled jobs, which a fire need not read.
create index duly_job_clock on duly_job (schedule_id, due_at, id)
    where schedule_id is not null and request = id;
create index duly_job_ready on duly_job (queue, shelf, rank, id) where state = 'ready';
-- For a worker that can run only some of the ready jobs.
create index duly_job_task on duly_job (queue, shelf, task, rank, id) where state = 'ready';
create index duly_job_needs on duly_job (
    queue, task, (case when limits is null then '' else '+' end || coalesce(needs, '')), rank, id)
    where state = 'ready' and shelf = 3;
create index duly_job_fair on duly_job (
    queue, shelf, task, (case when limits is null then '' else '+' end || coalesce(needs, '')), tenant,
    rank, id)
    where state = 'ready' and fair;
-- Jobs that a worker runs. Flows and handed-off jobs run without one.
create index duly_job_running on duly_job (queue, id) where worker is not null;
create index duly_job_unattended on duly_job (claimed_at, id) where waits in ('steps', 'outcome');
-- Deadlines that can still be missed.
create index duly_job_deadline on duly_job (deadline)
    where deadline is not null and (state <> 'running' or waits in ('steps', 'outcome'));
create index duly_job_blocked on duly_job (schedule_id)
    where state = 'blocked' and waits is null and schedule_id is not null;
-- By an expression, so that no statement that needs this index can be planned with another one.
create index duly_job_unblocked on duly_job ((schedule_id + 0), due_at, id)
    where schedule_id is not null and (state <> 'blocked' or waits is not null);
create index duly_job_waits on duly_job (waits, waits_for, rank, id) where waits is not null;
create index duly_job_awaiting on duly_job (deadline, id) where waits = 'event' and state = 'blocked';
create index duly_job_unfit on duly_job (task, waits, waits_for, id)
    where waits in ('worker', 'signature');

-- The job that holds an idempotency key. The row is locked before the job is read.
create table duly_job_key (
    task   text not null,
    key    text not null,
    job_id integer not null,
    primary key (task, key)
) strict, without rowid;

-- Ended jobs are kept apart: the hot table stays small, and old rows are cheap to drop.
create table duly_history (
    id           integer primary key,
    task         text not null,
    args         text not null,
    queue        text not null,
    priority     integer not null,
    tenant       text not null,
    submitter    text not null,
    title        text not null,
    tags         text not null,
    owner        text not null,
    version      integer not null,
    key          text,
    state        text not null,
    created_at   integer not null,
    due_at       integer not null,
    ready_at     integer not null,
    deadline     integer,
    late         text not null,
    retry        text,
    attempt      integer not null,
    crashes      integer not null,
    worker       integer,
    fence        integer not null,
    claimed_at   integer,
    schedule_id  integer,
    fire_id      integer,
    reason       text not null,
    ended_at     integer not null,
    result       text,
    error        text,
    request      integer not null,
    limits       text,
    needs        text,
    terms        text,
    result_until integer,
    parent       integer,
    step         integer,
    part         integer
) strict;

create index duly_history_moved on duly_history (request) where request <> id;
create index duly_history_ended on duly_history (ended_at);
create index duly_history_schedule on duly_history (schedule_id, ended_at) where schedule_id is not null;

-- Dead letters. A retry moves the row back to the job table.
create table duly_failed (
    id           integer primary key,
    task         text not null,
    args         text not null,
    queue        text not null,
    priority     integer not null,
    tenant       text not null,
    submitter    text not null,
    title        text not null,
    tags         text not null,
    owner        text not null,
    version      integer not null,
    key          text,
    state        text not null,
    created_at   integer not null,
    due_at       integer not null,
    ready_at     integer not null,
    deadline     integer,
    late         text not null,
    retry        text,
    attempt      integer not null,
    crashes      integer not null,
    worker       integer,
    fence        integer not null,
    claimed_at   integer,
    schedule_id  integer,
    fire_id      integer,
    reason       text not null,
    ended_at     integer not null,
    result       text,
    error        text,
    request      integer not null,
    limits       text,
    needs        text,
    terms        text,
    result_until integer,
    parent       integer,
    step         integer,
    part         integer
) strict;

create index duly_failed_moved on duly_failed (request) where request <> id;
create index duly_failed_ended on duly_failed (ended_at);
create index duly_failed_until on duly_failed (result_until, ended_at);

-- Attempts that failed. A successful attempt is the job's row in the history.
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
    lease_until integer not null,
    signatures  text not null default '{}',
    slots       integer not null default 0,
    resources   text not null default '{}',
    isolates    integer not null default 0,
    host        text not null default '{}',
    version     text not null default '',
    app         text not null default '',
    holder      text not null default '',
    running     integer not null default 0,
    beat_at     integer not null default 0,
    told        text not null default 'run',
    told_slots  integer,
    died        integer not null default 0  -- it ended without saying so, and another process noticed
) strict;

create index duly_worker_lease on duly_worker (lease_until);

-- Messages to the worker that runs a job, such as cancel.
create table duly_signal (
    job_id integer primary key,
    what   text not null,
    reason text not null,
    at     integer not null
) strict;

create table duly_queue (
    name        text primary key,
    paused      integer not null,
    note        text not null,
    concurrency integer,
    rate_count  integer,
    rate_period integer,
    arrival     integer not null default 0,
    fair        integer not null default 0
) strict, without rowid;

-- A limit with one rendered name. The row is locked when a job enters or leaves, and the jobs inside
-- are counted from the holdings.
create table duly_lane (
    name        text primary key,
    template    text not null,
    concurrency integer,
    rate_count  integer,
    rate_period integer,
    arrival     integer not null,  -- theoretical arrival time of the last job (GCRA)
    opens_at    integer,           -- when the next job may enter, if jobs wait
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

-- The operator's rule for a limit, by name or template; it overrides the code.
create table duly_lane_rule (
    name        text primary key,
    concurrency integer,
    rate_count  integer,
    rate_period integer
) strict;

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

-- The progress that a job reports.
create table duly_note (
    job_id  integer primary key,
    attempt integer not null,
    at      integer not null,
    percent real not null,
    message text not null,
    meta    text
) strict;

create index duly_note_at on duly_note (at);

-- The set of declared schedules that is in force for an app. The row is the lock for declaring.
create table duly_app (
    name  text primary key,
    mark  text not null,
    since integer not null
) strict, without rowid;

-- Every set that nodes have announced for an app.
create table duly_declaration (
    app        text not null,
    mark       text not null,
    first_seen integer not null,
    seen_at    integer not null,
    since      integer not null, -- announced without a gap
    primary key (app, mark)
) strict, without rowid;

-- Schedules as the code last declared them, to detect changes by operators.
create table duly_declared (
    name text primary key,
    app  text not null,
    plan text not null
) strict, without rowid;

create index duly_declared_app on duly_declared (app, name);

-- Files as they were last applied, to detect changes by operators. The row is the lock for applying,
-- and the number identifies a repeated call.
create table duly_applied (
    file   text primary key,
    sheet  text,
    number integer not null,
    at     integer not null,
    who    text not null
) strict, without rowid;

-- API tokens. Only the hash of the secret is kept.
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

-- Browser sessions. The holder is the hash of the secret used to sign in: a token, or the server's
-- launch link.
create table duly_session (
    hash       text primary key,
    holder     text not null,
    expires_at integer not null
) strict;

-- The audit log. Each hash covers the row and the previous hash. The deed identifies a repeated write.
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

-- The end of the hash chain. It is locked to add an entry, and reveals entries removed from the end.
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

-- Problems that somebody has acknowledged, up to a time.
create table duly_acknowledgement (
    subject text not null,
    kind    text not null,
    until   integer not null,
    who     text not null,
    at      integer not null,
    note    text not null,
    primary key (subject, kind)
) strict, without rowid;

-- Idempotency keys of callers, and the jobs they created. The mark is a digest of the request.
create table duly_once (
    who  text not null,
    key  text not null,
    mark text not null,
    jobs text not null,
    at   integer not null,
    primary key (who, key)
) strict, without rowid;

create index duly_once_at on duly_once (at);

-- Running flows, and ended ones until they are pruned. The row of the outermost flow is the lock for
-- everything inside it.
create table duly_flow (
    id        integer primary key,  -- the flow's job
    root      integer not null,     -- the outermost flow, or itself
    result    integer,              -- the step whose result is the flow's
    steps     integer not null,
    remaining integer not null,     -- steps that have not ended
    failed    integer not null,     -- steps that had to succeed and did not
    ending    text,                 -- its state when no step runs any more …
    reason    text not null,        -- … and why
    opened_at integer not null,
    ended_at  integer
) strict;

create index duly_flow_ended on duly_flow (ended_at) where ended_at is not null;
create index duly_flow_running on duly_flow (id) where ended_at is null;

-- A step is one job, or one job for each item of a list. Counters keep the cost of an end independent
-- of the size of the flow.
create table duly_step (
    flow       integer not null,
    number     integer not null,
    name       text not null,
    task       text not null,
    plan       text not null,
    follows    text not null,     -- the steps before it and after it
    leads_to   text not null,
    runs_when  text not null,
    if_failed  text not null,
    kind       text not null,
    wanted     integer not null,  -- other steps use its result
    rescue     integer not null,  -- it runs only after a failure
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

-- The jobs of a step, and the results that later steps use.
create table duly_part (
    flow   integer not null,
    step   integer not null,
    part   integer not null,
    job_id integer not null,
    state  text not null,
    result text,
    primary key (flow, step, part)
) strict, without rowid;

-- Emitted events. The reactor handles each once.
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

-- Waiting steps to compare with recorded events: those that have just begun to wait (event 0), and
-- those whose event was handled. Whichever of step and event is committed later finds the other.
create table duly_unanswered (
    job_id   integer not null,
    event_id integer not null,
    primary key (job_id, event_id)
) strict, without rowid;

-- Schedules that react to events.
create index duly_schedule_reacting on duly_schedule (id) where substr(rule, 1, 3) = 'on ';

-- Problems that somebody was or will be told of. The kind 'ping' remembers the last run of a schedule
-- that a receiver was told of.
create table duly_alert (
    kind        text not null,
    subject     text not null,
    problem     text not null,
    found_at    integer not null,
    told_at     integer,
    resolved_at integer,
    primary key (kind, subject)
) strict, without rowid;

-- The outbox of alerts. A row with next_at is still to be sent.
create table duly_alert_message (
    id          integer primary key,
    destination text not null,
    made_at     integer not null,
    content     text not null,
    attempts    integer not null,
    next_at     integer,
    sent_at     integer,
    error       text not null
) strict;

create index duly_alert_message_pending on duly_alert_message (destination, made_at, id)
    where next_at is not null;
create index duly_alert_message_made on duly_alert_message (made_at);

-- The node that examines the store and delivers messages. At most one row: a lease.
create table duly_alert_turn (
    place   integer primary key,
    holder  text not null,
    until   integer not null,
    told_at integer
) strict;

-- Counters of everything that has ended, in one row. They outlive the history.
create table duly_counter (
    place  integer primary key,
    until  integer not null,  -- what happened before it is counted
    counts text not null
) strict;
