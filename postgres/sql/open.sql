-- Introducing a consumer to the database.

-- name: settings
select current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('synchronous_commit'),
       current_setting('transaction_read_only'),
       pg_is_in_recovery()

-- name: schema_version
select coalesce(max(version), 0)
from pawl_schema

-- name: insert_consumer
insert into pawl_consumer (name, cluster, group_name, created_at)
values ($1::text, $2::text, $3::text, $4::timestamptz)
on conflict (name) do nothing

-- name: read_consumer
select id, cluster, group_name
from pawl_consumer
where name = $1::text

-- name: rename_scope
-- Takes the earlier name's claims along, unless the new name has begun a history of its own.
update pawl_scope
set route = $2::text
where consumer_id = $1::integer
  and route = $3::text
  and not exists (select from pawl_scope where consumer_id = $1::integer and route = $2::text)

-- name: insert_scope
insert into pawl_scope (consumer_id, route, created_at)
values ($1::integer, $2::text, $3::timestamptz)
on conflict (consumer_id, route) do nothing

-- name: read_scopes
select id, route
from pawl_scope
where consumer_id = $1::integer

-- name: insert_names
insert into pawl_name (name)
select name from unnest($1::text[]) as n (name)
order by name
on conflict (name) do nothing

-- name: read_names
select id, name
from pawl_name
where name = any ($1::text[])
