package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
	"github.com/pawlhq/pawl/internal/fault"
)

const factTables = `
create table cases (case_id text primary key, version bigint not null, state text, fee numeric, event_id text, constraint fee_limit check (fee is null or fee <> '666'));
create table flow (case_id text primary key, version bigint not null, state text not null, event_id text);
create table entries (event_key text not null, line bigint not null, account text not null, amount numeric not null, primary key (event_key, line));
create table balances (account text primary key, balance numeric not null);
create table totals (team text not null primary key, events bigint not null, fees numeric not null);
create table contributions (event_key text primary key, team text, events bigint, fees numeric, corrected_by text);
create table trail (event_key text primary key, case_id text, version bigint, fee numeric);
create table latest (case_id text primary key, version bigint not null, state text, fee numeric);
create table escalations (id text primary key, case_id text, state text)`

func route(name string) pawl.Route { return pawl.Route{Name: name, Topics: []string{"pawltest"}} }

// mapped is a column that a fact may have no value for, or make fail.
func mapped(name string, kind pawl.Kind, value func(f *fact) string) effect.Column[fact] {
	return effect.Column[fact]{Name: name, Kind: kind, Value: func(e *pawl.Envelope[fact]) (any, error) {
		if e.Body.Bad == "value" {
			return nil, errors.New("asked to fail")
		}
		if v := value(&e.Body); v != "" {
			return v, nil
		}
		return nil, nil
	}}
}

func stateColumn() effect.Column[fact] {
	return mapped("state", pawl.KindText, func(f *fact) string { return f.State })
}

func feeColumn(name string) effect.Column[fact] {
	return mapped(name, pawl.KindDecimal, func(f *fact) string { return f.Fee })
}

func eventColumn() effect.Column[fact] {
	return effect.Note(effect.Text("event_id", func(e *pawl.Envelope[fact]) string { return e.Key }))
}

// cases is a projection that holds what comes early.
func cases(change ...func(*effect.Projection[fact])) declared {
	p := &effect.Projection[fact]{
		Table: "cases", Stream: "case_id", Version: "version", Early: effect.Early{Hold: time.Hour}, States: true,
		Columns: []effect.Column[fact]{stateColumn(), feeColumn("fee"), eventColumn()},
	}
	for _, c := range change {
		c(p)
	}
	return declared{route("cases"), p}
}

// machine is what may follow on each state.
var machine = map[string][]string{
	"OPEN": {"HEARD", "CLOSED"}, "HEARD": {"HEARD", "CLOSED"}, "CLOSED": {"OPEN"},
}

func flow(change ...func(*effect.Workflow[fact])) declared {
	w := &effect.Workflow[fact]{
		Table: "flow", Stream: "case_id", Version: "version", State: "state", Early: effect.Early{Hold: time.Hour},
		Initial: []string{"OPEN"}, Transitions: machine, To: func(e *pawl.Envelope[fact]) (string, error) { return e.Body.State, nil },
		Columns: []effect.Column[fact]{eventColumn()},
	}
	for _, c := range change {
		c(w)
	}
	return declared{route("flow"), w}
}

func ledger() declared {
	return declared{route("ledger"), &effect.Ledger[fact]{
		Table: "entries", Key: "event_key", Line: "line", Account: "account", Amount: "amount", Balances: "balances", Balanced: true,
		Post: func(e *pawl.Envelope[fact]) ([]effect.Posting, error) {
			if e.Body.Fee == "" {
				return nil, nil
			}
			return []effect.Posting{
				{Account: "fees", Amount: e.Body.Fee}, {Account: "team " + e.Body.Team, Amount: negated(e.Body.Fee)},
			}, nil
		},
	}}
}

func negated(fee string) string {
	if rest, ok := strings.CutPrefix(fee, "-"); ok {
		return rest
	}
	return "-" + fee
}

func counter() declared {
	return declared{route("totals"), &effect.Counter[fact]{
		Table: "totals", Contributions: effect.Contributions{Table: "contributions"},
		Group: []effect.Column[fact]{effect.Text("team", func(e *pawl.Envelope[fact]) string { return e.Body.Team })},
		Sum: []effect.Column[fact]{
			effect.Int("events", func(*pawl.Envelope[fact]) int64 { return 1 }), feeColumn("fees"),
		},
	}}
}

