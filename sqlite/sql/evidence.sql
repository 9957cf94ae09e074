-- What was decided and why, in one scope, the latest first to be found. :text is what is asked for, :limit how many, :as_of as of
-- when.

-- name: scopes_of_consumer
select s.id
from pawl_scope s
join pawl_consumer c on c.id = s.consumer_id
where c.name = ?
order by s.id

-- name: evidence_by_key
-- Also of keys that nobody has claimed: what was held or set aside has evidence too.
select :key_form as key_form, :key_id as key_id

-- name: evidence_by_event
-- Also by a key that is the event id. What was decided after the moment may have been held at it, and comes last.
select :key_form as key_form, :key_id as key_id
union
select * from (
    select d.key_form, d.key_id
    from pawl_decision d
    where d.event_id = :text
      and d.scope_id = :scope
    order by d.processed_at > :as_of, d.processed_at desc
    limit :limit)

-- name: evidence_by_stream
-- Events of one batch have one time, so versions and positions tell which of them is later. Those that were decided or set
-- aside after the moment may have been held at it.
select * from (
    select d.key_form, d.key_id
    from pawl_decision d
    where d.stream = :text
      and d.scope_id = :scope
      and d.processed_at <= :as_of
    order by d.processed_at desc, coalesce(d.version, 0) desc, d.progress_id desc, d.position_offset desc
    limit :limit)
union
select * from (
    select d.key_form, d.key_id
    from pawl_decision d
    where d.stream = :text
      and d.scope_id = :scope
      and d.processed_at > :as_of
    order by d.processed_at
    limit :limit)
union
select * from (
    select q.key_form, q.key_id
    from pawl_quarantine q
    where q.scope_id = :scope
      and q.stream = :text
      and q.quarantined_at <= :as_of
    order by q.id desc
    limit :limit)
union
select * from (
    select q.key_form, q.key_id
    from pawl_quarantine q
    where q.scope_id = :scope
      and q.stream = :text
      and q.quarantined_at > :as_of
    order by q.id
    limit :limit)
union
select * from (
    select h.key_form, h.key_id
    from pawl_hold h
    where h.scope_id = :scope
      and h.stream = :text
      and h.held_at <= :as_of
    order by h.progress_id desc, h.position_offset desc
    limit :limit)
union
select * from (
    select e.key_form, e.key_id
    from pawl_early e
    where e.scope_id = :scope
      and e.stream = :text
      and e.held_at <= :as_of
    order by e.version desc, e.id desc
    limit :limit)

-- name: evidence
with keys as materialized (
    {{keys}}
), found as (
    select d.scope_id, d.progress_id, d.position_offset, d.key_form, d.key_id, d.key, d.fingerprint, d.accepted, d.outcome,
           d.reason, 1 as claim, d.mode, d.code_id, d.type_id, d.stream_type_id, d.stream, d.version, d.version_before,
           d.schema_version, d.event_id, d.message_id, d.correlation_id, d.causation_id, d.occurred_at, d.ingested_at,
           d.processed_at, d.row_affected, d.state_before, d.state_after,
           d.superseded_by
    from keys k
    cross join pawl_decision d on d.scope_id = :scope and d.key_form = k.key_form and d.key_id = k.key_id
    where d.processed_at <= :as_of
    union all
    select r.scope_id, r.progress_id, r.position_offset, r.key_form, r.key_id, coalesce(d.key, q.key, h.key, e.key), r.fingerprint,
           null, r.outcome, r.reason, 0, r.mode, r.code_id, null, null, coalesce(q.stream, h.stream, e.stream, d.stream), e.version, null,
           null, null, null, null, null, null, r.ingested_at, r.processed_at, null, null, null, null
    from (
        select * from (
            select r.scope_id, r.progress_id, r.position_offset, r.outcome, r.key_form, r.key_id, r.fingerprint, r.mode, r.code_id,
                   r.ingested_at, r.processed_at, r.reason
            from keys k
            cross join pawl_redelivery r on r.key_id = k.key_id and r.scope_id = :scope and r.key_form = k.key_form
            where r.processed_at <= :as_of
            order by r.processed_at desc, r.progress_id desc, r.position_offset desc
            limit :limit)
        union all
        select * from (
            select r.scope_id, r.progress_id, r.position_offset, r.outcome, r.key_form, r.key_id, r.fingerprint, r.mode, r.code_id,
                   r.ingested_at, r.processed_at, r.reason
            from keys k
            cross join pawl_past r on r.key_id = k.key_id and r.scope_id = :scope and r.key_form = k.key_form
            where exists (select 1 from pawl_past where scope_id = :scope and until > :as_of)
              and r.processed_at <= :as_of
              and r.until > :as_of
            order by r.until
            limit :limit)
    ) as r
    left join pawl_decision d on d.scope_id = r.scope_id and d.key_form = r.key_form and d.key_id = r.key_id
    left join pawl_quarantine q
      on q.scope_id = r.scope_id and q.progress_id = r.progress_id and q.position_offset = r.position_offset
    left join pawl_hold h
      on h.scope_id = r.scope_id and h.progress_id = r.progress_id and h.position_offset = r.position_offset
    left join pawl_early e
      on e.scope_id = r.scope_id and e.progress_id = r.progress_id and e.position_offset = r.position_offset
), latest as (
    select *
    from found
    order by processed_at desc, claim desc, coalesce(version, 0) desc, progress_id desc, position_offset desc
    limit :limit
)
select s.route, p.topic, p.topic_id, p.partition, f.position_offset, f.key_form, f.key_id, f.key,
       f.fingerprint, f.accepted, f.outcome, f.reason, f.claim, f.mode, code.name, type.name, kind.name,
       f.stream, f.version, f.version_before, f.schema_version, f.event_id, f.message_id, f.correlation_id, f.causation_id,
       f.occurred_at, f.ingested_at, f.processed_at, f.row_affected, f.state_before, f.state_after,
       f.superseded_by
from latest f
join pawl_scope s on s.id = f.scope_id
join pawl_progress p on p.id = f.progress_id
join pawl_name code on code.id = f.code_id
left join pawl_name type on type.id = f.type_id
left join pawl_name kind on kind.id = f.stream_type_id
order by f.processed_at, f.claim, coalesce(f.version, 0), f.progress_id, f.position_offset
