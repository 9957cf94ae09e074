-- The check reads tables by itself, and asks Pawl nothing.

-- name: rows
select case_id, status, version, last_event_id
from case_projection

-- name: counts
select type, events
from events_by_type

-- name: deliveries
-- What was written down about each delivery in the state machine: the decision for its key, or why it made none.
select p.partition, d.position_offset,
       case d.outcome when 1 then 'applied' when 2 then 'duplicate' when 3 then 'stale' else 'outcome ' || d.outcome end
from pawl_decision d
join pawl_progress p on p.id = d.progress_id
join pawl_scope s on s.id = d.scope_id
where s.route = 'workflow'
union all
select p.partition, r.position_offset,
       case r.outcome when 2 then 'duplicate' when 7 then 'quarantined: ' || q.cause else 'outcome ' || r.outcome end
from pawl_redelivery r
join pawl_progress p on p.id = r.progress_id
join pawl_scope s on s.id = r.scope_id
left join pawl_quarantine q on q.scope_id = r.scope_id and q.progress_id = r.progress_id and q.position_offset = r.position_offset
where s.route = 'workflow'
