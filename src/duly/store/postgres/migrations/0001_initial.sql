-- Schedules, the ledger of their due moments, and the jobs that come from them.
-- An instant is a whole number: microseconds since 1970-01-01T00:00Z. No column has a default that
-- reads a clock.

create schema if not exists duly;

-- The database's own time, moving within a transaction too.
create function duly.now_us() returns bigint
    language sql volatile parallel safe
    as $$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

create sequence duly.id_block;

-- Who counts in a block of numbers that was given out: see confirm_ids.
create table duly.reservation (
    holder text collate "C" primary key,
    block  bigint not null,
    at     bigint not null
);

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
create index schedule_settled on duly.schedule (next_at) where settled_until > cursor;
create index schedule_awaiting on duly.schedule (awaiting) where awaiting is not null;
create index schedule_fault on duly.schedule (name) where fault is not null;
create index schedule_zone_data on duly.schedule (zone_data) include (id);

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
    task        text collate "C" not null,
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
create index job_moved on duly.job (request) where request <> id;
create index job_schedule on duly.job (schedule_id, due_at, id) where schedule_id is not null;
-- … without what somebody asked for: a backfill makes thousands of jobs that a fire need not look at.
create index job_clock on duly.job (schedule_id, due_at, id) where schedule_id is not null and request = id;

-- Who holds a key: its row is locked by whoever asks for the key, before the job is looked at.
create table duly.job_key (
    task   text collate "C" not null,
    key    text collate "C" not null,
    job_id bigint not null,
    primary key (task, key)
);

-- What has ended, apart from what lives: the hot table stays small, and old rows are cheap to drop.

create table duly.history (
    id          bigint not null,
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
    ended_at    bigint not null,
    result      text,
    error       text,
    request     bigint not null
) /*[partitions] partition by range (ended_at) [partitions]*/;

create index history_id on duly.history (id);
create index history_moved on duly.history (request) where request <> id;
create index history_ended on duly.history (ended_at);
create index history_schedule on duly.history (schedule_id, ended_at) where schedule_id is not null;

-- The dead letters: kept longer, and given another chance by moving them back.
create table duly.failed (
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
    ended_at    bigint not null,
    result      text,
    error       text,
    request     bigint not null
);

create index failed_moved on duly.failed (request) where request <> id;
create index failed_ended on duly.failed (ended_at);

-- Attempts that did not end their job well. One that did is the job's own row in the history.
create table duly.attempt (
    job_id     bigint not null,
    number     int not null,
    worker     bigint,
    fence      bigint not null,
    started_at bigint not null,
    ended_at   bigint not null,
    outcome    text not null,
    reason     text not null,
    error      text,
    primary key (job_id, number, fence)
);

create index attempt_ended on duly.attempt (ended_at);

