-- What was enqueued under a key: once, however often it is asked.

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
