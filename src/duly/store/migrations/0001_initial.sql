-- A time is a whole number: microseconds since 1970-01-01T00:00Z. No column has a default that reads a
-- clock.

-- part: job_columns
-- The columns of a job, live or ended, besides its number.
task        text collate "C" not null,  -- name of the task
    args        text not null,  -- arguments, as JSON
    queue       text collate "C" not null,
    priority    smallint not null,  -- from -100 to 100
    tenant      text not null,
    submitter   text not null,  -- who enqueued it
    title       text not null,
    tags        text not null,  -- JSON list
    owner       text not null,  -- its source: code, file, api or person
    version     int not null,  -- version of the task's signature that the arguments fit
    key         text,  -- unique among the unfinished jobs of its task
    state       text collate "C" not null,  -- see states.md
    created_at  bigint not null,
    due_at      bigint not null,  -- when it was due, by its schedule or caller
    ready_at    bigint not null,  -- earliest start: later than due_at with jitter, spacing or backoff
    deadline    bigint,  -- latest start; then late decides
    late        text not null,  -- skip, run or hurry
    retry       text,  -- retry policy, as JSON; null: the task's
    attempt     int not null,  -- attempts that have started
    crashes     int not null,  -- attempts that ended with their worker
    worker      bigint,  -- the worker that runs it, or ran it
    fence       bigint not null,  -- fencing token of its last claim
    claimed_at  bigint,  -- start of the last attempt
    schedule_id bigint,  -- its schedule, if one fired it
    fire_id     bigint,  -- its row in fire
    reason      text not null,  -- why it waits, or how it ended
    request     bigint not null,  -- the call that defined it: its own number, or a later call's
    limits      text,  -- JSON list
    needs       text,  -- resources, as JSON
    terms       text,  -- timeout, callbacks and other options, as JSON
    parent      bigint,  -- the flow that it is a step of, or the job that it follows
    step        int,  -- its place in the flow; part is the place in a step of several jobs
    part        int

-- part: ended_job_columns
{job_columns},
    ended_at     bigint not null,
    result       text,  -- return value, as JSON
    error        text,  -- message and traceback
    result_until bigint

-- name: initial
{postgres
create schema if not exists duly;

-- The database's clock, which advances within a transaction.
create function duly.now_us() returns bigint
    language sql volatile parallel safe
    as $$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

create sequence duly.id_block;
}
{sqlite
create table duly.sequence (
    name text primary key,
    last bigint not null
) strict, without rowid;

insert into duly.sequence (name, last) values ('id_block', 0);
}

-- Processes that use a reserved block of numbers: see confirm_ids.
create table duly.reservation (
    holder text collate "C" primary key,
    block  bigint not null,
    at     bigint not null
) {sqlite strict, without rowid};

create table duly.schedule (
    id            bigint primary key,
    name          text collate "C" not null unique,
    task          text not null,
    args          text not null,  -- arguments, as JSON
    rule          text not null,  -- text of the rule
    zone          text,  -- zone for a rule without one
    policies      text not null,  -- JSON
    queue         text not null,
    priority      smallint not null,
    tenant        text not null,
    submitter     text not null,  -- who added it
    title         text not null,
    tags          text not null,  -- JSON list
    owner         text not null,  -- its source: code, file, api or person
    version       int not null,  -- version of the task's signature that the arguments fit
    created_at    bigint not null,
    cursor        bigint not null,  -- every due time up to here is in fire
    next_at       bigint,  -- next due time; null: none
    settled_until bigint,  -- due times up to here were skipped ahead of time
    revision      bigint not null,  -- rises with every change
    pause         text,  -- since when, by whom, until when, as JSON; null: active
    runs          bigint not null,  -- runs since max_runs was set
    awaiting      bigint,  -- the job whose end starts a fixed delay
    fault         text,  -- why it cannot fire
    zone_data     text collate "C" not null,  -- release of the zone data behind next_at
    limits        text,  -- JSON list
    needs         text,  -- resources, as JSON
    terms         text  -- options of its jobs, as JSON
) {busy 80} {sqlite strict};

