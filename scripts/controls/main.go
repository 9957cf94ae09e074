// Controls removes Pawl's protections one by one, in a copy of the tree, and sees that a named test fails for each: a test
// that still passes without the protection proves nothing. Run it with make controls, which starts the services. Arguments
// are part of a control's name: "storm" runs those of the storms, "planted" the ten classical bugs.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// control is one protection and what is left when it is removed.
type control struct {
	protection string
	file       string
	old, new   string // old must occur exactly once
	pkg, run   string
}

var controls = []control{
	{"claim is written", "postgres/apply.go", `add("insert_decision", fault.Claimed, b.decided, func(`, `add("insert_decision", fault.Claimed, nil, func(`, "./test", "TestEveryCrashLosesAndDoublesNothing/pgx/record"},
	{"a claim comes with its effect", "decide.go", `return st.section.call(ctx, s.Tx(), st.at) })`, `return nil })`, "./test", "TestEveryCrashLosesAndDoublesNothing/pgx/record"},
	{"claim is unique (PostgreSQL)", "postgres/migration/001_core.sql", `    primary key (scope_id, key_form, key_id)
);
comment on column pawl_decision.key_form`, `    unique (scope_id, key_form, key_id, progress_id, position_offset)
);
comment on column pawl_decision.key_form`, "./postgres", "TestConformancePgx/race"},
	{"claim is by scope", "postgres/sql/apply.sql", `    where scope_id = k.scope_id
`, `    where scope_id is not null
`, "./postgres", "TestConformancePgx/apply"},
	{"fence (PostgreSQL)", "postgres/migration/009_deaths.sql", `      and epoch = p_epoch
      and owner = p_token
`, ``, "./postgres", "TestConformancePgx/fence"},
	{"fence: epoch (PostgreSQL)", "postgres/migration/009_deaths.sql", `      and epoch = p_epoch
`, ``, "./postgres", "TestConformancePgx/fence"},
	{"fence: epoch (SQLite)", "sqlite/sql/apply.sql", `  and epoch = :epoch
`, ``, "./sqlite", "TestStore/fence"},
	{"seq (PostgreSQL)", "postgres/migration/009_deaths.sql", `      and seq >= p_seq
`, ``, "./postgres", "TestConformancePgx/fence"},
	{"seq (SQLite)", "sqlite/sql/apply.sql", `  and seq >= :seq
`, ``, "./sqlite", "TestStore/fence"},
	{"fence raises, and does not merely say", "postgres/migration/009_deaths.sql", `    raise exception 'pawl: epoch is %, owner holds %', v_epoch, p_epoch using errcode = 'PW001';`, `    return 0;`, "./postgres", "TestConformancePgx/fence"},
	{"fence: token (PostgreSQL)", "postgres/migration/009_deaths.sql", `      and owner = p_token
`, ``, "./postgres", "TestConformancePgx/fence"},
	{"fence: token (SQLite)", "sqlite/sql/apply.sql", `  and owner = :token
`, ``, "./sqlite", "TestStore/fence"},
	{"received: what a former owner had in hand is not (PostgreSQL)", "postgres/sql/progress.sql", `    received_offset = next_offset,
`, ``, "./postgres", "TestConformancePgx/acquire"},
	{"received: what a former owner had in hand is not (SQLite)", "sqlite/sql/progress.sql", `    received_offset = next_offset,
`, ``, "./sqlite", "TestStore/acquire"},
	{"received: as of the turn to commit", "progress.go", `return p.marks.FrontierAfter(offsets), p.marks.Received()`, `return p.marks.FrontierAfter(offsets), p.marks.FrontierAfter(offsets)`, ".", "TestTheStoreIsToldHowFarWasReceived"},
	{"evidence: what was held then (PostgreSQL)", "postgres/sql/evidence.sql", `               and r.until > $6::timestamptz
`, `               and false
`, "./postgres", "TestConformancePgx/evidence"},
	{"evidence: what was held then (SQLite)", "sqlite/sql/evidence.sql", `              and r.until > :as_of
`, `              and false
`, "./sqlite", "TestStore/evidence"},
	{"evidence: of one batch, the latest (PostgreSQL)", "postgres/sql/evidence.sql", ` order by d.processed_at desc
 fetch first ($5::integer) rows with ties)`, ` order by d.processed_at desc
 limit $5::integer)`, "./postgres", "TestConformancePgx/evidence"},
	{"evidence: of one batch, the latest (SQLite)", "sqlite/sql/evidence.sql", `    order by d.processed_at desc, coalesce(d.version, 0) desc, d.progress_id desc, d.position_offset desc
    limit :limit)`, `    order by d.processed_at desc
    limit :limit)`, "./sqlite", "TestStore/evidence"},
	{"evidence: what was held at the moment", "sqlite/sql/evidence.sql", `      and d.processed_at > :as_of
`, `      and d.processed_at < 0
`, "./sqlite", "TestStore/evidence"},
	{"the answer is looked for behind what changed nothing", "cmd/pawl/explain.go", `if err == nil && q.limit < lookedAt && h.isOpen() {`, `if false {`, "./cmd/pawl", "TestTheAnswerIsLookedForBehindWhatChangedNothing"},
	{"the audit is sealed by time", "runner.go", `	r.work.Go(func() { r.sealLoop(readCtx) })
`, ``, ".", "TestWhatOperatorsDidIsSealedByTime"},
	{"fingerprint", "decide.go", `case p.Accepts(st.Fingerprint):`, `case true:`, ".", "TestOtherContentUnderTheSameKeyIsAConflict"},
	{"fingerprint within a batch", "decide.go", `same := first.Fingerprint == st.Fingerprint`, `same := true`, ".", "TestOtherContentUnderTheSameKeyIsAConflict"},
	{"offset follows the effects", "progress.go", `next = p.marks.Frontier()`, `next = p.marks.Received()`, ".", "TestTheCommittedOffsetNeverLeadsTheEffects"},
	{"an offset is not one too far", "progress.go", `next = p.marks.Frontier()`, `next = p.marks.Frontier() + 1`, ".", "TestTheCommittedOffsetNeverLeadsTheEffects"},
	{"frontier stops at the unsettled", "internal/watermark/watermark.go", `		return t.pending[0].offset
`, `		return t.pending[len(t.pending)-1].offset
`, "./internal/watermark", "TestFrontier"},
	{"unknown commit is resolved, not retried", "postgres/apply.go", `		case seq == o.Seq:`, `		case true:`, "./test", "TestACommitWhoseAnswerIsLost"},
	{"unknown commit is resolved, not believed", "postgres/apply.go", `	return s.resolve(ctx, o, err)
`, `	return o.Seq + 1, nil
`, "./test", "TestACommitWhoseAnswerIsLost"},
	{"a refused record is undone", "decide.go", `	if dirty {
		return s.Undo(ctx)
	}`, ``, ".", "TestWhatAHandlerReturns"},
	{"a hold references its stream", "postgres/migration/003_keep.sql", `    unique (scope_id, progress_id, position_offset),
    constraint pawl_hold_stream_fkey foreign key (scope_id, stream) references pawl_stream (scope_id, stream)
`, `    unique (scope_id, progress_id, position_offset)
`, "./postgres", "TestConformancePgx/hold"},
	{"nothing is released past a blocker (PostgreSQL)", "postgres/keep.go", `stmts = append(stmts, stmt{sql: s.query["turn"], args: []any{d.Kept.Hold}})`, ``, "./postgres", "TestConformancePgx/hold"},
	{"a quarantined record is settled once (PostgreSQL)", "postgres/migration/003_keep.sql", `        raise exception 'pawl: % is not open in quarantine', p_quarantine using errcode = 'PW004';
    end if;

    update pawl_stream`, `    end if;

    update pawl_stream`, "./postgres", "TestConformancePgx/kept"},
	{"what is kept is settled once (SQLite)", "sqlite/keep.go", `if n, err := result.RowsAffected(); err != nil || n != 1 {`, `if n, err := result.RowsAffected(); err != nil || n > 1 {`, "./sqlite", "TestStore/kept"},
	{"a stream passes to the next blocker", "postgres/migration/003_keep.sql", `and status = 1 and blocks)`, `and status = 0 and blocks)`, "./postgres", "TestConformancePgx/kept"},
	{"released records keep their order in their stream", "stream.go", `steps[i-1].Record.Offset > st.Record.Offset`, `true`, "./test", "TestReleasedRecordsKeepTheirOrderWhateverTheBatch"},
	{"what waits behind a dropped task is dropped", "task.go", `	b.l.dropWaiting()
`, ``, "./test", "TestWhatIsDroppedIsNotOvertaken"},
	{"a task that is refused is dropped", "bundle.go", `	case errors.Is(err, ErrNotKept):
		b.dropKept()
		return 0, nil

`, ``, "./test", "TestWhatIsDroppedIsNotOvertaken"},
	{"nothing is decided behind a record that a batch rejects", "decide.go", `here := !st.fixed && st.Prior == nil && st.Outcome != Held`, `here := st.Outcome == Applied`, "./test", "TestABatchDecidesNothingBehindARejectedRecord"},
	{"nothing is applied behind a record that a batch rejects", "decide.go", `return d.blockBehind(steps)`, `return nil`, "./test", "TestAnyInterleaving.*/sqlite,_order_0,_batched_true"},
	{"what is behind a blocked stream waits", "decide.go", `	st.Outcome, st.Reason = Held, "its stream is blocked"
	return true`, `	return false`, "./test", "TestAnyInterleaving.*/sqlite,_order_0,_batched_false"},
	{"tasks are in the order of their partitions", "kept.go", `cmp.Compare(a.Record.Offset, b.Record.Offset)`, `cmp.Compare(b.Record.Offset, a.Record.Offset)`, "./test", "TestABlockedStreamIsHeldAndReleasedInOrder/sqlite"},
	{"an edit does not make a record another's", "task.go", `			if other { // whatever`, `			if false { // whatever`, "./test", "TestAnEditDoesNotMakeARecordAnothers"},
	{"a route that left a topic has no tasks there", "task.go", `if !slices.Contains(l.routes, t.Route) {`, `if false {`, "./test", "TestWhatIsKeptForARouteThatLeftItsTopicWaits"},
	{"a lane that was stopped sorts nothing", "lane.go", `		l.decode(&b, cut)
		l.mu.Lock()
		if l.stopped {`, `		l.decode(&b, cut)
		l.mu.Lock()
		if false {`, "./test", "TestAPartitionMayBeLostWhileItsRecordsAreDecoded"},
	{"an operation stops after its canary", "postgres/migration/006_audit.sql", `when done + 1 = canary then 'canary' else state end`, `else state end`, "./test", "TestAStormOfPoisonIsClearedInBulk"},
	{"a pause is of one consumer", "postgres/sql/orders.sql", `from pawl_pause
where consumer_id = $1::integer`, `from pawl_pause
where consumer_id = consumer_id + 0 * $1::integer`, "./test", "TestTwoConsumersOnOneDatabaseDoNotMeet"},
	{"a set-aside record keeps its bytes", "postgres/columns.go", `w.recordKey[i], w.value[i] = d.Record.Key, d.Record.Value`, `w.recordKey[i] = d.Record.Key`, "./postgres", "TestConformancePgx/quarantine"},
	{"a handler cannot commit by text", "postgres/link_sql.go", `if got.String != guard {`, `if false {`, "./postgres", "TestConformanceDatabaseSQL/session"},
	{"a restart reads from the store's position", "seat.go", `s.assignment.Flow.Rewind(next, func() {`, `s.assignment.Flow.Rewind(next+1, func() {`, ".", "TestAFencedOwner|TestAStoreThatWentBack"},
	{"revoke waits for work in flight", "intake.go", `	r.drain(ended)
`, ``, ".", "TestStoppingLetsTheBatchInFlightCommit"},
	{"what is kept under another member id is assigned anew", "kafka/options.go", `		kgo.OnPartitionsAssigned(r.rebalanced),
`, ``, "./kafka", "TestWhatIsKeptUnderAnotherMemberIDIsAssignedAnew"},
	{"what is assigned anew is read anew", "kafka/renew.go", `r.askRewind(rewind{a: a, offset: start, opens: true})`, `a.handOverFrom(start)`, "./kafka", "TestWhatIsKeptUnderAnotherMemberIDIsAssignedAnew"},
	{"a slow store is no log that was cut off", "kafka/watch.go", `a.position(); open {`, `a.position(); open || true {`, "./kafka", "TestALogIsNotJudgedBeforeItIsKnownWhereToBegin/embedded"},
	{"a broker that hangs up is asked again", "kafka/trouble.go", `case hungUp, kerr`, `case hungUp && false, kerr`, "./kafka", "TestABrokerThatHangsUpAtOnceIsAskedAgain"},
	{"storm: offset follows the effects", "progress.go", `next = p.marks.Frontier()`, `next = p.marks.Received()`, "./test/storm", "TestStorm"},
	{"storm: reading starts where the store says", "intake.go", `starts[i], epoch = s.lane.owned.Next, s.lane`, `starts[i], epoch = s.lane.owned.Next+1, s.lane`, "./test/storm", "TestStorm"},
	{"storm: nothing is reset in silence", "kafka/options.go", `kgo.ConsumeResetOffset(kgo.NoResetOffset())`, `kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())`, "./test/storm", "TestStorm"},
	{"storm: the fence", "test/storm/store_test.go", `case r.epoch > o.Epoch:`, `case false:`, "./test/storm", "TestStorm"},
	{"storm: revoke waits for work in flight", "intake.go", `	r.drain(ended)
`, ``, "./test/storm", "TestStorm"},
	{"an answer is carried out", "seat.go", `if c.to != GoOn && c.to != o.Next {`, `if false {`, "./test", "TestBelowTheLogAnOperatorDecides/embedded"},
	{"what looks healed stays halted", "condition.go", `var lasting = []State{StateAboveLog, StateDataLoss, StateStoreWentBack}`, `var lasting = []State{StateStoreWentBack}`, "./test", "TestAboveTheLogAnOperatorDecides/embedded"},
	{"a log that was cut off is noticed", "kafka/epoch.go", `p.EndOffset < min(a.Committed, starts[i])`, `false`, "./kafka", "TestALogThatWasCutOffAndHasGrownIsNoticed"},
	{"a topic that was made again is noticed", "kafka/watch.go", `return w.r.know(ids)`, `clear(ids)
	return w.r.know(ids)`, "./kafka", "TestATopicThatIsMadeAgainIsAssignedAnew/embedded"},
	{"a stream is worked on by one at a time", "stream.go", `fifo.busy = true`, `fifo.busy = false`, "./test", "TestStreamsTakeEffectInOrder/pgx"},
	{"a stream that waits leaves the others", "bundle.go", `case errors.As(err, &wait) && b.leave(wait.offset):`, `case false:`, "./test", "TestAStuckStreamDelaysOnlyItself"},
	{"the budget counts", "budget.go", `case sumDecided >= BudgetFrom`, `case false`, ".", "TestABadDeployLatches"},
	{"the breaker opens", "breaker.go", `const trip = 5`, `const trip = 1 << 30`, ".", "TestADependencyThatIsDownIsSpared"},
	{"what is behind a blocked stream waits", "decide.go", `d.blocked[blockedStream{st.Route, st.Identity.Stream}] = true`, `_ = 0`, "./test", "TestABlockedStreamIsHeldAndReleasedInOrder/sqlite"},
	{"what is held is bounded", "decide.go", `if d.full && st.Kept == nil {`, `if false {`, "./test", "TestWhatIsHeldIsBounded"},
	{"who tried a record and died is remembered", "wary.go", `if before-mine >= l.r.cfg.MaxDeaths-waryFrom {`, `if before-mine >= 99 {`, "./test", "TestARecordThatKillsItsProcessIsSetAside/postgres,_order_0"},
	{"what was settled ahead stands", "sqlite/apply.go", `if a.work.Beside && d.Kept == nil && d.Record.Offset >= a.owned.Again && d.Record.Offset < a.owned.Ahead {`, `if false {`, "./test", "TestWhatWasSetAsideAheadStaysSoAfterARestart/sqlite"},
	{"who settled a record has not died of it", "bundle.go", `if noted && !errors.Is(err, fault.ErrCrash) {`, `if err != nil && noted && !errors.Is(err, fault.ErrCrash) {`, "./test", "TestWhatWasSettledAheadIsNotBlamedForADeath/sqlite"},
	{"who is wary tries one record of all partitions", "runner.go", `r.alone = newReadyQueue[Tx](), newGate(), make(chan struct{}, 1), make(chan struct{}, 1)`, `r.alone = newReadyQueue[Tx](), newGate(), make(chan struct{}, 1), make(chan struct{}, 99)`, ".", "TestWhoIsWaryTriesOneRecordOfAllPartitions"},
	{"who dies beside others that it settled is counted (PostgreSQL)", "postgres/migration/009_deaths.sql", `crashes = case when p_next > next_offset then 0 else crashes end`, `crashes = 0`, "./test", "TestARecordThatKillsItsProcessIsSetAside/postgres,_order_1"},
	{"who dies beside others that it settled is counted (SQLite)", "sqlite/sql/apply.sql", `crashes = case when :next > next_offset then 0 else crashes end`, `crashes = 0`, "./sqlite", "TestStore/acquire"},
	{"counts: what came in is counted", "lane.go", `h(l.assignment.Partition, len(l.incoming)-before)`, `h(l.assignment.Partition, len(records)+1)`, "./metrics", "TestCountsAreConserved"},
	{"counts: by what was decided", "metrics/tally.go", `if at >= len(t.counts) || t.counts[at].kind != k {`, `if at >= len(t.counts) {`, "./metrics", "TestCountsAreConserved"},
	{"series end with their partition", "metrics/condition.go", `return of.partition == p })`, `return false })`, "./metrics", "TestWhatIsToldOfAPartition"},
	{"no label from the data", "metrics/metrics.go", `knownCause(n.cause)`, `n.cause`, "./metrics", "TestNoLabelComesFromTheData"},
	{"a span ends whatever its handler does", "try.go", `		if over != nil {`, `		if over != nil && !errors.Is(ended.Err, errGoexit) {`, "./tracing", "TestAHandlerThatNeverReturns"},
	{"handlers get the context of their try", "try.go", `ctx, over := h(ctx, Try{`, `_, over := h(ctx, Try{`, ".", "TestATryIsObserved"},
	{"a commit under another member id is taken out", "kafka/commit.go", `if c.member != req.MemberID {`, `if false {`, "./kafka", "TestAMemberThatWasExpelledAndIsBackOverwritesNobody/cooperative/embedded"},
	{"what an expelled member had is lost to it", "kafka/assign.go", `if a.member == member {
			own =`, `if a.member == member || true {
			own =`, "./kafka", "TestAMemberThatWasExpelledAndIsBackOverwritesNobody/cooperative/embedded"},
	{"progress moves past transaction markers", "kafka/options.go", `		kgo.KeepControlRecords(),
`, ``, "./test", "TestALogThatEndsInTransactionMarkersIsReadToItsEnd/embedded"},
	{"new partitions are looked for", "kafka/options.go", `		kgo.MetadataMaxAge(3 * time.Second),
`, ``, "./test", "TestPartitionsAddedWhileRunningAreReadFromTheirBeginning/embedded"},
	{"storm: a restart reads from the store's position", "seat.go", `s.assignment.Flow.Rewind(next, func() {`, `s.assignment.Flow.Rewind(next+1, func() {`, "./test/storm", "TestStorm"},
	{"storm: a commit is signed for the member it was made for", "kafka/commit.go", `if c.member != req.MemberID {`, `if false {`, "./test/storm", "TestStorm"},
	{"storm: nothing is committed for an assignment that has ended", "kafka/commit.go", `if a == nil || &a.Assignment != c.Assignment {`, `if a == nil {`, "./test/storm", "TestStorm"},
	{"storm: an assignment that has ended is forgotten", "kafka/assign.go", `if r.live[a.Partition.Topic][a.Partition.Index] == a {`, `if false {`, "./test/storm", "TestStorm"},
	{"storm: what was another member's is lost, not given back", "kafka/assign.go", `if a.member == member {`, `if a.member == member || true {`, "./test/storm", "TestStorm"},
	{"storm: whom the store has refused commits nothing", "progress.go", `if p.void {`, `if false {`, "./test/storm", "TestStorm"},
	{"who is no longer the owner raises nothing", "seat.go", `if s.isFenced() {`, `if false {`, ".", "TestWhoIsNoLongerTheOwnerRaisesNothing"},
	{"storm: a stream is worked on by one", "stream.go", `fifo.busy = true`, `fifo.busy = false`, "./test/storm", "TestStorm"},
	{"storm: the position stops at the unsettled", "internal/watermark/watermark.go", `		return t.pending[0].offset
`, `		return t.pending[len(t.pending)-1].offset
`, "./test/storm", "TestStorm"},
	{"storm: what is lost is not committed", "intake.go", `	for _, l := range r.detach(ps) {
		l.cancel()
		l.stop()
	}`, `	(*intake[Tx])(r).Revoke(context.Background(), ps)`, "./test/storm", "TestStorm"},
	{"synchronous_commit off is refused", "postgres/open.go", `case sync == "off":`, `case false:`, "./postgres", "TestUnsafeSettingsAreRefused"},
	{"another group is refused", "postgres/open.go", `if cluster != b.Cluster || group != b.Group {`, `if false {`, "./postgres", "TestConformancePgx/open"},
	{"a secret is shown by name", "secret/secret.go", `return Ref{redacted, func(`, `return Ref{value, func(`, "./secret", "TestASecretIsNotPrinted"},
	{"a connection string is not shown", "postgres/connect.go", `err = errors.New("it is not a connection string")`, `_ = errors.New("")`, "./postgres", "TestAWrongConnectionStringIsNotShown"},
	{"a provider's words are not shown", "kafka/client_credentials.go", `if err == nil && slices.Contains(errorCodes, answer.Error) {`, `if err == nil && (answer.Error != "" || slices.Contains(errorCodes, answer.Error)) {`, "./kafka", "TestWhatAProviderMayAnswerInstead"},
	{"a broker's certificate is verified", "kafka/tls.go", `MinVersion: tls.VersionTLS12, ServerName`, `InsecureSkipVerify: true, ServerName`, "./kafka", "TestCertificates"},
	{"a password is not sent in the clear", "kafka/sasl.go", `if !encrypted && !p.InsecureWithoutTLS {`, `if false {`, "./kafka", "TestSecurityErrorsAreReportedTogether"},
	{"a refused login ends Run", "kafka/options.go", `		kgo.WithHooks(refusedLogin{r}),
`, ``, "./kafka", "TestALoginThatIsRefusedEndsRunAtOnce"},
	{"effect: an older version does not undo a newer one", "effect/sequence.go", `case t.row != nil && at < t.current:`, `case false:`, "./test", "TestDeclaredEffectsFailAsTheTablesSay/sqlite/stale"},
	{"effect: the same version with other content is a conflict", "effect/sequence.go", `again(f.columns.same(t.row[first:], f.values), place)`, `again(true, place)`, "./test", "TestDeclaredEffectsFailAsTheTablesSay/sqlite/history"},
	{"effect: only allowed transitions", "effect/sequence.go", `if refused, ok := f.allow(now, f.values); !ok {`, `if refused, ok := f.allow(now, f.values); !ok && false {`, "./test", "TestDeclaredEffectsFailAsTheTablesSay/sqlite/invalid"},
	{"a copy that fails because of the first is not set aside", "postgres/migration/004_gap.sql", `    if found then
        raise exception 'pawl: a record to be set aside was decided meanwhile'`, `    if false then
        raise exception 'pawl: a record to be set aside was decided meanwhile'`, "./postgres", "TestConformancePgx/race/a_copy_that_fails"},
	{"effect: an early event waits for its turn", "effect/sequence.go", `		if f.rule == Next && at-1 > t.current && t.corrupt == "" {
			return`, `		if false {
			return`, "./test", "TestAGapStormConverges/sqlite"},
	{"effect: early events of a batch are in the order of their versions", "effect/sequence.go", `for to > 0 && f.place(f.b.At(t.pending[to-1])) > at {`, `for to > 0 && at < 0 {`, "./test", "TestABatchThatCameInReverseNeedsNoGap/sqlite"},
	{"effect: an answer does not move a row back", "effect/sequence.go", `case a.Version <= t.current:`, `case false:`, "./test", "TestAnAnswerThatIsOlderThanTheRow.*/sqlite/func"},
	{"effect: a correction that meets its original is tried again", "effect/counter.go", `		its.changed = true // if`, `		its.changed = false // if`, "./test", "TestACorrectionThatWaitsForItsOriginalBeginsAnew/pgx,_o"},
	{"a late original does not undo its correction", "outcome.go", `return (d.Outcome == Applied || d.Outcome == Superseded) && d`, `return d.Outcome == Ignored && d`, "./test", "TestCorrectionsEndTheSame.*/correction_then_late_original/sqlite"},
	{"what a corrected correction corrects is marked", "outcome.go", `(d.Outcome == Applied || d.Outcome == Superseded)`, `d.Outcome == Applied`, "./test", "TestTotalsFollowCorrections/all_of_them_backwards$/sqlite"},
	{"early records leave in the order of their versions (SQLite)", "sqlite/sql/gap.sql", `order by e.version, e.id
limit :limit

-- name: release_early`, `order by e.version desc, e.id
limit :limit

-- name: release_early`, "./test", "TestEarlyEventsBeyondTheBoundFollow/sqlite"},
	{"an early record leaves once (PostgreSQL)", "postgres/migration/004_gap.sql", `if v_n <> cardinality(p_ids) then`, `if false then`, "./postgres", "TestConformancePgx/gap"},
	{"an early record leaves once (SQLite)", "sqlite/gap.go", `if err := a.tx.expect(ctx, "release_early", d.Kept.Early); err != nil {`, `if _, err := a.tx.ExecContext(ctx, query("release_early"), d.Kept.Early); err != nil {`, "./sqlite", "TestStore/gap"},
	{"what a batch passed in a gap is looked at at once", "gap.go", `(!g.stays || g.passed)`, `!g.stays`, ".", "TestAGapThatABatchMovesOnWithoutThoseThatWaitIsLookedAtAtOnce"},
	{"a gap is looked at again", "postgres/sql/gap.sql", `  and g.due_at <= $3::timestamptz
`, `  and g.due_at <= $3::timestamptz - interval '1 day'
`, "./test", "TestAGapThatWasClosedWhileItWasOpened.*/pgx"},
	{"who sets an early record free is not to blame for it", "bundle.go", `case b.borrowed: // it`, `case false: // it`, "./test", "TestAnEarlyEventThatFailsInItsTurnIsSetAsideAlone/sqlite"},
	{"a batch parts from what waits for it", "bundle.go", `case errors.As(err, &split) && split.lent:`, `case false:`, "./test", "TestAKeyThatIsHeldAndComesAgain.*/sqlite"},
	{"rows are written in key order", "postgres/rows.go", `slices.SortFunc(order, func(a, b int) int { return t.compare(rows[a], rows[b]) })`, `slices.Reverse(order[:len(order)*(len(rows)%2)])`, "./test", "TestHotRowsOverPartitions.*/databasesql"},
	{"an act that was changed is found", "verdict.go", `case !bytes.Equal(r.Sum(), r.Digest):`, `case false:`, "./sqlite", "TestStore/audit"},
	{"an act that was put in or moved is found", "verdict.go", `if !bytes.Equal(ChainSum(v.head, r.Digest), r.Chain) {`, `if false {`, "./sqlite", "TestStore/audit"},
	{"the end of a chain cannot be taken away", "verdict.go", `case v.number < length:`, `case false:`, "./sqlite", "TestStore/audit"},
	{"what was sealed cannot be written anew", "verdict.go", `s.length == r.Number && !bytes.Equal(s.head, r.Chain)`, `false`, "./sqlite", "TestStore/audit"},
	{"in a schema, every statement names it", "postgres/store.go", "names[found[1]] = true", `names[found[1]] = true; delete(names, "pawl_gap")`, "./postgres", "TestNothingOfPawlIsOutsideItsSchema"},
	{"acts of a consumer come one after the other", "postgres/migration/006_audit.sql", `from pawl_consumer where id = p_consumer for no key update`, `from pawl_consumer where id = p_consumer`, "./postgres", "TestConformancePgx/audit"},
	{"pawl dev, sample: claim is written", "sqlite/apply.go", `a.insert(ctx, "insert_decision", claims, func(`, `a.insert(ctx, "insert_decision", claims[:0], func(`, "./cmd/pawl", "TestScripts/plain/dev"},
	{"pawl dev, own file: claim is written", "sqlite/apply.go", `a.insert(ctx, "insert_decision", claims, func(`, `a.insert(ctx, "insert_decision", claims[:0], func(`, "./cmd/pawl", "TestDevPlaysFilesOfYourOwn/own"},
	{"pawl dev, own file: offset follows the effects", "progress.go", `next = p.marks.Frontier()`, `next = p.marks.Received()`, "./cmd/pawl", "TestDevPlaysFilesOfYourOwn"},
}

