-- Who is known here, and who did what.

-- name: list_consumers
select c.name, c.cluster, c.group_name, c.created_at, p.actor, p.why, p.since,
       (select json_group_array(r.route) from (select s.route from pawl_scope s where s.consumer_id = c.id order by s.route) as r)
from pawl_consumer c
left join pawl_pause p on p.consumer_id = c.id
order by c.name

-- name: list_audit
-- An act on a record is joined to the record; one on an operation or a consumer has none.
select latest.*
from (
    select a.id, a.what, a.actor, a.why, a.at, coalesce(a.operation_id, 0), coalesce(q.id, 0), coalesce(p.topic, ''), p.topic_id,
           coalesce(p.partition, 0), coalesce(q.position_offset, 0), coalesce(i.outcome, 0), coalesce(i.reason, '')
    from pawl_audit a
    join pawl_consumer c on c.id = a.consumer_id
    left join pawl_operation_item i on i.id = a.item_id
    left join pawl_quarantine q on q.id = i.quarantine_id
    left join pawl_progress p on p.id = q.progress_id
    where c.name = :consumer
      and (:operation = 0 or a.operation_id = :operation)
      and a.at <= :as_of
    order by a.id desc
    limit :limit
) as latest
order by latest.id

-- name: records_of_key
select q.id
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
where c.name = :consumer
  and q.key_form = :form
  and q.key_id = :key
order by q.id desc
limit :limit

-- name: records_of_stream
select q.id
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
where c.name = :consumer
  and q.stream = :stream
order by q.id desc
limit :limit

-- name: list_audit_of_records
-- From the records to the acts: there may be many acts, on other records.
select latest.*
from (
    select a.id, a.what, a.actor, a.why, a.at, coalesce(a.operation_id, 0), q.id, p.topic, p.topic_id, p.partition,
           q.position_offset, coalesce(i.outcome, 0), coalesce(i.reason, '')
    from ({{records}}) as r
    cross join pawl_quarantine q on q.id = r.id
    cross join pawl_operation_item i on i.quarantine_id = q.id
    cross join pawl_audit a on a.item_id = i.id
    cross join pawl_progress p on p.id = q.progress_id
    where a.at <= :as_of
    order by a.id desc
    limit :limit
) as latest
order by latest.id

-- name: consumer_chain
select audit_length, audit_head
from pawl_consumer
where id = ?

-- name: operation_chain
select audit_length, audit_head
from pawl_operation
where id = ?

-- name: set_consumer_chain
update pawl_consumer
set audit_length = :length,
    audit_head = :head
where id = :id

-- name: set_operation_chain
update pawl_operation
set audit_length = :length,
    audit_head = :head
where id = :id

-- name: insert_act
insert into pawl_audit (consumer_id, operation_id, item_id, what, actor, why, at, detail, number, salt, digest, chain)
values (:consumer, :operation, :item, :what, :by, :why, :at, :detail, :number, :salt, :digest, :chain)

-- name: audit_trail
-- One statement, and so one moment: rows, and beside each what is kept of its chain elsewhere. A chain without rows has a
-- line; rows whose operation is not there have no head.
with consumer as (
    select id, audit_length, audit_head, audit_before
    from pawl_consumer
    where name = ?
), heads as (
    select 0 as operation_id, audit_length, audit_head
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
       coalesce(a.consumer_id, 0), coalesce(a.item_id, 0), coalesce(a.number, 0), coalesce(a.what, ''),
       coalesce(a.actor, ''), coalesce(a.why, ''), coalesce(a.at, 0), coalesce(a.detail, ''), a.salt, a.digest, a.chain,
       a.erased_at is not null, coalesce(a.old, 0)
from heads h
full join acts a on a.in_operation = h.operation_id
order by 1, a.number nulls first, a.id

-- name: audit_seals
-- Each seal with each of its heads, in the order in which they were hashed.
select s.id, s.consumer_id, s.number, s.sealed_at, s.acts, s.hash, s.chain, coalesce(h.operation_id, -1),
       coalesce(h.length, 0), h.head
from pawl_seal s
left join pawl_seal_head h on h.seal_id = s.id
where s.consumer_id = (select id from pawl_consumer where name = ?)
order by s.number, s.id, h.operation_id

-- name: last_seal
select id, consumer_id, number, sealed_at, acts, hash, chain
from pawl_seal
where consumer_id = ?
order by number desc
limit 1

-- name: unsealed_heads
-- The chains that have grown since they were last sealed.
select h.operation_id, h.audit_length, h.audit_head, h.sealed
from (
    select e.operation_id, e.audit_length, e.audit_head, coalesce((
        select max(s.length)
        from pawl_seal_head s
        where s.consumer_id = :consumer
          and s.operation_id = e.operation_id), 0) as sealed
    from (
        select 0 as operation_id, audit_length, audit_head
        from pawl_consumer
        where id = :consumer
        union all
        select id, audit_length, audit_head
        from pawl_operation
        where consumer_id = :consumer
    ) as e
) as h
where h.audit_length > h.sealed
order by h.operation_id

-- name: insert_seal
insert into pawl_seal (consumer_id, number, sealed_at, acts, hash, chain)
values (:consumer, :number, :at, :acts, :hash, :chain)
returning id

-- name: insert_seal_head
insert into pawl_seal_head (consumer_id, operation_id, length, head, seal_id)
values (:consumer, :operation, :length, :head, :seal)