create index schedule_next on duly.schedule (next_at) where next_at is not null;
create index schedule_cursor on duly.schedule (cursor) where next_at is not null;
create index schedule_settled on duly.schedule (next_at) where settled_until > cursor;
create index schedule_awaiting on duly.schedule (awaiting) where awaiting is not null;
create index schedule_fault on duly.schedule (name) where fault is not null;
-- On PostgreSQL the number is not a key: no statement may look for it here.
{postgres create index schedule_zone_data on duly.schedule (zone_data) include (id);}
{sqlite create index schedule_zone_data on duly.schedule (zone_data, id);}

-- Changes of a schedule: when, and by whom.
create table duly.change (
    schedule_id bigint not null,
    at          bigint not null,
    name        text not null,  -- name of the schedule then
    who         text not null,
    what        text not null  -- the change, in words
) {sqlite strict};

create index change_schedule on duly.change (schedule_id, at);
create index change_name on duly.change (name, at);
create index change_at on duly.change (at);

-- The ledger. The primary key makes a schedule fire once for each due time.
create table duly.fire (
    schedule_id bigint not null,
    due_at      bigint not null,  -- the due time, or the last of those that the row covers
    series      bigint not null,  -- 0: by the clock; else the number of a manual run, backfill or event
    id          bigint not null,
    covers_from bigint not null,  -- first due time that the row covers
    count       bigint,  -- due times that the row covers; null: too many to count
    outcome     text not null,  -- queued, merged or skipped
    cause       text,  -- why it was skipped: overlap, missed, late, paused, …
    reason      text not null,  -- the sentence of duly why
    decided_at  bigint not null,
    job_id      bigint,  -- the job, if one was queued
    primary key (schedule_id, due_at, series)
) /*[partitions] partition by range (due_at) [partitions]*/ {sqlite strict, without rowid};

create index fire_decided on duly.fire (decided_at);

-- The shelf decides in which order workers look for jobs: 0 normal, 1 low, 2 idle, 3 with limits or
-- resources, 4 crashed with its worker and runs alone, 5 fired by the clock.
create table duly.job (
    id          bigint primary key,
    {job_columns},
    rank        bigint not null,  -- order among ready jobs, from priority and age
    fair        boolean not null default false,  -- its queue is fair to tenants
    waits       text collate "C",  -- what blocks it: limit, worker, event, steps, …
    waits_for   text collate "C",  -- the limit, event or signature
    shelf       smallint not null default 0,  -- see the comment of the table
    unawaited   boolean not null default false  -- no other job of its schedule waits for its end
) {postgres with (fillfactor = 90, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.01,
             autovacuum_vacuum_cost_delay = 0)} {sqlite strict};

-- Each index contains only the jobs that are searched through it.
create index job_due on duly.job (ready_at) where state = 'scheduled';
create index job_moved on duly.job (request) where request <> id;
create index job_schedule on duly.job (schedule_id, due_at, id) where schedule_id is not null;
-- Without backfilled jobs, which a fire need not read.
create index job_clock on duly.job (schedule_id, due_at, id) where schedule_id is not null and request = id;
create index job_ready on duly.job (queue, shelf, rank, id) where state = 'ready';
-- For a worker that can run only some of the ready jobs.
create index job_task on duly.job (queue, shelf, task, rank, id) where state = 'ready';
create index job_needs on duly.job (
    queue, task, (case when limits is null then '' else '+' end || coalesce(needs, '')), rank, id)
    where state = 'ready' and shelf = 3;
create index job_fair on duly.job (
    queue, shelf, task, (case when limits is null then '' else '+' end || coalesce(needs, '')), tenant,
    rank, id)
    where state = 'ready' and fair;
-- Jobs that a worker runs. Flows and handed-off jobs run without one.
create index job_running on duly.job (queue, id) where worker is not null;
create index job_unattended on duly.job (claimed_at, id) where waits in ('steps', 'outcome');
-- Deadlines that can still be missed.
create index job_deadline on duly.job (deadline)
    where deadline is not null and (state <> 'running' or waits in ('steps', 'outcome'));
create index job_blocked on duly.job (schedule_id)
    where state = 'blocked' and waits is null and schedule_id is not null;
-- By an expression, so that no statement that needs this index can be planned with another one.
create index job_unblocked on duly.job ((schedule_id + 0), due_at, id)
    where schedule_id is not null and (state <> 'blocked' or waits is not null);
create index job_waits on duly.job (waits, waits_for, rank, id) where waits is not null;
create index job_awaiting on duly.job (deadline, id) where waits = 'event' and state = 'blocked';
create index job_unfit on duly.job (task, waits, waits_for, id) where waits in ('worker', 'signature');

