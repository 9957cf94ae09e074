-- name: create_schema_table
create table if not exists pawl_schema (
    version integer primary key,
    name text not null,
    applied_at integer not null
) strict

-- name: record_migration
insert into pawl_schema (version, name, applied_at)
values (?, ?, ?)