func audit() declared {
	return declared{route("trail"), &effect.Audit[fact]{
		Table: "trail", Key: "event_key",
		Columns: []effect.Column[fact]{
			effect.Text("case_id", func(e *pawl.Envelope[fact]) string { return e.Stream }),
			effect.Int("version", func(e *pawl.Envelope[fact]) int64 { return e.Version }), feeColumn("fee"),
		},
	}}
}

func latest() declared {
	return declared{route("latest"), &effect.State[fact]{
		Table: "latest", Stream: "case_id", Version: "version", Columns: []effect.Column[fact]{stateColumn(), feeColumn("fee")},
		Tombstone: func(e *pawl.Envelope[fact]) bool { return e.Body.State == "DELETED" },
	}}
}

func commands() declared {
	return declared{route("escalations"), &effect.Commands[fact]{
		Table: "escalations", ID: "id",
		Identify: func(e *pawl.Envelope[fact]) (string, error) {
			if e.Body.State != "HEARD" {
				return "", nil
			}
			return "escalate:" + e.Stream, nil
		},
		Columns: []effect.Column[fact]{effect.Text("case_id", func(e *pawl.Envelope[fact]) string { return e.Stream }), stateColumn()},
	}}
}

// at is an event of case c1 in a state.
func at(version int64, state string) fact {
	return fact{Key: fmt.Sprint("e", version), Stream: "c1", Version: version, State: state}
}

func keyed(key string, f fact) fact {
	f.Key = key
	return f
}

// Each row of the tables that say how a consumer has to fail, and the test that shows what declared effects make of it. A row about
// a call of an external API is not about them: they make none.
//
//	000 §25    crash before processing                           crash before the effect
//	000 §25    crash after side effect before commit             crash before the commit
//	000 §25    crash after commit                                crash after the commit
//	000 §25    duplicate same event                              same event delivered twice
//	000 §25    older version after newer version                 stale event after version 5
//	000 §25    poison payload                                    poison
//	000 §25    DB timeout                                        database in the way
//	000 §25    rebalance mid-batch                               rebalance mid-batch
//	000 §25    worker finishes offsets out of order              workers finish out of order
//	000 §25    replay from earliest                              replay from earliest
//	001 §20.1  same event delivered twice                        same event delivered twice
//	001 §20.1  event version 3 before version 2                  version 3 before version 2
//	001 §20.1  stale event after current version 5               stale event after version 5
//	001 §20.1  crash after DB write before offset commit         crash after the commit
//	001 §20.1  DLQ replay                                        replay of what was set aside
//	001 §20.1  full topic replay                                 replay from earliest
//	001 §20.1  invalid state transition                          invalid transition
//	002 §15    crash before inbox insert                         crash before the effect
//	002 §15    crash after inbox insert before effect            crash before the effect
//	002 §15    crash after effect before mark processed          crash before the commit
//	002 §15    crash after DB commit before offset commit        crash after the commit
//	002 §15    rebalance during processing                       rebalance mid-batch
//	002 §15    backfill replays old topic                        history under new keys
//	002 §15    duplicate event ID from producer bug              one key for two facts
//	002 §15    same fact with new event ID                       one fact under two keys
//	002 §15    poison record                                     poison
func TestDeclaredEffectsFailAsTheTablesSay(t *testing.T) {
	inEveryHouse(t, func(t *testing.T, open func(testing.TB) *house) {
		for _, r := range []struct {
			name string
			play func(t *testing.T, open func(testing.TB) *house)
		}{
			{"crash before the effect", crashIn(fault.Taken, fault.Decoded, fault.Begun, fault.Looked)},
			{"crash before the commit", crashIn(fault.Handled, fault.Effected, fault.Claimed, fault.Advanced)},
			{"crash after the commit", crashIn(fault.Committed, fault.Settled, fault.OffsetStored)},
			{"same event delivered twice", deliveredTwice},
			{"stale event after version 5", staleAfterFive},
			{"poison", poisonPayload},
			{"database in the way", databaseInTheWay},
			{"rebalance mid-batch", rebalanceMidBatch},
			{"workers finish out of order", workersOutOfOrder},
			{"replay from earliest", replayFromEarliest},
			{"version 3 before version 2", threeBeforeTwo},
			{"replay of what was set aside", quarantineReplay},
			{"invalid transition", invalidTransition},
			{"history under new keys", historyUnderNewKeys},
			{"one key for two facts", oneKeyForTwoFacts},
			{"one fact under two keys", oneFactUnderTwoKeys},
		} {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				r.play(t, open)
			})
		}
	})
}