-- The job that holds an idempotency key. The row is locked before the job is read.
create table duly.job_key (
    task   text collate "C" not null,
    key    text collate "C" not null,
    job_id bigint not null,
    primary key (task, key)
) {busy 100} {sqlite strict, without rowid};

-- Ended jobs are kept apart: the hot table stays small, and old rows are cheap to drop.
create table duly.history (
    id           bigint {postgres not null} {sqlite primary key},
    {ended_job_columns}
) /*[partitions] partition by range (ended_at) [partitions]*/ {sqlite strict};

{postgres create index history_id on duly.history (id);}
create index history_moved on duly.history (request) where request <> id;
create index history_ended on duly.history (ended_at);
create index history_schedule on duly.history (schedule_id, ended_at) where schedule_id is not null;

-- Dead letters. A retry moves the row back to the job table.
create table duly.failed (
    id           bigint primary key,
    {ended_job_columns}
) {sqlite strict};

create index failed_moved on duly.failed (request) where request <> id;
create index failed_ended on duly.failed (ended_at);
create index failed_until on duly.failed (result_until, ended_at);

-- Attempts that failed. A successful attempt is the job's row in the history.
create table duly.attempt (
    job_id     bigint not null,
    number     int not null,
    worker     bigint,
    fence      bigint not null,  -- fencing token
    started_at bigint not null,
    ended_at   bigint not null,
    outcome    text not null,  -- raised, timed out, lost, …
    reason     text not null,
    error      text,  -- message and traceback
    primary key (job_id, number, fence)
) {sqlite strict, without rowid};

create index attempt_ended on duly.attempt (ended_at);

create table duly.worker (
    id          bigint primary key,
    name        text not null,
    queues      text not null,  -- JSON list
    tasks       text not null,  -- JSON list
    started_at  bigint not null,
    lease_until bigint not null,  -- it counts as dead after this
    signatures  text not null default '{}',  -- versions of its tasks, as JSON
    slots       int not null default 0,  -- concurrency
    resources   text not null default '{}',  -- JSON
    isolates    boolean not null default false,  -- it can run a job in a process of its own
    host        text not null default '{}',  -- machine and process, as JSON
    version     text not null default '',  -- version of duly
    app         text not null default '',
    holder      text not null default '',
    running     int not null default 0,  -- jobs that it runs
    beat_at     bigint not null default 0,  -- last heartbeat
    told        text not null default 'run',  -- requested state: run, drain, stop or kill
    told_slots  int,  -- requested concurrency
    died        boolean not null default false  -- it ended without saying so, and another process noticed
) {busy 50} {sqlite strict};

{sqlite create index worker_lease on duly.worker (lease_until);}

-- Messages to the worker that runs a job, such as cancel.
create table duly.signal (
    job_id bigint primary key,
    what   text not null,  -- cancel
    reason text not null,
    at     bigint not null
) {busy 100} {sqlite strict};

create table duly.queue (
    name        text collate "C" primary key,
    paused      boolean not null,
    note        text not null,  -- why it is paused
    concurrency int,
    rate_count  int,  -- with rate_period: so many starts …
    rate_period bigint,  -- … in so many microseconds
    arrival     bigint not null default 0,  -- theoretical arrival time of the last job (GCRA)
    fair        boolean not null default false  -- tenants take turns
) {busy 50} {sqlite strict, without rowid};

