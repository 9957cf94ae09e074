-- name: create_schema_table
create table if not exists pawl_schema (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null
)

-- name: lock_migrations
-- Two processes that start together migrate one after the other. Held to the end of the transaction only.
select pg_advisory_xact_lock(7021797, 1)