func deliveredTwice(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{}, cases(), flow(), ledger(), counter(), audit(), latest(), commands())
	s.up()
	one := fact{Key: "e1", Stream: "c1", Version: 1, State: "OPEN", Fee: "1.50", Team: "a"}
	two := fact{Key: "e2", Stream: "c1", Version: 2, State: "HEARD", Fee: "2.25", Team: "b"}
	s.play(one, one)
	s.batch(two, two, one, two)
	s.wantRows("cases", "c1 2 HEARD 2.25 e2")
	s.wantRows("flow", "c1 2 HEARD e2")
	s.wantRows("entries", "e1 1 fees 1.50", "e1 2 team a -1.50", "e2 1 fees 2.25", "e2 2 team b -2.25")
	s.wantRows("balances", "fees 3.75", "team a -1.50", "team b -2.25")
	s.wantRows("totals", "a 1 1.50", "b 1 2.25")
	s.wantRows("trail", "e1 c1 1 1.50", "e2 c1 2 2.25")
	s.wantRows("latest", "c1 2 HEARD 2.25")
	s.wantRows("escalations", "escalate:c1 c1 HEARD")
	s.wantSaid("e1", "applied", "duplicate already applied", "duplicate already applied")
	s.wantSaid("e2", "applied", "duplicate already applied", "duplicate already applied")
	s.wantAside()
	if e := s.claim("e2"); e.VersionBefore != 1 || !strings.Contains(e.StateBefore, "OPEN") || !strings.Contains(e.StateAfter, "HEARD") {
		t.Errorf("evidence of e2: version before %d, states %s and %s", e.VersionBefore, e.StateBefore, e.StateAfter)
	}
}

func staleAfterFive(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{}, cases(), flow(), latest())
	s.up()
	s.batch(at(1, "OPEN"), at(2, "HEARD"), at(3, "HEARD"), at(4, "HEARD"), at(5, "CLOSED"))
	s.play(keyed("late", at(2, "HEARD")), keyed("later", at(4, "OPEN")))
	s.wantRows("cases", "c1 5 CLOSED - e5")
	s.wantRows("flow", "c1 5 CLOSED e5")
	s.wantRows("latest", "c1 5 CLOSED -")
	for _, key := range []string{"late", "later"} {
		s.wantClaim(key, pawl.WasStale, "it is version ")
	}
	s.wantAside()
}

func threeBeforeTwo(t *testing.T, open func(testing.TB) *house) {
	for name, c := range map[string]struct {
		early effect.Early
		said  string
		aside []string
		after string
	}{
		"held":     {effect.Early{Hold: time.Hour}, "held out of order: version 3 came, and version 2 is missing", nil, "c1 3 CLOSED - e3"},
		"set":      {effect.Early{}, "quarantined out of order: version 3 came, and version 2 is missing", []string{"e3 gap"}, "c1 2 HEARD - e2"},
		"rejected": {effect.Early{Then: effect.Ignore}, "ignored out of order: version 3 came, and version 2 is missing", nil, "c1 2 HEARD - e2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t).stage(1, pawl.Config{}, cases(func(p *effect.Projection[fact]) { p.Early = c.early }))
			s.up()
			s.play(at(1, "OPEN"), at(3, "CLOSED"))
			s.wantRows("cases", "c1 1 OPEN - e1")
			s.wantSaid("e3", c.said)
			s.wantAside(c.aside...)
			s.play(at(2, "HEARD"))
			s.wantRows("cases", c.after)
			if name == "held" {
				s.wantSaid("e3", "applied", c.said)
				if e := s.claim("e3"); e.VersionBefore != 2 || e.Offset != 1 {
					t.Errorf("evidence of e3: %+v", e)
				}
			}
			if name == "set" { // what it waited for has come
				s.replay()
				s.wantRows("cases", "c1 3 CLOSED - e3")
				s.wantAside()
			}
			s.await(0, gapCount)
		})
	}
}