{postgres
/*[partitions]
-- The name of a day partition.
create function duly.day_name(parent text, instant bigint) returns text
    language sql immutable
    as $$ select parent || '_' || to_char(date '1970-01-01' + floor(instant / 86400000000.0)::int, 'YYYYMMDD') $$;

-- Create a day partition as a table and attach it, which blocks no reader or writer. With a default
-- partition it would, so there is none. A role that may write rows needs no right to create tables.
create function duly.make_day(parent text, instant bigint) returns void
    language plpgsql security definer set search_path = duly, pg_temp
    as $$
declare
    day   bigint := floor(instant / 86400000000.0);
    child text := duly.day_name(parent, instant);
    key   text := case parent when 'fire' then 'due_at' else 'ended_at' end;
begin
    if to_regclass('duly.' || child) is not null then
        return;
    end if;
    execute format('create table duly.%I (like duly.%I including all)', child, parent);
    execute format('alter table duly.%I add constraint day check (%I >= %s and %I < %s)', child,
                   key, day * 86400000000, key, (day + 1) * 86400000000);
    execute format('alter table duly.%I attach partition duly.%I for values from (%s) to (%s)',
                   parent, child, day * 86400000000, (day + 1) * 86400000000);
    execute format('alter table duly.%I drop constraint day', child);
exception
    when duplicate_table or unique_violation or duplicate_object then
        return;  -- another process created it
end
$$;

-- The first days.
select duly.make_day(parent, duly.now_us() + ahead * 86400000000)
  from unnest(array['fire', 'history']) as parent, generate_series(0, 7) as ahead;

-- Drop day partitions that contain only old rows. Waits for readers for 200 ms at most; what is not
-- dropped now is dropped the next time.
create function duly.drop_days(parent text, age text, before bigint, at_most int)
    returns setof text
    language plpgsql security definer set search_path = duly, pg_temp
    as $$
declare
    child  text;
    young  boolean;
    gone   int := 0;
begin
    perform set_config('lock_timeout', '200ms', true);
    for child in
        select relid::regclass::text
          from pg_partition_tree(('duly.' || parent)::regclass)
         where isleaf
           and right(relid::regclass::text, 8)
               < to_char(date '1970-01-01' + (before / 86400000000)::int, 'YYYYMMDD')
         order by 1
    loop
        exit when gone >= at_most;
        execute format('select exists (select from %s where %I >= %s)', child, age, before) into young;
        continue when young;
        begin
            execute format('lock table %s', child);
        exception
            when lock_not_available then
                return;
        end;
        -- The transaction that held the lock may have written a new row, as a backfill does.
        execute format('select exists (select from %s where %I >= %s)', child, age, before) into young;
        continue when young;
        execute format('drop table %s', child);
        gone := gone + 1;
        return next child;
    end loop;
end
$$;

-- Create the missing partition for a row: its day, or, for a day in the past, one partition for the
-- whole gap, so that a backfill of ten years does not create thousands of tables. It has the name of
-- its last day.
create function duly.make_place(parent text, instant bigint, now bigint) returns void
    language plpgsql security definer set search_path = duly, pg_temp
    as $$
declare
    today  bigint := floor(now / 86400000000.0) * 86400000000;
    begins bigint;
    ends   bigint;
    child  text;
begin
    if instant >= today then
        perform duly.make_day(parent, instant);
        return;
    end if;
    select max(there.ends) filter (where there.ends <= instant),
           least(today, min(there.begins) filter (where there.begins > instant))
      into begins, ends
      from (select substring(bounds from $re$FROM \('(-?\d+)'\)$re$)::bigint as begins,
                   substring(bounds from $re$TO \('(-?\d+)'\)$re$)::bigint as ends
              from (select pg_get_expr(relpartbound, oid) as bounds
                      from pg_class
                      join pg_inherits on inhrelid = oid
                     where inhparent = ('duly.' || parent)::regclass) as place) as there;
    child := duly.day_name(parent, ends - 1);
    execute format('create table duly.%I (like duly.%I including all)', child, parent);
    execute format('alter table duly.%I attach partition duly.%I for values from (%s) to (%s)',
                   parent, child, coalesce(begins::text, 'minvalue'), ends);
exception
    when duplicate_table or unique_violation or duplicate_object or invalid_object_definition then
        return;  -- another process created it
end
$$;
[partitions]*/
}

-- A limit with one rendered name. The row is locked when a job enters or leaves, and the jobs inside
-- are counted from the holdings.
create table duly.named_limit (
    name        text collate "C" primary key,
    template    text collate "C" not null,
    concurrency int,
    rate_count  int,
    rate_period bigint,
    arrival     bigint not null,  -- theoretical arrival time of the last job (GCRA)
    opens_at    bigint,           -- when the next job may enter, if jobs wait
    used_at     bigint not null
) {busy 50} {sqlite strict};

create index named_limit_opens on duly.named_limit (opens_at) where opens_at is not null;
create index named_limit_used on duly.named_limit (used_at);

create table duly.holding (
    limit_name text collate "C" not null,
    job_id     bigint not null,
    primary key (limit_name, job_id)
) {busy 100} {sqlite strict};

create index holding_job on duly.holding (job_id);

