-- name: hold_app
-- The row of an app, held: whoever speaks for it does so alone.
insert into duly_app (name, mark, since)
values (:app, '', 0)
    on conflict (name) do update set name = excluded.name
returning mark, since, :now;

-- name: known_declarations
select mark, first_seen, seen_at, since
  from duly_declaration
 where app = :app and mark in (select value from json_each(:marks));

-- name: announce_declaration
insert into duly_declaration (app, mark, first_seen, seen_at, since)
values (:app, :mark, :now, :now, :since)
    on conflict (app, mark) do update set seen_at = excluded.seen_at, since = excluded.since;

-- name: set_app
update duly_app set mark = :mark, since = :now where name = :app;

-- name: declared_plans
-- What an app has declared, and what others have under the same names.
select name, app, plan
  from duly_declared
 where app = :app or name in (select value from json_each(:names))
 order by name;

-- name: removed_declared
-- Schedules that code declares and that somebody has removed: of one app, or of all.
select name, app
  from duly_declared as declared
 where (cast(:app as text) = '' or app = :app)
   and not exists (select 1 from duly_schedule as there where there.name = declared.name)
 order by name
 limit :limit;

-- name: keep_declared
insert into duly_declared (name, app, plan)
select value ->> 'name', :app, value ->> 'plan'
  from json_each(:rows)
 where true
    on conflict (name) do update set app = excluded.app, plan = excluded.plan;

-- name: forget_declared
delete from duly_declared where app = :app and name in (select value from json_each(:names));

-- name: rename_schedule
update duly_schedule
   set name = :name, revision = revision + 1
 where name = :old and not exists (select 1 from duly_schedule as other where other.name = :name)
returning id;
