-- A place for what was due before the ledger began, and for years of it.

/*[partitions]
-- Makes the place that a row is missing: its day, or, for a day that has passed, all that is missing
-- there up to the next one that is there. Somebody who backfills ten years must not leave thousands
-- of tables behind. It is named like its last day, and dropped like that.
create function duly.make_place(parent text, instant bigint, now bigint) returns void
    language plpgsql security definer set search_path = duly, pg_temp
    as $$
declare
    today  bigint := floor(now / 86400000000.0) * 86400000000;
    begins bigint;
    ends   bigint;
    child  text;
begin
    if instant >= today then
        perform duly.make_day(parent, instant);
        return;
    end if;
    select max(there.ends) filter (where there.ends <= instant),
           least(today, min(there.begins) filter (where there.begins > instant))
      into begins, ends
      from (select substring(bounds from $re$FROM \('(-?\d+)'\)$re$)::bigint as begins,
                   substring(bounds from $re$TO \('(-?\d+)'\)$re$)::bigint as ends
              from (select pg_get_expr(relpartbound, oid) as bounds
                      from pg_class
                      join pg_inherits on inhrelid = oid
                     where inhparent = ('duly.' || parent)::regclass) as place) as there;
    child := duly.day_name(parent, ends - 1);
    execute format('create table duly.%I (like duly.%I including all)', child, parent);
    execute format('alter table duly.%I attach partition duly.%I for values from (%s) to (%s)',
                   parent, child, coalesce(begins::text, 'minvalue'), ends);
exception
    when duplicate_table or unique_violation or duplicate_object or invalid_object_definition then
        return;  -- somebody else made it meanwhile
end
$$;
[partitions]*/