-- The operator's rule for a limit, by name or template; it overrides the code.
create table duly.limit_rule (
    name        text collate "C" primary key,
    concurrency int,
    rate_count  int,
    rate_period bigint
) {sqlite strict};

create table duly.log (
    job_id  bigint not null,
    seq     bigint not null,  -- order of the lines
    attempt int not null,
    at      bigint not null,
    level   text not null,
    text    text not null,
    primary key (job_id, seq)
) {sqlite strict};

create index log_at on duly.log (at);

-- The progress that a job reports.
create table duly.note (
    job_id  bigint primary key,
    attempt int not null,
    at      bigint not null,
    percent double precision not null,
    message text not null,
    meta    text  -- values of the task, as JSON
) {sqlite strict};

create index note_at on duly.note (at);

-- The set of declared schedules that is in force for an app. The row is the lock for declaring.
create table duly.app (
    name  text collate "C" primary key,
    mark  text not null,
    since bigint not null
) {sqlite strict, without rowid};

-- Every set that nodes have announced for an app.
create table duly.declaration (
    app        text collate "C" not null,
    mark       text not null,
    first_seen bigint not null,
    seen_at    bigint not null,
    since      bigint not null, -- announced without a gap
    primary key (app, mark)
) {sqlite strict, without rowid};

-- Schedules as the code last declared them, to detect changes by operators.
create table duly.declared (
    name text collate "C" primary key,
    app  text collate "C" not null,
    plan text not null
) {sqlite strict, without rowid};

create index declared_app on duly.declared (app, name);

-- Files as they were last applied, to detect changes by operators. The row is the lock for applying,
-- and the number identifies a repeated call.
create table duly.applied (
    file   text collate "C" primary key,
    sheet  text,
    number bigint not null,
    at     bigint not null,
    who    text not null
) {sqlite strict, without rowid};

-- API tokens. Only the hash of the secret is kept.
create table duly.token (
    id           bigint primary key,
    name         text collate "C" not null,
    role         text not null,  -- viewer, operator or admin
    tenant       text,  -- null: all tenants
    hash         text collate "C" not null unique,  -- SHA-256 of the secret
    created_at   bigint not null,
    created_by   text not null,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint
) {sqlite strict};

create unique index token_name on duly.token (name) where revoked_at is null;

-- Browser sessions. The holder is the hash of the secret used to sign in: a token, or the server's
-- launch link.
create table duly.session (
    hash       text collate "C" primary key,
    holder     text collate "C" not null,
    expires_at bigint not null
) {sqlite strict};

-- The audit log. Each hash covers the row and the previous hash. The deed identifies a repeated write.
create table duly.audit (
    number   bigint primary key,
    at       bigint not null,
    who      text collate "C" not null,
    how      text not null,  -- person, token, command, http or program
    action   text not null,
    subject  text collate "C" not null,
    details  text not null,  -- JSON
    deed     bigint not null unique,  -- identifies a repeated write
    previous text not null,  -- hash of the entry before
    hash     text not null
) {sqlite strict};

create index audit_subject on duly.audit (subject, number);
create index audit_who on duly.audit (who, number);

-- The end of the hash chain. It is locked to add an entry, and reveals entries removed from the end.
create table duly.audit_head (
    id     int primary key,
    number bigint not null,
    hash   text not null
) {sqlite strict};

{postgres
create function duly.refuse_audit_change() returns trigger
    language plpgsql set search_path = duly, pg_temp
    as $$
begin
    raise exception 'the audit log is only ever added to: % was refused', lower(tg_op)
        using errcode = 'insufficient_privilege';
end
$$;

create trigger audit_stays before update or delete on duly.audit
    for each row execute function duly.refuse_audit_change();
create trigger audit_stays_whole before truncate on duly.audit
    for each statement execute function duly.refuse_audit_change();
}
{sqlite
create trigger duly_audit_is_not_changed before update on duly.audit begin
    select raise(abort, 'the audit log is only ever added to: update was refused');
end;

create trigger duly_audit_is_not_deleted before delete on duly.audit begin
    select raise(abort, 'the audit log is only ever added to: delete was refused');
end;
}

-- Problems that somebody has acknowledged, up to a time.
create table duly.acknowledgement (
    subject text collate "C" not null,
    kind    text collate "C" not null,
    until   bigint not null,
    who     text not null,
    at      bigint not null,
    note    text not null,
    primary key (subject, kind)
) {sqlite strict, without rowid};

