-- What a doctor asks. It changes nothing.

-- name: inspect
select current_setting('server_version'),
       pg_is_in_recovery(),
       current_setting('transaction_read_only') = 'on',
       current_setting('fsync') = 'on',
       current_setting('full_page_writes') = 'on',
       current_setting('synchronous_commit'),
       current_setting('max_connections')::integer,
       (select count(*) from pg_stat_activity where backend_type = 'client backend')::integer,
       (select r.rolsuper from pg_roles r where r.rolname = current_user),
       coalesce(has_schema_privilege(current_schema(), 'create'), false),
       clock_timestamp()

-- name: rights_lacking
-- The tables of Pawl that this role may not work with.
select n.nspname || '.' || c.relname
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid in (select to_regclass(t.name) from unnest($1::text[]) as t (name))
  and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert'))
order by 1
