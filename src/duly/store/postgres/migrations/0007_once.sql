-- What was enqueued under a key: once, however often it is asked.

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
