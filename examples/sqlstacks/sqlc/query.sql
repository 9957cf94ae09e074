-- name: ApplyOrder :execrows
-- The guard is in the statement: a version that is not newer changes no row.
insert into orders (id, status, total_cents, version, changes)
values ($1, $2, $3, $4, 1)
on conflict (id) do update
set status      = excluded.status,
    total_cents = excluded.total_cents,
    version     = excluded.version,
    changes     = orders.changes + 1
where orders.version < excluded.version;
