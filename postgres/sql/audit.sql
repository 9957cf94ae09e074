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
      and ($3::smallint is null or q.key_form = $3::smallint and q.key_id = $4::uuid)
      and ($5::text is null or q.stream = $5::text)
    order by a.id desc
    limit $6::integer
) as latest
order by latest.id
