-- name: create_schema_table
create table if not exists pawl_schema (
    version integer primary key,
    name text not null,
    applied_at integer not null
) strict