func poisonPayload(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{}, cases())
	s.up()
	s.batch(at(1, "OPEN"), fact{Bad: "garbage"}, keyed("", at(2, "HEARD")), at(2, "HEARD"))
	s.batch(keyed("unmapped", fact{Stream: "c2", Version: 1, State: "OPEN", Bad: "value"}), at(3, "CLOSED"))
	s.batch(keyed("refused", fact{Stream: "c3", Version: 1, State: "OPEN", Fee: "666"}), at(4, "OPEN"))
	s.wantRows("cases", "c1 4 OPEN - e4")
	s.wantAside("poison", "poison", "unmapped validation", "refused validation")
}

// databaseInTheWay has another session hold what the effect needs for longer than a handler may take.
func databaseInTheWay(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{HandlerTimeout: 150 * time.Millisecond, MaxTries: 1 << 20}, cases())
	s.up()
	s.play(at(1, "OPEN"))
	conn, err := s.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(query string) {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	if strings.Contains(t.Name(), "/sqlite/") {
		exec(`begin immediate`)
	} else {
		exec(`begin`)
	}
	exec(`update cases set event_id = event_id where case_id = 'c1'`)
	s.add(0, at(2, "HEARD"))
	deadline := time.Now().Add(factPatience)
	waitUntil(t, deadline, func() bool { return len(s.failed()) >= 2 })
	for _, f := range s.failed() {
		if f.Class != pawl.Transient {
			t.Errorf("failed as %s: %v", f.Class, f.Err)
		}
	}
	s.group.mu.Lock()
	committed := s.group.parts[0].committed.Next
	s.group.mu.Unlock()
	if n := s.int(settledCount); n != 1 || committed > 1 {
		t.Errorf("settled %d, committed %d, want 1: nothing leads what is in the database", n, committed)
	}
	exec(`rollback`)
	s.settle()
	s.wantRows("cases", "c1 2 HEARD - e2")
	s.wantSaid("e2", "applied")
	s.wantAside()
}

// rebalanceMidBatch takes the partition away while its batch is between its effect and its commit.
func rebalanceMidBatch(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{MaxBatch: 2}, cases(), counter())
	entered, goOn := make(chan struct{}, 100), make(chan struct{})
	frozen := fault.With(t.Context(), func(p fault.Point) error {
		if p == fault.Effected {
			entered <- struct{}{}
			<-goOn
		}
		return nil
	})
	slow := s.group.member()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(frozen)
	defer cancel()
	go func() { ended <- s.run(ctx, slow, s.cfg, s.effects) }()
	<-slow.joined
	slow.take(0)
	s.add(0, at(1, "OPEN"), at(2, "HEARD"), at(3, "CLOSED"))
	<-entered
	if strings.Contains(t.Name(), "/sqlite/") { // there is one writer, and the other would wait for it
		close(goOn)
	}
	next := s.live(nil)
	defer next.stop()
	next.take(0)
	if !strings.Contains(t.Name(), "/sqlite/") {
		close(goOn)
	}
	s.settle()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("who lost the partition: %v", err)
	}
	s.wantRows("cases", "c1 3 CLOSED - e3")
	s.wantRows("totals", " 3 0")
	for v := range 3 {
		if e := s.claim(fmt.Sprint("e", v+1)); e.Outcome != pawl.Applied {
			t.Errorf("e%d is %s", v+1, e.Outcome)
		}
	}
	s.wantAside()
}

// workersOutOfOrder settles later streams while the first of them waits.
func workersOutOfOrder(t *testing.T, open func(testing.TB) *house) {
	h := open(t)
	d := cases()
	d.Order = pawl.OrderStream
	release := make(chan struct{})
	d.effect.(*effect.Projection[fact]).Columns[0].Value = func(e *pawl.Envelope[fact]) (any, error) {
		if e.Stream == "c0" {
			select {
			case <-release:
			default:
				panic("c0 cannot be mapped yet") // set aside alone
			}
		}
		return e.Body.State, nil
	}
	d.Quarantine = pawl.QuarantineStream
	s := h.stage(1, pawl.Config{Workers: 4, MaxBatch: 4}, d)
	s.up()
	var all []fact
	want := []string{"c0 2 HEARD - c0.2"}
	for v := range int64(2) {
		for c := range 12 {
			all = append(all, fact{Key: fmt.Sprintf("c%d.%d", c, v+1), Stream: fmt.Sprint("c", c), Version: v + 1, State: []string{"OPEN", "HEARD"}[v]})
		}
	}
	for c := 1; c < 12; c++ {
		want = append(want, fmt.Sprintf("c%d 2 HEARD - c%d.2", c, c))
	}
	s.batch(all...)
	s.wantAside("c0.1 validation")
	s.wantRows("cases", want[1:]...)
	close(release)
	s.replay()
	s.await(0, streamRows)
	s.await(0, gapCount)
	s.wantRows("cases", want...)
}

