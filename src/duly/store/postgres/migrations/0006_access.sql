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
