package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/pawltest"
)

// Each of these was once wrong: a record that waited for ever, or one that was set aside for another's fault.

// What a handler returns is not taken for a lost connection because of how it reads or what type it has.
func TestBadDataIsNotMistakenForALostConnection(t *testing.T) {
	for name, fail := range map[string]func() error{
		"truncated JSON": func() error {
			var v map[string]any
			return json.NewDecoder(strings.NewReader(`{"a":`)).Decode(&v)
		},
		"bad URL":     func() error { _, err := url.Parse("http://[::1"); return err },
		"quoted text": func() error { return errors.New(`unknown status "conn closed", "conn busy", "driver: bad connection"`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openPgx(t, pgtest.Migrated(t), ledgerSchema)
			pawltest.Run(t, s.Store, entries(), func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[entry]) error {
				if e.Key == "1" {
					return fail()
				}
				return nil
			}, pawltest.JSON(entry{ID: "1"}), pawltest.JSON(entry{ID: "2"})).Want(pawl.Quarantined, pawl.Applied)
		})
	}
}

// A deadlock that a handler throws is a deadlock.
func TestAThrownErrorIsClassifiedLikeAReturnedOne(t *testing.T) {
	s := openPgx(t, pgtest.Migrated(t), ledgerSchema)
	tries := 0
	pawltest.Run(t, s.Store, entries(), func(context.Context, pgx.Tx, pawl.Envelope[entry]) error {
		if tries++; tries < 5 {
			panic(error(&pgconn.PgError{Code: "40P01", Message: "deadlock detected"}))
		}
		return nil
	}, pawltest.JSON(entry{ID: "1"})).Want(pawl.Applied)
}

// Rows that a handler leaves open hold up neither the next record nor the end of the transaction.
func TestRowsLeftOpenHoldNothingUp(t *testing.T) {
	records := []pawl.Record{pawltest.JSON(entry{ID: "1"}), pawltest.JSON(entry{ID: "2", Verb: "reject"}), pawltest.JSON(entry{ID: "3"})}
	want := []pawl.Outcome{pawl.Applied, pawl.Quarantined, pawl.Applied}
	const many = `select * from generate_series(1, 100000)`
	after := func(e pawl.Envelope[entry]) error {
		if e.Body.Verb == "reject" {
			return pawl.Reject(errors.New("asked to"))
		}
		return nil
	}
	t.Run("pgx", func(t *testing.T) {
		s := openPgx(t, pgtest.Migrated(t), ledgerSchema)
		pawltest.Run(t, s.Store, entries(), func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[entry]) error {
			rows, err := tx.Query(ctx, many)
			if err != nil {
				return err
			}
			rows.Next()
			return after(e)
		}, records...).Want(want...)
	})
	t.Run("databasesql", func(t *testing.T) {
		s := openDatabaseSQL(t, pgtest.Migrated(t), ledgerSchema)
		pawltest.Run(t, s.Store, entries(), func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[entry]) error {
			rows, err := tx.QueryContext(context.WithoutCancel(ctx), many)
			if err != nil {
				return err
			}
			rows.Next()
			return after(e)
		}, records...).Want(want...)
	})
}

// outcomes runs routes over records of one partition, and returns what became of each, by route.
func outcomes[Tx any](t *testing.T, s *opened[Tx], cfg pawl.Config, records []pawl.Record, register func(*pawl.Runner[Tx])) (map[string][]pawl.Outcome, error) {
	t.Helper()
	for i := range records {
		records[i].Partition = pawl.Partition{Topic: pawltest.Topic, TopicID: pawl.TopicID{9}}
		records[i].Offset, records[i].Timestamp = int64(i), time.Unix(1, 0)
	}
	var mu sync.Mutex
	got := map[string][]pawl.Outcome{}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cfg.Consumer, cfg.Logger = "test", slog.New(slog.DiscardHandler)
	cfg.Hooks.Settled = func(b pawl.Settled) {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range b.Decisions {
			got[b.Routes[d.Route]] = append(got[b.Routes[d.Route]], d.Outcome)
		}
		if b.Next == int64(len(records)) {
			cancel()
		}
	}
	var halted error
	cfg.Hooks.Raised = func(c pawl.Condition) {
		if c.State.Halts() {
			mu.Lock()
			defer mu.Unlock()
			halted = fmt.Errorf("%s: %s", c.State, c.Reason)
			cancel()
		}
	}
	r := pawl.NewRunner(s.Store, pawltest.NewLog(records), cfg)
	register(r)
	err := r.Run(ctx)
	mu.Lock()
	defer mu.Unlock()
	return got, errors.Join(err, halted)
}