// history is a case whose events come late, twice, and in conflict.
func history() []fact {
	return []fact{
		at(1, "OPEN"), at(3, "HEARD"), at(2, "HEARD"), at(2, "HEARD"), keyed("again", at(3, "HEARD")), keyed("other", at(3, "CLOSED")),
		at(5, "OPEN"), at(4, "CLOSED"), keyed("d1", fact{Stream: "c2", Version: 2, State: "CLOSED"}), keyed("d0", fact{Stream: "c2", Version: 1, State: "OPEN"}),
	}
}

func replayFromEarliest(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{MaxBatch: 3, Reset: pawl.ResetAccept}, cases(), flow(), counter(), audit())
	l := s.live(nil)
	l.take(0)
	s.add(0, history()...)
	s.settle()
	s.await(0, gapCount)
	tables := []string{"cases", "flow", "totals", "contributions", "trail"}
	before := map[string][]string{}
	for _, table := range tables {
		before[table] = s.lines(`select * from ` + table)
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	s.group.parts[0].committed = pawl.Commit{Next: 0} // someone has set the group back to the earliest
	again := s.live(nil)
	defer again.stop()
	again.take(0)
	s.await(int64(len(history())), settledCount)
	for _, table := range tables {
		s.wantRows(table, before[table]...)
	}
	s.wantRows("cases", "c1 5 OPEN - e5", "c2 2 CLOSED - d1")
	s.wantAside("other conflict", "other conflict") // of both routes that have versions; once each

	// And from scratch, on another database, cut otherwise: the same rows.
	fresh := open(t).stage(1, pawl.Config{MaxBatch: 100}, cases(), flow(), counter(), audit())
	fresh.up()
	fresh.batch(history()...)
	for _, table := range tables {
		fresh.wantRows(table, before[table]...)
	}
}

func quarantineReplay(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{}, cases(func(p *effect.Projection[fact]) { p.Early = effect.Early{} }), counter())
	s.up()
	s.play(at(1, "OPEN"), at(3, "CLOSED"))
	s.wantAside("e3 gap")
	s.play(at(3, "CLOSED")) // once more, while it is set aside
	s.wantAside("e3 gap", "e3 gap")
	s.play(at(2, "HEARD"))
	s.replay()
	s.wantRows("cases", "c1 3 CLOSED - e3")
	s.wantRows("totals", " 3 0")
	s.wantAside()
	s.play(at(3, "CLOSED"))
	s.wantRows("totals", " 3 0")
	if e := s.claim("e3"); e.Outcome != pawl.Applied || e.VersionBefore != 2 {
		t.Errorf("evidence of e3: %+v", e)
	}
}

func historyUnderNewKeys(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{}, cases(), latest())
	s.up()
	s.batch(at(1, "OPEN"), at(2, "HEARD"), at(3, "CLOSED"))
	s.batch(keyed("b1", at(1, "OPEN")), keyed("b2", at(2, "HEARD")), keyed("b3", at(3, "CLOSED")), keyed("b4", at(3, "OPEN")))
	s.wantRows("cases", "c1 3 CLOSED - e3")
	s.wantRows("latest", "c1 3 CLOSED -")
	s.wantClaim("b1", pawl.WasStale, "it is version 1, and the row is at version 3")
	s.wantClaim("b2", pawl.WasStale, "")
	s.wantClaim("b3", pawl.Duplicate, "the row has version 3 already, and says the same")
	s.wantAside("b4 conflict", "b4 conflict")
}

func oneKeyForTwoFacts(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{}, cases(), counter(), audit())
	s.up()
	s.play(at(1, "OPEN"), keyed("e1", at(2, "HEARD")))
	s.batch(at(2, "HEARD"), keyed("e2", at(3, "CLOSED")))
	s.wantRows("cases", "c1 2 HEARD - e2")
	s.wantRows("totals", " 2 0")
	s.wantAside(slices.Repeat([]string{"e1 conflict", "e2 conflict"}, 3)...)
	s.wantSaid("e1", "applied", "quarantined the key was decided for other content")
}

