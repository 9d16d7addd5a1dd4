-- Who may use the HTTP side, who did what, and what has been acknowledged.

-- part: token
id, name, role, tenant, created_at, created_by, expires_at, revoked_at, last_used_at

-- part: audit
number, at, who, how, action, subject, details, deed, previous, hash

-- name: add_token
-- Nothing is added if its name is taken, or if it is there already.
insert into duly_token (id, name, role, tenant, hash, created_at, created_by, expires_at)
values (:id, :name, :role, :tenant, :hash, :now, :created_by, :expires_at)
    on conflict do nothing;

-- name: created_token
select {token}
  from duly_token
 where id = :id or (name = :name and revoked_at is null);

-- name: token_of_hash
-- A look into one index. What it finds is judged by who asks: so much work for a secret that is
-- valid, spent or made up.
select {token}, :now
  from duly_token
 where hash = :hash;

-- name: use_token
-- Of those who find that it is time to note it, one does.
update duly_token
   set last_used_at = :now
 where id = :id and (last_used_at is null or last_used_at <= :now - :coarse);

-- name: list_tokens
select {token}
  from duly_token
 where revoked_at is null or :revoked = 1
 order by revoked_at is not null, name, created_at desc, id;

-- name: revoke_token
update duly_token
   set revoked_at = :now
 where name = :name and revoked_at is null
returning {token};

-- name: begin_session
insert into duly_session (hash, holder, expires_at)
values (:hash, :holder, :now + :length)
    on conflict do nothing;

-- name: forget_sessions
-- People sign in a few times a day: whoever does removes what has expired.
delete from duly_session
 where expires_at <= :now;

-- name: session_holder
select holder
  from duly_session
 where hash = :hash and expires_at > :now;

-- name: end_session
delete from duly_session
 where hash = :hash;

-- name: hold_audit_head
-- The end of the chain, held until the transaction ends: who waits for it reads what was committed
-- meanwhile.
insert into duly_audit_head (id, number, hash)
values (1, 0, '')
    on conflict (id) do update set id = excluded.id
returning number, hash, :now;

-- name: add_audit
insert into duly_audit (number, at, who, how, action, subject, details, deed, previous, hash)
values (:number, :at, :who, :how, :action, :subject, :details, :deed, :previous, :hash)
    on conflict (deed) do nothing
returning number;

-- name: move_audit_head
update duly_audit_head
   set number = :number, hash = :hash
 where id = 1;

-- name: audit_of_deed
select {audit}
  from duly_audit
 where deed = :deed;

-- name: list_audit
select {audit}
  from duly_audit
 where number > :after and number < :before
 order by number desc
 limit :limit;

-- name: audit_by
select {audit}
  from duly_audit
 where who = :who and number > :after and number < :before
 order by number desc
 limit :limit;

-- name: audit_about
select {audit}
  from duly_audit
 where subject = :subject and number > :after and number < :before
   and (:who is null or who = :who)
 order by number desc
 limit :limit;

-- name: audit_chain
select {audit}
  from duly_audit
 where number > :after
 order by number
 limit :limit;

-- name: audit_head
select number, hash
  from duly_audit_head
 where id = 1;

-- name: acknowledge
-- What was acknowledged further stays so: the page of who says it again may be older.
insert into duly_acknowledgement as known (subject, kind, until, who, at, note)
values (:subject, :kind, :until, :who, :now, :note)
    on conflict (subject, kind) do update
   set until = max(known.until, excluded.until), who = excluded.who, at = excluded.at,
       note = excluded.note
returning subject, kind, until, who, at, note;

-- name: list_acknowledgements
select subject, kind, until, who, at, note
  from duly_acknowledgement
 order by at desc, subject, kind;

-- name: forget_acknowledgement
delete from duly_acknowledgement
 where subject = :subject and kind = :kind
returning subject;
