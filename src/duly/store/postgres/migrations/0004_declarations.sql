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
