-- name: alert_turn
select holder, until, told_at, {now} from duly.alert_turn;

-- name: take_alert_turn
-- A lease that ends later than a new one would was written by a clock that was ahead.
insert into duly.alert_turn as turn (place, holder, until)
select 0, :holder, now + :length::bigint from {clock} where true
    on conflict (place) do update
   set holder = excluded.holder, until = excluded.until
 where turn.holder = excluded.holder or turn.until <= {now} or turn.until > {now} + :length::bigint
returning holder, until, told_at, {now};

-- name: hold_alert_turn
-- Locks the turn until the transaction ends, if it is still this node's.
update duly.alert_turn
   set told_at = case when :tells::int = 1 then {now} else told_at end
 where holder = :holder and until > {now}
returning {now};

-- name: list_alerts
select problem, found_at, told_at, resolved_at
  from duly.alert
 order by kind, subject;

-- name: set_alerts
insert into duly.alert (kind, subject, problem, found_at, told_at, resolved_at)
select kind, subject, problem, found_at, told_at, resolved_at
  from {rows :rows as given (kind text, subject text, problem text, found_at bigint, told_at bigint, resolved_at bigint)}
 where true
    on conflict (kind, subject) do update
   set problem = excluded.problem, found_at = excluded.found_at, told_at = excluded.told_at,
       resolved_at = excluded.resolved_at;

-- name: close_alerts
delete from duly.alert
 where exists (select 1
                 from {rows :rows as given (kind text, subject text)}
                where given.kind = alert.kind and given.subject = alert.subject);

-- name: add_alert_messages
insert into duly.alert_message (id, destination, made_at, content, attempts, next_at, sent_at, error)
select id, destination, {now}, content, 0, {now}, null, ''
  from {rows :rows as given (id bigint, destination text, content text)}
 where true
    on conflict (id) do nothing
returning id;

-- name: due_alert_messages
-- The oldest message of each destination, if it is due: a later one waits for it. A moment that is
-- further away than any pause was written by a clock that was ahead.
select id, destination, made_at, content, attempts, next_at, sent_at, error
  from duly.alert_message as message
 where next_at is not null and destination {in :destinations::text[]}
   and (next_at <= {now} or next_at > {now} + :longest::bigint)
   and not exists (select 1
                     from duly.alert_message as earlier
                    where earlier.destination = message.destination and earlier.next_at is not null
                      and (earlier.made_at, earlier.id) < (message.made_at, message.id))
 order by made_at, id;

-- name: alert_message_sent
update duly.alert_message
   set sent_at = {now}, next_at = null, attempts = attempts + 1, error = ''
 where id = :id and sent_at is null
returning id;

-- name: alert_message_failed
-- After :pause it is sent again; without one, it is given up.
update duly.alert_message
   set next_at = {now} + :pause::bigint, attempts = attempts + 1, error = :error
 where id = :id and next_at is not null
returning id;

-- name: list_alert_messages
select id, destination, made_at, content, attempts, next_at, sent_at, error
  from duly.alert_message
 where :pending::int = 0 or next_at is not null
 order by made_at desc, id desc
 limit :limit;

-- name: prune_alert_messages
delete from duly.alert_message
 where id {in (select id from duly.alert_message
                where made_at < :before and next_at is null order by made_at limit :limit)}
returning id;

-- name: last_runs
-- Of each of these schedules: the job that ended last, and the one that failed last.
select name,
       (select history.id
          from duly.history as history
         where history.schedule_id = schedule.id and history.ended_at >= :since
           and history.state in ('succeeded', 'expired')
         order by history.ended_at desc
         limit 1),
       (select failed.id
          from duly.failed as failed
         where failed.schedule_id = schedule.id and failed.ended_at >= :since
         order by failed.ended_at desc
         limit 1)
  from duly.schedule
 where name {in :names::text[]};

-- name: not_started
-- Runs of schedules that were due more than :late ago and have never started, up to :most. Backfilled
-- jobs are left out, and those in paused queues: both wait on purpose.
select schedule.name, count(*), min(waiting.due_at), min(waiting.id)
  from (select schedule_id, due_at, id
          from duly.job
         where schedule_id is not null and request = id and parent is null and attempt = 0
           and (state = 'ready' or (state = 'blocked' and waits in ('worker', 'signature', 'limit')))
           and due_at <= {now} - :late::bigint
           and not exists (select 1 from duly.queue where queue.name = job.queue and paused)
         limit :most) as waiting
  join duly.schedule as schedule on schedule.id = waiting.schedule_id
 group by schedule.name
 order by 3, 1;

-- name: gone_workers
select id, name, host, beat_at
  from duly.worker
 where (died or (lease_until > 0 and lease_until <= {now})) and beat_at >= :since
 order by id;