// planted are the ten bugs that every test suite of such a consumer has to find, by the control that plants each.
var planted = [][2]string{
	{"offset committed on dispatch", "offset follows the effects"},
	{"no fence", "fence (PostgreSQL)"},
	{"fence counted after COMMIT", "fence raises, and does not merely say"},
	{"commit after revoke", "storm: nothing is committed for an assignment that has ended"},
	{"+1 offset tracking", "an offset is not one too far"},
	{"silent reset", "storm: nothing is reset in silence"},
	{"marker without effect", "a claim comes with its effect"},
	{"effect without marker", "claim is written"},
	{"unknown commit retried blindly", "unknown commit is resolved, not retried"},
	{"seq ignored", "seq (PostgreSQL)"},
}

func (c control) bug() string {
	for _, p := range planted {
		if p[1] == c.protection {
			return "planted: " + p[0]
		}
	}
	return ""
}

func main() {
	tree, err := copyTree()
	if err != nil {
		fmt.Fprintln(os.Stderr, "controls:", err)
		os.Exit(1)
	}
	defer os.RemoveAll(tree)
	only := strings.Join(os.Args[1:], " ")
	survived, broken := 0, 0
	for _, c := range controls {
		if !strings.Contains(c.protection, only) && !strings.Contains(c.bug(), only) {
			continue
		}
		began := time.Now()
		failed, err := c.try(tree)
		if err != nil {
			fmt.Printf("%-45s BROKEN: %v\n", c.protection, err)
			broken++
			continue
		}
		word := "caught by " + failed
		if failed == "" {
			word = "SURVIVED: " + c.run + " still passes"
			survived++
		}
		fmt.Printf("%-45s %s (%.0f s)\n", c.protection, word, time.Since(began).Seconds())
	}
	if survived+broken > 0 {
		fmt.Printf("%d protections can be removed without a test noticing; %d could not be tried\n", survived, broken)
		os.RemoveAll(tree)
		os.Exit(1)
	}
}