func oneFactUnderTwoKeys(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{}, cases(), commands())
	s.up()
	s.batch(at(1, "OPEN"), at(2, "HEARD"))
	s.play(keyed("sent again", at(2, "HEARD")))
	s.wantClaim("sent again", pawl.Duplicate, "the row has version 2 already, and says the same")
	s.wantRows("cases", "c1 2 HEARD - e2")
	s.wantRows("escalations", "escalate:c1 c1 HEARD")
	s.wantAside()
}

func invalidTransition(t *testing.T, open func(testing.TB) *house) {
	s := open(t).stage(1, pawl.Config{}, flow())
	s.up()
	s.play(at(1, "OPEN"), at(2, "CLOSED"), at(3, "HEARD"), keyed("n", fact{Stream: "c2", Version: 1, State: "HEARD"}), keyed("u", fact{Stream: "c3", Version: 1, State: "LOST"}))
	s.wantRows("flow", "c1 2 CLOSED e2")
	s.wantSaid("e3", `quarantined illegal transition: from "CLOSED" to "HEARD"`)
	s.wantSaid("n", `quarantined illegal transition: a stream cannot begin as "HEARD"`)
	s.wantSaid("u", `quarantined column "state": "LOST" is no state of the machine`)
	s.wantAside("e3 transition", "n transition", "u validation")
	s.play(keyed("better", at(3, "OPEN")))
	s.wantRows("flow", "c1 3 OPEN better")
}

// crashIn has the process die once at each hit of some windows, while all effects work, and start again.
func crashIn(points ...fault.Point) func(t *testing.T, open func(testing.TB) *house) {
	return func(t *testing.T, open func(testing.TB) *house) {
		for _, point := range points {
			met := false
			hits := []int{2} // after something has come early
			if strings.Contains(t.Name(), "/sqlite/") {
				hits = []int{1, 2, 3}
			}
			for _, hit := range hits {
				s := open(t).stage(1, pawl.Config{MaxBatch: 2}, cases(), flow(), ledger(), counter(), audit(), latest(), commands())
				left, dead := hit, false
				ctx := fault.With(t.Context(), func(p fault.Point) error {
					s.mu.Lock()
					defer s.mu.Unlock()
					if p == point && left > 0 {
						left--
						dead = left == 0
					}
					if dead {
						return fault.ErrCrash
					}
					return nil
				})
				for _, v := range []int64{1, 3, 4, 2, 2} { // 3 and 4 come early, and wait in the tables
					s.add(0, fact{Key: fmt.Sprint("e", v), Stream: "c1", Version: v, State: []string{"OPEN", "HEARD", "HEARD", "CLOSED"}[v-1], Fee: "1", Team: "a"})
				}
				dies := s.group.member()
				ended := make(chan error, 1)
				ctx, cancel := context.WithCancel(ctx)
				go func() { ended <- s.run(ctx, dies, s.cfg, s.effects) }()
				<-dies.joined
				dies.take(0)
				deadline := time.Now().Add(factPatience)
				waitUntil(t, deadline, func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return dead || len(ended) > 0 || s.int(settledCount) == 5
				})
				cancel()
				if err := <-ended; err != nil && !errors.Is(err, fault.ErrCrash) {
					t.Fatalf("%s, hit %d: %v", point, hit, err)
				}
				met = met || dead
				next := s.live(nil)
				next.take(0)
				s.settle()
				s.await(0, gapCount)
				if err := next.stop(); err != nil {
					t.Fatal(err)
				}
				s.wantRows("cases", "c1 4 CLOSED 1 e4")
				s.wantRows("flow", "c1 4 CLOSED e4")
				s.wantRows("balances", "fees 4", "team a -4")
				s.wantRows("totals", "a 4 4")
				s.wantRows("escalations", "escalate:c1 c1 HEARD")
				if n := s.int(`select count(*) from trail`); n != 4 {
					t.Errorf("%d rows of audit", n)
				}
				s.wantAside()
				if t.Failed() {
					t.Fatalf("after a crash at hit %d of %s", hit, point)
				}
			}
			if !met {
				t.Errorf("%s was never met", point)
			}
		}
	}
}
