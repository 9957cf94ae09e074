-- Introducing a consumer to the database.

-- name: has_schema
select count(*)
from sqlite_schema
where type = 'table'
  and name = 'pawl_schema'

-- name: schema_version
select coalesce(max(version), 0)
from pawl_schema

-- name: insert_consumer
insert into pawl_consumer (name, cluster, group_name, created_at)
values (:name, :cluster, :group, :now)
on conflict (name) do nothing

-- name: read_consumer
select id, cluster, group_name
from pawl_consumer
where name = ?

-- name: find_scope
select id
from pawl_scope
where consumer_id = :consumer
  and route = :route

-- name: insert_scope
insert into pawl_scope (consumer_id, route, created_at)
values (:consumer, :route, :now)
returning id

-- name: rename_scope
-- Takes the earlier name's claims along.
update pawl_scope
set route = :route
where id = :id