// try removes the protection, runs the test, and puts it back. It returns the name of the first test that failed.
func (c control) try(tree string) (string, error) {
	name := filepath.Join(tree, c.file)
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), c.old); n != 1 {
		return "", fmt.Errorf("%s: %q occurs %d times, want 1: bring the control up to date", c.file, c.old, n)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o644); err != nil {
		return "", err
	}
	defer os.WriteFile(name, text, 0o644)
	test := func(timeout string, args ...string) ([]byte, error) {
		cmd := exec.Command("go", append([]string{"test", "-timeout", timeout, "-run", c.run, c.pkg}, args...)...)
		cmd.Dir = tree
		return cmd.CombinedOutput()
	}
	out, err := test("100s")
	if err == nil && c.pkg == "./test/storm" { // some need a storm that few seeds have
		out, err = test("300s", "-storm.first=41", "-storm.seeds=240")
	}
	if strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "no tests to run") {
		return "", fmt.Errorf("the test did not run:\n%s", out)
	}
	if err == nil {
		return "", nil
	}
	deepest := ""
	for line := range strings.Lines(string(out)) {
		if _, rest, ok := strings.Cut(line, "--- FAIL: "); ok {
			if name, _, _ := strings.Cut(rest, " "); strings.Count(name, "/") > strings.Count(deepest, "/") || deepest == "" {
				deepest = name
			}
		}
	}
	if deepest != "" {
		return deepest, nil
	}
	if strings.Contains(string(out), "panic: test timed out") {
		return c.run + " (timed out)", nil
	}
	if strings.Contains(string(out), "panic: ") { // of a goroutine that is not the test's
		return c.run + " (panicked)", nil
	}
	return "", fmt.Errorf("the test failed without saying which:\n%s", out)
}

// copyTree copies what git tracks or would track.
func copyTree() (string, error) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return "", fmt.Errorf("list files: %w", err)
	}
	tree, err := os.MkdirTemp("", "pawl-controls")
	if err != nil {
		return "", err
	}
	for _, f := range strings.Fields(string(out)) {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // deleted, not yet committed
		}
		to := filepath.Join(tree, f)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return tree, err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return tree, err
		}
	}
	return tree, nil
}
