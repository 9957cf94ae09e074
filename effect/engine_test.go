package effect_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/effect"
	"github.com/pawlhq/pawl/internal/sqlitetest"
	"github.com/pawlhq/pawl/pawltest"
	"github.com/pawlhq/pawl/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fact is an event of the tests that run through the engine and a database.
type fact struct {
	Key      string
	Corrects string
	Stream   string
	Version  int64
	Status   string
	Amount   string
}

var facts = decode.JSON(func(_ pawl.Meta, f fact) pawl.Identity {
	return pawl.Identity{Key: f.Key, Supersedes: f.Corrects, Stream: f.Stream, Version: f.Version, OccurredAt: noon}
})

func text(name string) effect.Column[fact] {
	return effect.Text(name, func(e *pawl.Envelope[fact]) string { return e.Body.Status })
}

// database is a store with the tables of an effect, and another way to look at them.
type database struct {
	*sqlite.Store
	beside *sql.DB
}

func openWith(e pawl.Effect[fact]) func(t testing.TB) database {
	return func(t testing.TB) database {
		t.Helper()
		path := sqlitetest.Migrated(t)
		store, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		tables, err := e.Tables()
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range tables {
			if _, err := db.Exec(sqlite.DDL(table)); err != nil {
				t.Fatal(err)
			}
		}
		return database{store, db}
	}
}

// rows shows a table.
func (d database) rows(t testing.TB, query string) string {
	t.Helper()
	rows, err := d.beside.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		cells, at := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			at[i] = &cells[i]
		}
		if err := rows.Scan(at...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSuffix(fmt.Sprintln(cells...), "\n"))
	}
	return strings.Join(lines, "; ")
}