-- Idempotency keys of callers, and the jobs they created. The mark is a digest of the request.
create table duly.once (
    who  text collate "C" not null,
    key  text collate "C" not null,
    mark text not null,
    jobs text not null,
    at   bigint not null,
    primary key (who, key)
) {sqlite strict, without rowid};

create index once_at on duly.once (at);

-- Running flows, and ended ones until they are pruned. The row of the outermost flow is the lock for
-- everything inside it.
create table duly.flow (
    id        bigint primary key,  -- the flow's job
    root      bigint not null,     -- the outermost flow, or itself
    result    int,                 -- the step whose result is the flow's
    steps     int not null,
    remaining int not null,        -- steps that have not ended
    failed    int not null,        -- steps that had to succeed and did not
    ending    text collate "C",    -- its state when no step runs any more …
    reason    text not null,       -- … and why
    opened_at bigint not null,
    ended_at  bigint
) {sqlite strict};

create index flow_ended on duly.flow (ended_at) where ended_at is not null;
create index flow_running on duly.flow (id) where ended_at is null;

-- A step is one job, or one job for each item of a list. Counters keep the cost of an end independent
-- of the size of the flow.
create table duly.step (
    flow       bigint not null,
    number     int not null,
    name       text not null,
    task       text not null,
    plan       text not null,
    follows    text not null,  -- the steps before it and after it
    leads_to   text not null,
    runs_when  text not null,
    if_failed  text not null,
    kind       text not null,
    wanted     int not null,   -- other steps use its result
    rescue     int not null,   -- it runs only after a failure
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
) {sqlite strict, without rowid};

-- The jobs of a step, and the results that later steps use.
create table duly.part (
    flow   bigint not null,
    step   int not null,
    part   int not null,
    job_id bigint not null,
    state  text collate "C" not null,
    result text,
    primary key (flow, step, part)
) {sqlite strict, without rowid};

-- Emitted events. The reactor handles each once.
create table duly.event (
    id        bigint primary key,
    name      text collate "C" not null,
    key       text collate "C",
    payload   text not null,  -- JSON
    submitter text not null,
    tenant    text not null,
    at        bigint not null,
    seen      boolean not null  -- whether the reactor has handled it
) {busy 100} {sqlite strict};

create index event_unseen on duly.event (at, id) where not seen;
create index event_name on duly.event (name, at);
create index event_key on duly.event (name, key, at) where key is not null;
create index event_at on duly.event (at);

-- Waiting steps to compare with recorded events: those that have just begun to wait (event 0), and
-- those whose event was handled. Whichever of step and event is committed later finds the other.
create table duly.unanswered (
    job_id   bigint not null,
    event_id bigint not null,
    primary key (job_id, event_id)
) {busy 100} {sqlite strict, without rowid};

{postgres
-- The lock of the reactor: one process handles events at a time.
create table duly.reactor (
    place int primary key
);
}

-- Schedules that react to events.
create index schedule_reacting on duly.schedule (id) where substr(rule, 1, 3) = 'on ';

-- Problems that somebody was or will be told of. The kind 'ping' remembers the last run of a schedule
-- that a receiver was told of.
create table duly.alert (
    kind        text collate "C" not null,
    subject     text collate "C" not null,
    problem     text not null,
    found_at    bigint not null,
    told_at     bigint,
    resolved_at bigint,
    primary key (kind, subject)
) {sqlite strict, without rowid};

-- The outbox of alerts. A row with next_at is still to be sent.
create table duly.alert_message (
    id          bigint primary key,
    destination text collate "C" not null,
    made_at     bigint not null,
    content     text not null,
    attempts    int not null,
    next_at     bigint,
    sent_at     bigint,
    error       text not null
) {sqlite strict};

create index alert_message_pending on duly.alert_message (destination, made_at, id)
    where next_at is not null;
create index alert_message_made on duly.alert_message (made_at);

-- The node that examines the store and delivers messages. At most one row: a lease.
create table duly.alert_turn (
    place   int primary key,
    holder  text collate "C" not null,
    until   bigint not null,
    told_at bigint
) {sqlite strict};

-- Counters of everything that has ended, in one row. They outlive the history.
create table duly.counter (
    place  int primary key,
    until  bigint not null,  -- what happened before it is counted
    counts text not null
) {sqlite strict};
