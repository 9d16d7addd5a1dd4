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
  from duly.lane_rule
 order by name;
