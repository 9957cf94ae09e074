-- The check reads tables by itself, and asks Pawl nothing.

-- name: decisions
-- What became of each key.
select c.name, s.route, d.key_form, d.key_id, d.key, d.outcome
from pawl_decision d
join pawl_scope s on s.id = d.scope_id
join pawl_consumer c on c.id = s.consumer_id

-- name: deliveries
-- What was written down about each delivery: the decision for its key, or why it made none, or where it waits. What claims the key
-- of an event that has not come (its fingerprint is zero) is about no delivery.
select c.name, s.route, p.topic, p.partition, x.position_offset, x.what
from (
    select scope_id, progress_id, position_offset,
           case outcome when 1 then 'applied' when 2 then 'duplicate' when 3 then 'stale' when 4 then 'ignored' when 5 then 'superseded'
                else 'outcome ' || outcome end as what
    from pawl_decision
    where fingerprint <> zeroblob(16)
    union all
    select r.scope_id, r.progress_id, r.position_offset,
           case r.outcome when 1 then 'applied' when 2 then 'duplicate' when 3 then 'stale' when 4 then 'ignored' when 5 then 'superseded'
                when 6 then 'held: ' || case when h.id is not null then 'its stream waits' when e.id is not null then 'early' else 'kept nowhere' end
                when 7 then 'quarantined: ' || coalesce(q.cause, 'kept nowhere') else 'outcome ' || r.outcome end
    from pawl_redelivery r
    left join pawl_quarantine q
           on q.scope_id = r.scope_id and q.progress_id = r.progress_id and q.position_offset = r.position_offset
    left join pawl_hold h
           on h.scope_id = r.scope_id and h.progress_id = r.progress_id and h.position_offset = r.position_offset
    left join pawl_early e
           on e.scope_id = r.scope_id and e.progress_id = r.progress_id and e.position_offset = r.position_offset
) x
join pawl_progress p on p.id = x.progress_id
join pawl_scope s on s.id = x.scope_id
join pawl_consumer c on c.id = s.consumer_id

-- name: outcomes
select outcome, count(*) from pawl_decision where fingerprint <> zeroblob(16) group by outcome
union all
select outcome, count(*) from pawl_redelivery group by outcome
