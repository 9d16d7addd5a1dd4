-- name: hold_app
-- Lock the row of an app, so that two nodes cannot declare its schedules at once.
insert into duly.app (name, mark, since)
values (:app, '', 0)
    on conflict (name) do update set name = excluded.name
returning mark, since, {now};

-- name: known_declarations
select mark, first_seen, seen_at, since
  from duly.declaration
 where app = :app and mark {in :marks::text[]};

-- name: announce_declaration
insert into duly.declaration (app, mark, first_seen, seen_at, since)
values (:app, :mark, {now}, {now}, :since)
    on conflict (app, mark) do update set seen_at = excluded.seen_at, since = excluded.since;

-- name: set_app
update duly.app set mark = :mark, since = {now} where name = :app;

-- name: declared_plans
-- The declarations of an app, and those of other apps under the same names.
select name, app, plan
  from duly.declared
 where app = :app or name {in :names::text[]}
 order by name;

-- name: removed_declared
-- Schedules that code declares and that somebody has removed; of all apps if :app is empty.
select name, app
  from duly.declared as declared
 where (:app::text = '' or app = :app)
   and not exists (select 1 from duly.schedule as there where there.name = declared.name)
 order by name
 limit :limit;

-- name: keep_declared
insert into duly.declared (name, app, plan)
select given.name, :app, given.plan
  from {rows :rows as given (name text, plan text)}
 where true
    on conflict (name) do update set app = excluded.app, plan = excluded.plan;

-- name: forget_declared
delete from duly.declared where app = :app and name {in :names::text[]};

-- name: rename_schedule
update duly.schedule
   set name = :name, revision = revision + 1
 where name = :old and not exists (select 1 from duly.schedule as other where other.name = :name)
returning id;

-- name: hold_applied
-- Lock the row of a file, so that two processes cannot apply it at once.
insert into duly.applied (file, sheet, number, at, who)
values (:file, null, 0, {now}, '')
    on conflict (file) do update set file = excluded.file
returning sheet, number;

-- name: applied_sheet
select sheet
  from duly.applied
 where file = :file and sheet is not null;

-- name: keep_applied
update duly.applied
   set sheet = :sheet, number = :number, at = {now}, who = :who
 where file = :file;

-- name: list_limit_rules
-- The limits that operators and files have set, including those that no job has used yet.
select name, concurrency, rate_count, rate_period
  from duly.limit_rule
 order by name;
