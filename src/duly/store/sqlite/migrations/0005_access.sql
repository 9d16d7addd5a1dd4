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