create table duly.worker (
    id          bigint primary key,
    name        text not null,
    queues      text not null,
    tasks       text not null,
    started_at  bigint not null,
    lease_until bigint not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- What a worker is told about a job that it runs. Never an update of the job's own row.
create table duly.signal (
    job_id bigint primary key,
    what   text not null,
    reason text not null,
    at     bigint not null
);

create table duly.queue (
    name   text collate "C" primary key,
    paused boolean not null,
    note   text not null
);

/*[partitions]
-- The name of a day of a table that is kept by the day.
create function duly.day_name(parent text, instant bigint) returns text
    language sql immutable
    as $$ select parent || '_' || to_char(date '1970-01-01' + floor(instant / 86400000000.0)::int, 'YYYYMMDD') $$;

-- Makes a day: beside its table, and then attaches it, because that stops nobody who reads or
-- writes. There is no default day, because with one, attaching would.
-- Whoever may write rows may have a day made for them, without the right to make tables.
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
        return;  -- somebody else made it meanwhile
end
$$;

-- The first days, so that the first fire need not make its own.
select duly.make_day(parent, duly.now_us() + ahead * 86400000000)
  from unnest(array['fire', 'history']) as parent, generate_series(0, 7) as ahead;

-- Drops the days of a table in which nothing is younger than it should be. Does not wait for
-- readers for long: what is not dropped now is dropped the next time.
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
        -- Whoever was waited for may have written a row: a moment of long ago that is decided today.
        execute format('select exists (select from %s where %I >= %s)', child, age, before) into young;
        continue when young;
        execute format('drop table %s', child);
        gone := gone + 1;
        return next child;
    end loop;
end
$$;

-- Makes the place that a row is missing: its day, or, for a day that has passed, all that is missing
-- there up to the next one that is there. Somebody who backfills ten years must not leave thousands
-- of tables behind. It is named like its last day, and dropped like that.
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
        return;  -- somebody else made it meanwhile
end
$$;
[partitions]*/

-- What workers go by: limits, resources, turns among tenants, who they are and what they are told;
-- and a place for what jobs say while they run.

alter table duly.schedule
    add column limits text,
    add column needs text,
    add column terms text;

-- The shelf is where a worker looks: 0 normal, 1 low, 2 idle, 3 what has limits or needs resources
-- and is claimed with care, 4 what crashed with its worker and is run alone, 5 moments of schedules.
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
create index job_ready on duly.job (queue, shelf, rank, id) where state = 'ready';
-- The same by task, and by what is needed: for a worker that can run only some of what waits.
create index job_task on duly.job (queue, shelf, task, rank, id) where state = 'ready';
create index job_needs on duly.job (
    queue, task, (case when limits is null then '' else '+' end || coalesce(needs, '')), rank, id)
    where state = 'ready' and shelf = 3;
create index job_fair on duly.job (queue, shelf, tenant, rank, id) where state = 'ready' and fair;
-- Jobs that a worker runs. Not flows: they are running too, for weeks perhaps, and only their steps
-- are run by workers.
create index job_running on duly.job (queue, id) where worker is not null;
create index job_flow on duly.job (claimed_at, id) where waits = 'steps';
-- Deadlines that can still be missed: of jobs that have not begun, and of flows.
create index job_deadline on duly.job (deadline)
    where deadline is not null and (state <> 'running' or waits = 'steps');
create index job_unblocked on duly.job (schedule_id, due_at, id)
    where schedule_id is not null and (state <> 'blocked' or waits is not null);
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
    add column app text not null default '',
    add column holder text not null default '',
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

-- What applications declare in their code: who speaks for each of them, and what was said last.

-- The set of schedules that holds for an app, and since when. Its row is the lock of all the rest.
create table duly.app (
    name  text collate "C" primary key,
    mark  text not null,
    since bigint not null
);

-- Every set that was ever announced for an app, and when somebody last did.
create table duly.declaration (
    app        text collate "C" not null,
    mark       text not null,
    first_seen bigint not null,
    seen_at    bigint not null,
    since      bigint not null, -- announced without a pause
    primary key (app, mark)
);

-- Schedules as code declared them last: what a person has changed since is the difference.
create table duly.declared (
    name text collate "C" primary key,
    app  text collate "C" not null,
    plan text not null
);

create index declared_app on duly.declared (app, name);

-- Files as they were applied last: what a person has changed since is the difference. The row is the
-- lock of whoever applies one, and the number tells an application that is repeated.
create table duly.applied (
    file   text collate "C" primary key,
    sheet  text,
    number bigint not null,
    at     bigint not null,
    who    text not null
);

-- Who may use the HTTP side, who did what, and what somebody has said is not a problem.

-- Of the secret only its hash is kept. A name is free again when its token was revoked.
create table duly.token (
    id           bigint primary key,
    name         text collate "C" not null,
    role         text not null,
    tenant       text,
    hash         text collate "C" not null unique,
    created_at   bigint not null,
    created_by   text not null,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint
);

create unique index token_name on duly.token (name) where revoked_at is null;

-- A browser that signed in. The holder is the hash of the secret that it signed in with: a token's,
-- or that of the link which a server printed when it started.
create table duly.session (
    hash       text collate "C" primary key,
    holder     text collate "C" not null,
    expires_at bigint not null
);

-- Who did what. Each hash is made of the row and of the hash before it; the deed is the number under
-- which a write that is repeated is known.
create table duly.audit (
    number   bigint primary key,
    at       bigint not null,
    who      text collate "C" not null,
    how      text not null,
    action   text not null,
    subject  text collate "C" not null,
    details  text not null,
    deed     bigint not null unique,
    previous text not null,
    hash     text not null
);

create index audit_subject on duly.audit (subject, number);
create index audit_who on duly.audit (who, number);

-- The end of the chain, in one row. Who writes the next entry holds it, so the chain never forks; and
-- entries that vanish from the end are missed.
create table duly.audit_head (
    id     int primary key,
    number bigint not null,
    hash   text not null
);

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

-- What needs somebody and has been seen, as far as it had gone then.
create table duly.acknowledgement (
    subject text collate "C" not null,
    kind    text collate "C" not null,
    until   bigint not null,
    who     text not null,
    at      bigint not null,
    note    text not null,
    primary key (subject, kind)
);

-- Under which key jobs were enqueued, by whom, and which they are: who asks again gets the same.
-- The mark tells what was asked.
create table duly.once (
    who  text collate "C" not null,
    key  text collate "C" not null,
    mark text not null,
    jobs text not null,
    at   bigint not null,
    primary key (who, key)
);

create index once_at on duly.once (at);

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

-- Steps that wait for an event and are to be compared with the events that are written down: those
-- that have just begun to wait (event 0), and those for which an event has come. A step is written
-- here together with itself, and an event when it is seen: whichever of the two is committed later
-- finds the other.
create table duly.unanswered (
    job_id   bigint not null,
    event_id bigint not null,
    primary key (job_id, event_id)
);

-- One looks at events at a time: whoever holds the row.
create table duly.reactor (
    place int primary key
);

-- Those that events make due: found without reading all the others.
create index schedule_reacting on duly.schedule (id) where left(rule, 3) = 'on ';
