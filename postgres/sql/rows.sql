-- Tables of declared effects: what the catalog says about them, and the statements that are made of it for each table (see
-- table.go). Names are quoted and qualified when they get here, arrays come in key order.

-- name: table_columns
-- Named by schema, or where that is empty, as the search path has it. Of a domain, the type below it counts. A collation is
-- given where several texts are one to it.
select q.i,
       n.nspname::text,
       c.relname::text,
       c.relkind::text,
       pg_catalog.has_schema_privilege(n.oid, 'usage'),
       a.attname::text,
       base.nspname::text,
       base.typname::text,
       base.typtype::text,
       base.typmod,
       case when not o.collisdeterministic then pg_catalog.quote_ident(os.nspname) || '.' || pg_catalog.quote_ident(o.collname) else '' end,
       a.attnotnull,
       a.atthasdef or a.attidentity <> '' or d.typdefault is not null,
       a.attgenerated <> '' or a.attidentity = 'a',
       pg_catalog.has_column_privilege(c.oid, a.attnum, 'select'),
       pg_catalog.has_column_privilege(c.oid, a.attnum, 'insert'),
       pg_catalog.has_column_privilege(c.oid, a.attnum, 'update')
from unnest($1::text[], $2::text[]) with ordinality as q (schema, name, i)
join pg_catalog.pg_class as c on c.relname = q.name
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_catalog.pg_type as d on d.oid = a.atttypid
left join pg_catalog.pg_collation as o on o.oid = a.attcollation
left join pg_catalog.pg_namespace as os on os.oid = o.collnamespace
cross join lateral (
    with recursive below (oid, typmod) as (
        select a.atttypid, a.atttypmod
        union all
        select t.typbasetype, case below.typmod when -1 then t.typtypmod else below.typmod end
        from below
        join pg_catalog.pg_type as t on t.oid = below.oid and t.typtype = 'd'
    )
    select tn.nspname, t.typname, t.typtype, below.typmod
    from below
    join pg_catalog.pg_type as t on t.oid = below.oid and t.typtype <> 'd'
    join pg_catalog.pg_namespace as tn on tn.oid = t.typnamespace
) as base
where case q.schema when '' then pg_catalog.pg_table_is_visible(c.oid) else n.nspname = q.schema end

-- name: table_keys
-- The unique indexes that "on conflict" can name.
select q.i, x.indexrelid::bigint, a.attname::text
from unnest($1::text[], $2::text[]) with ordinality as q (schema, name, i)
join pg_catalog.pg_class as c on c.relname = q.name
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
join pg_catalog.pg_index as x on x.indrelid = c.oid
cross join unnest(x.indkey::smallint[]) with ordinality as k (attnum, place)
join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum = k.attnum
where case q.schema when '' then pg_catalog.pg_table_is_visible(c.oid) else n.nspname = q.schema end
  and x.indisunique
  and x.indisvalid
  and x.indimmediate
  and x.indpred is null
  and x.indexprs is null
  and k.place <= x.indnkeyatts

-- name: rows_plans
-- Made for the arrays at hand, until the end of the transaction: a generic plan, made while a table was small, would stay bad.
set local plan_cache_mode = force_custom_plan

-- name: rows_probe
-- Around statements that join an array to a table: each row is found by its key. Left to itself the planner reads a table of
-- fifty thousand rows for an array of two thousand.
select set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)

-- name: rows_hashjoin
set local enable_hashjoin to default

-- name: rows_mergejoin
set local enable_mergejoin to default

-- name: rows_read
-- "limit 1" keeps it one probe of the key's index per key, in the order of the keys: so are the locks.
select k.i, t.*
from {{keys}}
cross join lateral (
    select {{read}}
    from {{table}} as t
    where {{match}}
    limit 1
    for update
) as t

-- name: rows_look
-- Without locks, where a guard is compared when rows are written.
select k.i, t.*
from {{keys}}
cross join lateral (
    select {{read}}
    from {{table}} as t
    where {{match}}
    limit 1
) as t

-- name: rows_insert
insert into {{table}} ({{columns}})
select {{values}}
{{order}}

-- name: rows_put
-- What is there already is found by the count. Another constraint than the key's is the record's fault, so the key is named.
insert into {{table}} ({{columns}})
select {{values}}
{{order}}
on conflict ({{key}}) do nothing

-- name: rows_replace
-- In no order: the rows are locked since they were read.
update {{table}} as t
set {{set}}
from unnest({{arrays}}) as k ({{names}})
where {{match}}

-- name: rows_replace_guarded
-- Only what is as it was read. In the order of the arrays, by the plan that is made for them: should another be made, and two
-- transactions deadlock, they lock what they read from then on (contendedFor).
update {{table}} as t
set {{set}}
from unnest({{arrays}}, {{guard_array}}) as k ({{names}}, guard)
where {{match}}
  and t.{{guard}} = k.guard::{{guard_type}}

-- name: rows_add
insert into {{table}} as t ({{columns}})
select {{values}}
{{order}}
on conflict ({{key}}) {{sum}}

-- name: rows_lock
-- Before rows_delete, which takes its locks in any order. A statement of its own: one that waits does not see what it waited for.
select 1
from {{keys}}
cross join lateral (
    select 1
    from {{table}} as t
    where {{match}}
    limit 1
    for update
) as t

-- name: rows_delete
delete from {{table}} as t
using unnest({{key_arrays}}) as k ({{key_names}})
where {{match}}

-- name: rows_distinct
-- How many keys these are to the database: of 'A' and 'a' it may think as one (a uuid, a collation).
select count(*)
from (
    select distinct {{key_values}}
    from unnest({{key_arrays}}) as k ({{key_names}})
) as d
