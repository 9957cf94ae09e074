-- Looking a server over. Nothing here writes.

-- name: inspect_server
-- What is kept back from those who are not superusers is not theirs to use; the second kind came with version 16.
select current_setting('server_version'),
       r.rolname::text,
       r.rolsuper,
       r.rolcreaterole,
       r.rolcreatedb,
       r.rolbypassrls,
       coalesce(nullif($1::text, ''), current_schema(), ''),
       coalesce(pg_catalog.has_schema_privilege(n.oid, 'create'), false),
       current_setting('max_connections')::integer
           - current_setting('superuser_reserved_connections')::integer
           - coalesce(current_setting('reserved_connections', true), '0')::integer,
       r.rolconnlimit,
       d.datconnlimit,
       (select count(*)
        from pg_catalog.pg_stat_activity as a
        where a.backend_type = 'client backend'
          and a.usesysid is distinct from r.oid)::integer,
       clock_timestamp()
from pg_catalog.pg_roles as r
join pg_catalog.pg_database as d on d.datname = current_database()
left join pg_catalog.pg_namespace as n on n.nspname = coalesce(nullif($1::text, ''), current_schema())
where r.rolname = current_user

-- name: inspect_rights
-- Those of the rights asked about that the role does not have. A table that is not there is another matter.
select q.name, q.privilege
from unnest($1::text[], $2::text[]) as q (name, privilege)
where to_regclass(q.name) is not null
  and not has_table_privilege(to_regclass(q.name), q.privilege)
order by q.name, q.privilege

-- name: inspect_backend
select pg_backend_pid()