func onTopic(name string) pawl.Route { return pawl.Route{Name: name, Topics: []string{pawltest.Topic}} }

// A constraint that fails at COMMIT, or an error that one route swallowed, is that route's alone.
func TestOneRoutesFaultIsNotAnothers(t *testing.T) {
	schema := ledgerSchema + `; create table parent (id text primary key);
		create table child (id text references parent deferrable initially deferred)`
	for name, guilty := range map[string]string{"deferred": `insert into child values ('none')`, "swallowed": `insert into missing_table values (1)`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openPgx(t, pgtest.Migrated(t), schema)
			got, err := outcomes(t, s, pawl.Config{MaxTries: 2}, []pawl.Record{pawltest.JSON(entry{ID: "1"}), pawltest.JSON(entry{ID: "2"}), pawltest.JSON(entry{ID: "3"})},
				func(r *pawl.Runner[pgx.Tx]) {
					pawl.Handle(r, onTopic("guilty"), entries(), func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[entry]) error {
						if e.Key == "2" {
							tx.Exec(ctx, guilty) // a missing table is the handler's to report; it does not
						}
						return nil
					})
					pawl.Handle(r, onTopic("innocent"), entries(), ledgerHandler(execPgx))
				})
			if err != nil {
				t.Fatal(err)
			}
			if o := got["guilty"]; len(o) != 3 || o[0] != pawl.Applied || o[1] != pawl.Quarantined || o[2] != pawl.Applied {
				t.Errorf("guilty: %v", o)
			}
			if o := got["innocent"]; len(o) != 3 || o[0] != pawl.Applied || o[1] != pawl.Applied || o[2] != pawl.Applied {
				t.Errorf("innocent: %v", o)
			}
			if n := s.int(t, `select count(*) from ledger`); n != 3 {
				t.Errorf("%d effects of the innocent route, want 3", n)
			}
		})
	}
}