// Each effect, through the engine and a database: first at once, then with a crash in every window.
func TestEffectsOnADatabase(t *testing.T) {
	for name, c := range map[string]struct {
		effect func() pawl.Effect[fact]
		facts  []fact
		want   []pawl.Outcome
		query  string
		rows   string
	}{
		"projection": {
			func() pawl.Effect[fact] {
				return &effect.Projection[fact]{
					Table: "cases", Stream: "id", Version: "version", Columns: []effect.Column[fact]{text("status")}, Early: effect.Early{Hold: time.Hour}, States: true,
				}
			},
			[]fact{
				{Key: "a", Stream: "s", Version: 1, Status: "A"}, {Key: "d", Stream: "s", Version: 4, Status: "D"}, {Key: "c", Stream: "s", Version: 3, Status: "C"},
				{Key: "f", Stream: "s", Version: 6, Status: "F"}, {Key: "b", Stream: "s", Version: 2, Status: "B"}, {Key: "x", Stream: "s", Version: 4, Status: "D"},
				{Key: "y", Stream: "s", Version: 4, Status: "other"}, {Key: "z", Stream: "s", Version: 1, Status: "A"}, {Key: "t", Stream: "t", Version: 1, Status: "T"},
			},
			[]pawl.Outcome{pawl.Applied, pawl.Applied, pawl.Applied, pawl.Held, pawl.Applied, pawl.Duplicate, pawl.Quarantined, pawl.WasStale, pawl.Applied},
			"select * from cases order by id", "s 4 D; t 1 T",
		},
		"workflow": {
			func() pawl.Effect[fact] {
				return &effect.Workflow[fact]{
					Table: "flow", Stream: "id", Version: "version", State: "state", Initial: []string{"A"}, Transitions: map[string][]string{"A": {"B"}, "B": {"C"}},
					To: func(e *pawl.Envelope[fact]) (string, error) { return e.Body.Status, nil }, Early: effect.Early{Hold: time.Hour},
				}
			},
			[]fact{
				{Key: "b", Stream: "s", Version: 2, Status: "B"}, {Key: "a", Stream: "s", Version: 1, Status: "A"}, {Key: "x", Stream: "s", Version: 3, Status: "A"},
				{Key: "c", Stream: "s", Version: 3, Status: "C"},
			},
			[]pawl.Outcome{pawl.Applied, pawl.Applied, pawl.Quarantined, pawl.Applied},
			"select * from flow", "s 3 C",
		},
		"ledger": {
			func() pawl.Effect[fact] {
				return &effect.Ledger[fact]{
					Table: "entries", Key: "k", Line: "line", Account: "account", Amount: "amount", Balances: "balances", Balanced: true,
					NoNegative: func(a string) bool { return a != "cash" }, States: true,
					Post: func(e *pawl.Envelope[fact]) ([]effect.Posting, error) {
						return []effect.Posting{{Account: "cash", Amount: "-" + e.Body.Amount}, {Account: e.Body.Stream, Amount: e.Body.Amount}}, nil
					},
				}
			},
			[]fact{{Key: "a", Stream: "alice", Amount: "0.1"}, {Key: "b", Stream: "alice", Amount: "0.2"}, {Key: "c", Stream: "bob", Amount: "x"}, {Key: "b", Stream: "alice", Amount: "0.2"}},
			[]pawl.Outcome{pawl.Applied, pawl.Applied, pawl.Quarantined, pawl.Duplicate},
			"select account, balance from balances union all select k, count(*) from entries group by 1 order by 1", "a 2; alice 0.3; b 2; cash -0.3",
		},
		"counter": {
			func() pawl.Effect[fact] {
				return &effect.Counter[fact]{
					Table: "totals", Group: []effect.Column[fact]{text("status")},
					Sum:           []effect.Column[fact]{effect.Int("n", func(*pawl.Envelope[fact]) int64 { return 1 }), effect.Decimal("amount", func(e *pawl.Envelope[fact]) string { return e.Body.Amount })},
					Contributions: effect.Contributions{Table: "contributions"},
				}
			},
			[]fact{
				{Key: "a", Status: "x", Amount: "1.5"}, {Key: "b", Status: "x", Amount: "1"}, {Key: "c", Corrects: "a", Status: "y", Amount: "7"},
				{Key: "e", Corrects: "d", Status: "y", Amount: "2"}, {Key: "d", Status: "z", Amount: "9"}, {Key: "f", Corrects: "a", Status: "z", Amount: "9"},
			},
			[]pawl.Outcome{pawl.Applied, pawl.Applied, pawl.Applied, pawl.Applied, pawl.Superseded, pawl.Quarantined},
			"select status, n, amount from totals order by 1", "x 1 1.0; y 2 9",
		},
		"audit": {
			func() pawl.Effect[fact] {
				return &effect.Audit[fact]{Table: "audit", Key: "k", Columns: []effect.Column[fact]{text("status")}}
			},
			[]fact{{Key: "a", Status: "x"}, {Key: "a", Status: "x"}, {Key: "b", Status: "y"}, {Key: "b", Status: "z"}},
			[]pawl.Outcome{pawl.Applied, pawl.Duplicate, pawl.Applied, pawl.Quarantined},
			"select * from audit order by k", "a x; b y",
		},
		"state": {
			func() pawl.Effect[fact] {
				return &effect.State[fact]{
					Table: "state", Stream: "id", Columns: []effect.Column[fact]{text("status")}, Tombstone: func(e *pawl.Envelope[fact]) bool { return e.Body.Status == "" },
				}
			},
			[]fact{{Key: "a", Stream: "s", Status: "x"}, {Key: "b", Stream: "t", Status: "y"}, {Key: "c", Stream: "s"}, {Key: "d", Stream: "t", Status: "z"}, {Key: "e", Stream: "s"}},
			[]pawl.Outcome{pawl.Applied, pawl.Applied, pawl.Applied, pawl.Applied, pawl.Ignored},
			"select * from state", "t z",
		},
		"commands": {
			func() pawl.Effect[fact] {
				return &effect.Commands[fact]{
					Table: "alerts", ID: "id", Columns: []effect.Column[fact]{text("status")}, Identify: func(e *pawl.Envelope[fact]) (string, error) { return e.Body.Stream, nil },
				}
			},
			[]fact{{Key: "a", Stream: "s", Status: "x"}, {Key: "b", Stream: "s", Status: "x"}, {Key: "c", Stream: "s", Status: "y"}, {Key: "d"}},
			[]pawl.Outcome{pawl.Applied, pawl.Ignored, pawl.Quarantined, pawl.Ignored},
			"select * from alerts", "s x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			records := make([]pawl.Record, len(c.facts))
			for i, f := range c.facts {
				records[i] = pawltest.JSON(f)
			}
			e := c.effect()
			db := openWith(e)(t)
			pawltest.RunEffect(t, db, facts, e, records...).Want(c.want...)
			if got := db.rows(t, c.query); got != c.rows {
				t.Errorf("rows: %s\nwant: %s", got, c.rows)
			}
			e = c.effect()
			pawltest.EveryCrashEffect(t, openWith(e), facts, e, records, func(t testing.TB, db database) {
				if got := db.rows(t, c.query); got != c.rows {
					t.Errorf("rows: %s\nwant: %s", got, c.rows)
				}
			})
		})
	}
}

// A source of truth is asked between two tries of a batch, and its answer is in the database with what was held.
func TestARequeryOnADatabase(t *testing.T) {
	asked := 0
	e := &effect.Projection[fact]{
		Table: "cases", Stream: "id", Version: "version", Columns: []effect.Column[fact]{text("status")},
		Early: effect.Early{Then: effect.Requery, Source: effect.SourceFunc(func(context.Context, string) (pawl.Answer, bool, error) {
			asked++
			return pawl.Answer{Version: 5, Values: map[string]any{"status": "truth"}}, true, nil
		})},
	}
	db := openWith(e)(t)
	pawltest.RunEffect(t, db, facts, e,
		pawltest.JSON(fact{Key: "a", Stream: "s", Version: 1, Status: "A"}), pawltest.JSON(fact{Key: "c", Stream: "s", Version: 3, Status: "C"}),
		pawltest.JSON(fact{Key: "f", Stream: "s", Version: 6, Status: "F"}),
	).Want(pawl.Applied, pawl.Superseded, pawl.Applied)
	if got := db.rows(t, "select * from cases"); got != "s 6 F" || asked != 1 {
		t.Errorf("rows: %s; asked %d times", got, asked)
	}
}
