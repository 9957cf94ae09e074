-- Tables of declared effects: what the schema says about them, and the statements that are made of it for each table (see
-- table.go). Names are quoted when they get here.

-- name: table_kind
select type, strict
from pragma_table_list
where schema = 'main'
  and name = ?

-- name: table_columns
select name, type, "notnull", dflt_value is not null, pk, hidden
from pragma_table_xinfo(?)

-- name: table_keys
-- The unique indexes that "on conflict" can name. A column that is an expression has no name.
select l.name, coalesce(x.name, ''), x.coll
from pragma_index_list(?) as l
cross join pragma_index_xinfo(l.name) as x
where l."unique"
  and not l.partial
  and x.key

-- name: rows_read
-- The plus keeps the driver from reading a value as what the column is declared to be.
select {{read}}
from {{table}} as t
where {{match}}

-- name: rows_insert
-- "or abort", here and below: a constraint may be declared to ignore or replace.
insert or abort into {{table}} ({{columns}})
values ({{values}})

-- name: rows_put
insert or abort into {{table}} ({{columns}})
values ({{values}})
on conflict ({{key}}) do nothing

-- name: rows_replace
update or abort {{table}} as t
set {{set}}
where {{match}}

-- name: rows_delete
delete from {{table}} as t
where {{match}}
