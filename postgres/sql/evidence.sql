-- What was decided and why, the latest first to be found. pawl_decision has, beside its key, an index over hashes of stream and
-- scope by time, and one of event ids that are not the key itself: see docs/adr/0007-evidence-by-stream.md. $4 is the text
-- that is asked for, $5 how many, $6 as of when.

-- name: plain_search
-- A few probes of indexes from their ends, which the server may take for something worth compiling, or for a set that is better
-- read whole and sorted: both take longer than they do. So does planning, where several consumers are asked about.
select set_config('jit', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)

-- name: evidence_by_key
-- Also of keys that nobody has claimed: what was held or set aside has evidence too.
select $2::smallint as key_form, $3::uuid as key_id
where $4::text <> ''

-- name: evidence_by_event
-- An event id that is the key itself is not kept beside it. What was decided after the moment may have been held at it, and comes last.
select $2::smallint as key_form, $3::uuid as key_id
union
(select d.key_form, d.key_id
 from pawl_decision d
 where hashtextextended(d.event_id, 0) = hashtextextended($4::text, 0)
   and d.event_id = $4::text
   and d.scope_id = s.id
 order by d.processed_at > $6::timestamptz, d.processed_at desc
 limit $5::integer)

-- name: evidence_by_stream
-- Events of one batch have one time: all of those at the end are taken ("ties"), and told apart further below. Those that were
-- decided or set aside after the moment may have been held at it, the first of them most likely.
(select d.key_form, d.key_id
 from pawl_decision d
 where hashtextextended(d.stream, d.scope_id) = hashtextextended($4::text, s.id)
   and d.stream = $4::text
   and d.scope_id = s.id
   and d.processed_at <= $6::timestamptz
   and ($2::smallint is null or $3::uuid is null)
 order by d.processed_at desc
 fetch first ($5::integer) rows with ties)
union
(select d.key_form, d.key_id
 from pawl_decision d
 where hashtextextended(d.stream, d.scope_id) = hashtextextended($4::text, s.id)
   and d.stream = $4::text
   and d.scope_id = s.id
   and d.processed_at > $6::timestamptz
 order by d.processed_at
 limit $5::integer)
union
(select q.key_form, q.key_id
 from pawl_quarantine q
 where q.scope_id = s.id
   and q.stream = $4::text
   and q.quarantined_at <= $6::timestamptz
 order by q.id desc
 limit $5::integer)
union
(select q.key_form, q.key_id
 from pawl_quarantine q
 where q.scope_id = s.id
   and q.stream = $4::text
   and q.quarantined_at > $6::timestamptz
   and $6::timestamptz < '9999-12-31'
 order by q.id
 limit $5::integer)
union
(select h.key_form, h.key_id
 from pawl_hold h
 where h.scope_id = s.id
   and h.stream = $4::text
   and h.held_at <= $6::timestamptz
 order by h.progress_id desc, h.position_offset desc
 limit $5::integer)
union
(select e.key_form, e.key_id
 from pawl_early e
 where e.scope_id = s.id
   and e.stream = $4::text
   and e.held_at <= $6::timestamptz
 order by e.version desc, e.id desc
 limit $5::integer)

-- name: evidence
-- "limit 1" keeps it one probe of the primary key per key, whatever the statistics say. Mostly nothing was restated after the
-- moment, and keys are not looked for there.
select s.route, p.topic, p.topic_id, p.partition, f.position_offset, f.key_form, uuid_send(f.key_id), f.key,
       uuid_send(f.fingerprint), f.accepted::text, f.outcome, f.reason, f.claim, f.mode, code.name, type.name, kind.name,
       f.stream, f.version, f.version_before, f.schema_version, f.event_id, f.message_id, f.correlation_id, f.causation_id,
       f.occurred_at, f.ingested_at, f.processed_at, f.row_affected, f.state_before, f.state_after,
       f.superseded_by
from pawl_consumer c
join pawl_scope s on s.consumer_id = c.id
cross join lateral (
    select exists (select from pawl_past r where r.scope_id = s.id and r.until > $6::timestamptz) as since
) as restated
cross join lateral (
    with keys as (
        {{keys}}
    ), found as (
        select d.scope_id, d.progress_id, d.position_offset, d.key_form, d.key_id, d.key, d.fingerprint, d.accepted, d.outcome,
               d.reason, true as claim, d.mode, d.code_id, d.type_id, d.stream_type_id, d.stream, d.version, d.version_before,
               d.schema_version, d.event_id, d.message_id, d.correlation_id, d.causation_id, d.occurred_at, d.ingested_at,
               d.processed_at, d.row_affected, d.state_before::text as state_before, d.state_after::text as state_after,
               d.superseded_by
        from keys k
        cross join lateral (
            select *
            from pawl_decision d
            where d.scope_id = s.id
              and d.key_form = k.key_form
              and d.key_id = k.key_id
            limit 1
        ) as d
        where d.processed_at <= $6::timestamptz
        union all
        select r.scope_id, r.progress_id, r.position_offset, r.key_form, r.key_id, coalesce(d.key, q.key, h.key, e.key),
               r.fingerprint, null, r.outcome, r.reason, false, r.mode, r.code_id, null, null,
               coalesce(q.stream, h.stream, e.stream, d.stream), e.version, null,
               null, null, null, null, null, null, r.ingested_at, r.processed_at, null, null, null, null
        from keys k
        cross join lateral (
            (select r.scope_id, r.progress_id, r.position_offset, r.outcome, r.key_form, r.key_id, r.fingerprint, r.mode, r.code_id,
                    r.ingested_at, r.processed_at, r.reason
             from pawl_redelivery r
             where r.scope_id = s.id
               and r.key_form = k.key_form
               and r.key_id = k.key_id
               and r.processed_at <= $6::timestamptz
             order by r.processed_at desc
             fetch first ($5::integer) rows with ties)
            union all
            (select r.scope_id, r.progress_id, r.position_offset, r.outcome, r.key_form, r.key_id, r.fingerprint, r.mode, r.code_id,
                    r.ingested_at, r.processed_at, r.reason
             from pawl_past r
             where restated.since
               and r.scope_id = s.id
               and r.key_form = k.key_form
               and r.key_id = k.key_id
               and r.processed_at <= $6::timestamptz
               and r.until > $6::timestamptz
             order by r.until
             limit $5::integer)
        ) as r
        left join lateral (
            select d.key, d.stream
            from pawl_decision d
            where d.scope_id = r.scope_id
              and d.key_form = r.key_form
              and d.key_id = r.key_id
            limit 1
        ) as d on true
        left join pawl_quarantine q
          on q.scope_id = r.scope_id and q.progress_id = r.progress_id and q.position_offset = r.position_offset
        left join pawl_hold h
          on h.scope_id = r.scope_id and h.progress_id = r.progress_id and h.position_offset = r.position_offset
        left join pawl_early e
          on e.scope_id = r.scope_id and e.progress_id = r.progress_id and e.position_offset = r.position_offset
    )
    select *
    from found
    order by processed_at desc, claim desc, coalesce(version, 0) desc, progress_id desc, position_offset desc
    limit $5::integer
) as f
join pawl_progress p on p.id = f.progress_id
join pawl_name code on code.id = f.code_id
left join pawl_name type on type.id = f.type_id
left join pawl_name kind on kind.id = f.stream_type_id
where c.name = $1::text
order by f.processed_at, f.claim, coalesce(f.version, 0), f.progress_id, f.position_offset