// When Pawl's own statements fail, no record is to blame: the consumer is latched, and nothing is set aside.
func TestAFailureOfPawlsOwnStatementsBlamesNoRecord(t *testing.T) {
	s := openPgx(t, pgtest.Migrated(t), "")
	if _, err := s.db.Exec(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'audit is not configured'; end $$;
		create trigger refuse before insert on pawl_decision for each row execute function refuse()`); err != nil {
		t.Fatal(err)
	}
	_, err := outcomes(t, s, pawl.Config{}, []pawl.Record{pawltest.JSON(entry{ID: "1"}), pawltest.JSON(entry{ID: "2"})}, func(r *pawl.Runner[pgx.Tx]) {
		pawl.Handle(r, onTopic("a"), entries(), func(context.Context, pgx.Tx, pawl.Envelope[entry]) error { return nil })
	})
	if err == nil || !strings.Contains(err.Error(), string(pawl.StateLatched)) || !strings.Contains(err.Error(), "audit is not configured") {
		t.Errorf("got %v, want that the consumer is latched and says why", err)
	}
	if n := s.int(t, `select count(*) from pawl_quarantine`); n != 0 {
		t.Errorf("%d records were set aside", n)
	}
}

// As much for the note that is made before a record is tried alone, after deaths.
func TestANoteThatFailsBlamesNoRecord(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		failNotes(t, openSQLite(t, ""), `create trigger refuse before insert on pawl_attempt begin select raise(abort, 'audit is not configured'); end`)
	})
	t.Run("pgx", func(t *testing.T) {
		failNotes(t, openPgx(t, pgtest.Migrated(t), ""), `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'audit is not configured'; end $$;
			create trigger refuse before insert on pawl_attempt for each row execute function refuse()`)
	})
}

func failNotes[Tx any](t *testing.T, s *opened[Tx], refuse string) {
	consume := func(ids ...string) error {
		var records []pawl.Record
		for _, id := range ids {
			records = append(records, pawltest.JSON(entry{ID: id}))
		}
		_, err := outcomes(t, s, pawl.Config{MaxTries: 2}, records, func(r *pawl.Runner[Tx]) {
			pawl.Handle(r, onTopic("a"), entries(), func(context.Context, Tx, pawl.Envelope[entry]) error { return nil })
		})
		return err
	}
	if err := consume("1"); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{refuse, `update pawl_progress set crashes = 2`} {
		if _, err := s.db.Exec(change); err != nil {
			t.Fatal(err)
		}
	}
	if err := consume("1", "2"); err == nil || !strings.Contains(err.Error(), string(pawl.StateLatched)) {
		t.Errorf("got %v, want that the consumer is latched", err)
	}
	if n := s.int(t, `select count(*) from pawl_quarantine`); n != 0 {
		t.Errorf("%d records were set aside", n)
	}
}

// A record that always uses up its handler's time is set aside in the end, and routes do not share the time of one.
func TestARecordThatIsAlwaysTooSlowIsSetAside(t *testing.T) {
	s := openPgx(t, pgtest.Migrated(t), ledgerSchema)
	got, err := outcomes(t, s, pawl.Config{HandlerTimeout: 150 * time.Millisecond, MaxTries: 2}, []pawl.Record{pawltest.JSON(entry{ID: "1"}), pawltest.JSON(entry{ID: "2"})},
		func(r *pawl.Runner[pgx.Tx]) {
			for _, name := range []string{"a", "b", "c"} {
				pawl.Handle(r, onTopic(name), entries(), func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[entry]) error {
					seconds := 0.1
					if name == "b" && e.Key == "1" {
						seconds = 5
					}
					_, err := tx.Exec(ctx, `select pg_sleep($1)`, seconds)
					return err
				})
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range got {
		want := pawl.Applied
		if name == "b" {
			want = pawl.Quarantined
		}
		if len(o) != 2 || o[0] != want || o[1] != pawl.Applied {
			t.Errorf("%s: %v", name, o)
		}
	}
}

// A record that was found to fail alone, and whose key is decided elsewhere meanwhile, is a duplicate and no race without
// end.
func TestAConvictedRecordWhoseKeyIsDecidedMeanwhileIsADuplicate(t *testing.T) {
	s := openPgx(t, pgtest.Migrated(t), ledgerSchema)
	pawltest.RunBatch(t, s.Store, entries(), func(context.Context, pgx.Tx, *pawl.Batch[entry]) error {
		return pawl.Ignore("nothing here for us")
	}, pawltest.JSON(entry{ID: "1"}), pawltest.On(1, pawltest.JSON(entry{ID: "1"})), pawltest.On(2, pawltest.JSON(entry{ID: "1"})))
	if n := s.int(t, `select count(*) from pawl_decision where outcome = 4`); n != 1 {
		t.Errorf("%d decisions, want 1", n)
	}
}

// A start that is refused has changed nothing.
func TestARefusedRenameChangesNothing(t *testing.T) {
	s := openPgx(t, pgtest.Migrated(t), ledgerSchema)
	open := func(routes ...pawl.RouteName) error {
		_, err := s.Store.Open(t.Context(), pawl.Binding{Consumer: "c", Cluster: "k", Group: "g", Version: "v", Routes: routes})
		return err
	}
	if err := open(pawl.RouteName{Name: "a"}, pawl.RouteName{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	before := s.int(t, `select id from pawl_scope where route = 'a'`)
	if err := open(pawl.RouteName{Name: "b", RenamedFrom: "a"}); err == nil {
		t.Fatal("both names have claims, and it was not refused")
	}
	if after := s.int(t, `select id from pawl_scope where route = 'a'`); after != before {
		t.Errorf("scope %d became %d", before, after)
	}
}

// More event types than are cached: each decision keeps the type it had.
func TestMoreTypesThanAreCachedKeepTheirNames(t *testing.T) {
	s := openPgx(t, pgtest.Migrated(t), "")
	b, err := s.Store.Open(t.Context(), pawl.Binding{Consumer: "c", Cluster: "k", Group: "g", Version: "v", Routes: []pawl.RouteName{{Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := b.Acquire(t.Context(), pawl.Partition{Topic: "t"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	settle := func(types ...string) {
		w := &pawl.Work[pgx.Tx]{Now: time.Unix(1, 0)}
		for _, kind := range types {
			key := string(rune('a'+next%26)) + time.Duration(next).String()
			w.Decisions = append(w.Decisions, &pawl.Decision{
				Record: &pawl.Record{Offset: next, Timestamp: time.Unix(1, 0)}, Mode: pawl.Live, Outcome: pawl.Applied,
				Identity: pawl.Identity{Key: key, Type: kind}, KeyID: pawl.NewKeyID(key), Fingerprint: pawl.Fingerprint{1},
			})
			next++
		}
		w.Next = next
		w.Run = func(context.Context, pawl.Session[pgx.Tx]) error { return nil }
		if err := b.Apply(t.Context(), o, w); err != nil {
			t.Fatal(err)
		}
	}
	var many []string
	for i := range 10_100 {
		many = append(many, "type "+time.Duration(i).String())
	}
	settle(many...)
	settle(many[0], "one more")
	if n := s.int(t, `select count(*) from pawl_decision d left join pawl_name n on n.id = d.type_id where n.id is null`); n != 0 {
		t.Errorf("%d decisions have lost their type", n)
	}
}
