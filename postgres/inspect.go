package postgres

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl"
)

// Inspection is what a server says of itself and of the role that asks.
type Inspection struct {
	Version string // of the server
	Role    string
	Schema  string // that Pawl's tables are in

	Superuser bool
	Excess    []string // further rights that running consumers never need, such as "create tables in schema public"
	Missing   []string // rights on Pawl's tables that running consumers need, such as "insert on pawl_decision"

	Connections   int // that the server gives to ordinary roles, all together
	RoleLimit     int // of them to this role; negative: any number
	DatabaseLimit int // of them to this database; negative: any number
	Others        int // that other roles have now

	Clock time.Duration // by how much the server's clock is ahead of this machine's, to half a round trip
}

// Inspect looks a server over, and changes nothing.
func (s *Store[Tx]) Inspect(ctx context.Context) (*Inspection, error) {
	in := &Inspection{}
	var createRole, createDB, bypass, creates bool
	var now time.Time
	began := time.Now()
	err := s.link.exec(ctx, stmt{sql: s.query["inspect_server"], args: []any{s.schema}, row: func(scan func(...any) error) error {
		return scan(&in.Version, &in.Role, &in.Superuser, &createRole, &createDB, &bypass, &in.Schema, &creates, &in.Connections, &in.RoleLimit,
			&in.DatabaseLimit, &in.Others, &now)
	}})
	if err != nil {
		return nil, fmt.Errorf("inspect the server: %w", err)
	}
	in.Clock = now.Sub(began.Add(time.Since(began) / 2))
	for _, right := range []struct {
		has  bool
		name string
	}{
		{createRole, "create roles"}, {createDB, "create databases"}, {bypass, "bypass row security"}, {creates, "create tables in schema " + in.Schema},
	} {
		if right.has {
			in.Excess = append(in.Excess, right.name)
		}
	}
	var tables, rights []string
	for _, n := range needs() {
		tables, rights = append(tables, s.qual(n.table)), append(rights, n.right)
	}
	err = s.link.exec(ctx, stmt{sql: s.query["inspect_rights"], args: []any{tables, rights}, row: func(scan func(...any) error) error {
		var table, right string
		err := scan(&table, &right)
		in.Missing = append(in.Missing, right+" on "+table)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("inspect the role's rights: %w", err)
	}
	return in, nil
}

// need is a right on one of Pawl's tables.
type need struct{ table, right string }

var (
	statement = regexp.MustCompile(`(?i)\b(insert\s+into|update|delete\s+from|from|join)\s+(?:only\s+)?(pawl_[a-z_]+)\b(\(?)`)
	upsert    = regexp.MustCompile(`(?is)^\s+(pawl_[a-z_]+)\b[^;]*\bdo\s+update\b`)
	inserts   = regexp.MustCompile(`(?i)\binsert\s+into\b`)
	locks     = regexp.MustCompile(`(?is)\bfrom\s+(pawl_[a-z_]+)\b[^;()]*\bfor\s+(?:no\s+key\s+)?update\b(\s+of\b)?`)
	body      = regexp.MustCompile(`(?s)\$\$.*?\$\$`)
	rightOf   = map[byte]string{'i': "insert", 'u': "update", 'd': "delete", 'f': "select", 'j': "select"}
)

// needs are the rights that running takes. They are read off the statements themselves, so that none is forgotten: the
// queries, and the bodies of functions, which run with the caller's rights.
var needs = sync.OnceValue(func() []need {
	found := map[need]bool{}
	read := func(sql string) {
		for _, m := range statement.FindAllStringSubmatch(sql, -1) {
			if m[3] == "" { // else it is a function
				found[need{m[2], rightOf[m[1][0]|0x20]}] = true
			}
		}
		for _, rest := range inserts.Split(sql, -1)[1:] {
			if m := upsert.FindStringSubmatch(rest); m != nil {
				found[need{m[1], "update"}] = true
			}
		}
		for _, m := range locks.FindAllStringSubmatch(sql, -1) {
			if m[2] == "" { // else it is of another table, which is also updated
				found[need{m[1], "update"}] = true
			}
		}
	}
	for _, q := range control {
		read(q)
	}
	for _, m := range Migrations() {
		for _, b := range body.FindAllString(m.SQL, -1) {
			read(b)
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b need) int {
		return slices.Compare([]string{a.table, a.right}, []string{b.table, b.right})
	})
})

// CheckSettings refuses a server on which a commit may be lost, as Open does.
func (s *Store[Tx]) CheckSettings(ctx context.Context) error { return s.checkSettings(ctx) }

// CheckTables refuses tables that declared effects could not rely on, as Open does.
func (s *Store[Tx]) CheckTables(ctx context.Context, tables []*pawl.Table) error {
	_, err := s.openTables(ctx, tables)
	return err
}

// Proxied reports whether something stands between the pool and the server that shares connections, such as PgBouncer: the
// process that answers is then not the one that was promised at login. Pawl works through it.
func Proxied(ctx context.Context, pool *pgxpool.Pool) (bool, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Release()
	var pid uint32
	if err := conn.QueryRow(ctx, control["inspect_backend"]).Scan(&pid); err != nil {
		return false, fmt.Errorf("ask which process answers: %w", err)
	}
	return pid != conn.Conn().PgConn().PID(), nil
}
