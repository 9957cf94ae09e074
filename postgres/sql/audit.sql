-- Who is known here, and who did what.

-- name: list_consumers
select c.name, c.cluster, c.group_name, c.created_at, p.actor, p.why, p.since,
       (select coalesce(json_agg(s.route order by s.route), '[]') from pawl_scope s where s.consumer_id = c.id)::text
from pawl_consumer c
left join pawl_pause p on p.consumer_id = c.id
order by c.name

-- name: list_audit
-- An act on a record is joined to the record; one on an operation or a consumer has none.
select latest.*
from (
    select a.id, a.what, a.actor, a.why, a.at, coalesce(a.operation_id, 0), coalesce(q.id, 0), coalesce(p.topic, ''),
           coalesce(p.topic_id, '00000000-0000-0000-0000-000000000000'), coalesce(p.partition, 0), coalesce(q.position_offset, 0),
           coalesce(i.outcome, 0), coalesce(i.reason, '')
    from pawl_audit a
    join pawl_consumer c on c.id = a.consumer_id
    left join pawl_operation_item i on i.id = a.item_id
    left join pawl_quarantine q on q.id = i.quarantine_id
    left join pawl_progress p on p.id = q.progress_id
    where c.name = $1::text
      and ($2::bigint = 0 or a.operation_id = $2::bigint)
      and a.at <= $3::timestamptz
    order by a.id desc
    limit $4::integer
) as latest
order by latest.id

-- name: records_of_key
select q.id, q.progress_id, q.position_offset
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
where s.consumer_id = c.id
  and q.key_form = $3::smallint
  and q.key_id = $4::uuid
  and $2::text = ''
order by q.id desc
limit $6::integer

-- name: records_of_stream
select q.*
from pawl_scope s
cross join lateral (
    select q.id, q.progress_id, q.position_offset
    from pawl_quarantine q
    where q.scope_id = s.id
      and q.stream = $2::text
      and ($3::smallint is null or $4::uuid is null)
    order by q.id desc
    limit $6::integer
) as q
where s.consumer_id = c.id

-- name: list_audit_of_records
-- From the records to the acts: there may be many acts, on other records.
select latest.*
from (
    select a.id, a.what, a.actor, a.why, a.at, coalesce(a.operation_id, 0), q.id as quarantine_id, p.topic, p.topic_id, p.partition, q.position_offset,
           coalesce(i.outcome, 0), coalesce(i.reason, '')
    from pawl_consumer c
    cross join lateral (
        {{records}}
    ) as q
    join pawl_operation_item i on i.quarantine_id = q.id
    join pawl_audit a on a.item_id = i.id
    join pawl_progress p on p.id = q.progress_id
    where c.name = $1::text
      and a.at <= $5::timestamptz
    order by a.id desc
    limit $6::integer
) as latest
order by latest.id

-- name: audit_trail
-- One statement, and so one moment: rows, and beside each what is kept of its chain elsewhere. A chain without rows has a
-- line; rows whose operation is not there have no head.
with consumer as (
    select id, audit_length, audit_head, audit_before
    from pawl_consumer
    where name = $1::text
), heads as (
    select 0::bigint as operation_id, audit_length, audit_head
    from consumer
    union all
    select o.id, o.audit_length, o.audit_head
    from pawl_operation o
    join consumer c on c.id = o.consumer_id
), acts as (
    select a.*, coalesce(a.operation_id, 0) as in_operation, a.id <= c.audit_before as old
    from pawl_audit a
    join consumer c on c.id = a.consumer_id
)
select coalesce(h.operation_id, a.in_operation), coalesce(h.audit_length, -1), h.audit_head, coalesce(a.id, 0),
       coalesce(a.consumer_id, 0)::bigint, coalesce(a.item_id, 0), coalesce(a.number, 0), coalesce(a.what, ''),
       coalesce(a.actor, ''), coalesce(a.why, ''), a.at, coalesce(a.detail::text, ''), a.salt, a.digest, a.chain,
       a.erased_at is not null, coalesce(a.old, false)
from heads h
full join acts a on a.in_operation = h.operation_id
order by 1, a.number nulls first, a.id

-- name: audit_seals
-- Each seal with each of its heads, in the order in which they were hashed.
select s.id, s.consumer_id::bigint, s.number, s.sealed_at, s.acts, s.hash, s.chain,
       coalesce(h.operation_id, -1), coalesce(h.length, 0), h.head
from pawl_seal s
left join pawl_seal_head h on h.seal_id = s.id
where s.consumer_id = (select id from pawl_consumer where name = $1::text)
order by s.number, s.id, h.operation_id

-- name: last_seal
select id, consumer_id::bigint, number, sealed_at, acts, hash, chain
from pawl_seal
where consumer_id = $1::integer
order by number desc
limit 1

-- name: unsealed_heads
-- The chains that have grown since they were last sealed.
select h.operation_id, h.audit_length, h.audit_head, h.sealed
from (
    select e.operation_id, e.audit_length, e.audit_head, coalesce((
        select max(s.length)
        from pawl_seal_head s
        where s.consumer_id = $1::integer
          and s.operation_id = e.operation_id), 0) as sealed
    from (
        select 0::bigint as operation_id, audit_length, audit_head
        from pawl_consumer
        where id = $1::integer
        union all
        select id, audit_length, audit_head
        from pawl_operation
        where consumer_id = $1::integer
    ) as e
) as h
where h.audit_length > h.sealed
order by h.operation_id

-- name: insert_seal
insert into pawl_seal (consumer_id, number, sealed_at, acts, hash, chain)
values ($1::integer, $2::bigint, $3::timestamptz, $4::bigint, $5::bytea, $6::bytea)
returning id

-- name: insert_seal_head
insert into pawl_seal_head (consumer_id, operation_id, length, head, seal_id)
values ($1::integer, $2::bigint, $3::bigint, $4::bytea, $5::bigint)
