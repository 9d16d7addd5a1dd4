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
