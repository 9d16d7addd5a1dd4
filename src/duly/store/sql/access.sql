-- part: token
id, name, role, tenant, created_at, created_by, expires_at, revoked_at, last_used_at

-- part: audit
number, at, who, how, action, subject, details, deed, previous, hash

-- name: add_token
-- Nothing is added if the name is taken or the token exists.
insert into duly.token (id, name, role, tenant, hash, created_at, created_by, expires_at)
values (:id, :name, :role, :tenant, :hash, {now}, :created_by, :expires_at)
    on conflict do nothing;

-- name: created_token
select {token}
  from duly.token
 where id = :id or (name = :name and revoked_at is null);

-- name: token_of_hash
-- The caller judges the row: a valid, expired or unknown secret costs the same.
select {token}, {now}
  from duly.token
 where hash = :hash;

-- name: use_token
-- Of several processes that find it due, one updates it.
update duly.token
   set last_used_at = {now}
 where id = :id and (last_used_at is null or last_used_at <= {now} - :coarse::bigint);

-- name: list_tokens
select {token}
  from duly.token
 where revoked_at is null or :revoked::int = 1
 order by revoked_at is not null, name, created_at desc, id;

-- name: revoke_token
update duly.token
   set revoked_at = {now}
 where name = :name and revoked_at is null
returning {token};

-- name: begin_session
insert into duly.session (hash, holder, expires_at)
values (:hash, :holder, {now} + :length::bigint)
    on conflict do nothing;

-- name: forget_sessions
-- Called at each sign-in, which happens a few times a day.
delete from duly.session
 where expires_at <= {now};

-- name: session_holder
select holder
  from duly.session
 where hash = :hash and expires_at > {now};

-- name: end_session
delete from duly.session
 where hash = :hash;

-- name: hold_audit_head
-- Lock the end of the hash chain; a waiting transaction reads what was committed meanwhile.
insert into duly.audit_head (id, number, hash)
values (1, 0, '')
    on conflict (id) do update set id = excluded.id
returning number, hash, {now};

-- name: add_audit
insert into duly.audit (number, at, who, how, action, subject, details, deed, previous, hash)
values (:number, :at, :who, :how, :action, :subject, :details, :deed, :previous, :hash)
    on conflict (deed) do nothing
returning number;

-- name: move_audit_head
update duly.audit_head
   set number = :number, hash = :hash
 where id = 1;

-- name: audit_of_deed
select {audit}
  from duly.audit
 where deed = :deed;

-- name: list_audit
select {audit}
  from duly.audit
 where number > :after and number < :before
 order by number desc
 limit :limit;

-- name: audit_by
select {audit}
  from duly.audit
 where who = :who and number > :after and number < :before
 order by number desc
 limit :limit;

-- name: audit_about
select {audit}
  from duly.audit
 where subject = :subject and number > :after and number < :before
   and (:who::text is null or who = :who)
 order by number desc
 limit :limit;

-- name: audit_chain
select {audit}
  from duly.audit
 where number > :after
 order by number
 limit :limit;

-- name: audit_head
select number, hash
  from duly.audit_head
 where id = 1;

-- name: acknowledge
-- The later acknowledgement stays: a repeated click may come from an older page.
insert into duly.acknowledgement as known (subject, kind, until, who, at, note)
values (:subject, :kind, :until, :who, {now}, :note)
    on conflict (subject, kind) do update
   set until = {greatest}(known.until, excluded.until), who = excluded.who, at = excluded.at,
       note = excluded.note
returning subject, kind, until, who, at, note;

-- name: list_acknowledgements
select subject, kind, until, who, at, note
  from duly.acknowledgement
 order by at desc, subject, kind;

-- name: forget_acknowledgement
delete from duly.acknowledgement
 where subject = :subject and kind = :kind
returning subject;
