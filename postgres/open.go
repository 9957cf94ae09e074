package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl"
)

// Open binds a consumer. See pawl.Store.
func (s *Store[Tx]) Open(ctx context.Context, b pawl.Binding) (pawl.BoundStore[Tx], error) {
	if err := s.checkSettings(ctx); err != nil {
		return nil, err
	}
	if err := s.checkSchema(ctx); err != nil {
		return nil, err
	}
	tables, err := s.openTables(ctx, b.Tables)
	if err != nil {
		return nil, err
	}
	s.names.forget() // after a restore the ids that are cached may be of other names
	o := &bound[Tx]{Store: s, tables: tables}
	if err := o.bindConsumer(ctx, b); err != nil {
		return nil, err
	}
	if err := o.bindRoutes(ctx, b.Routes); err != nil {
		return nil, err
	}
	named, err := s.names.resolve(ctx, s, []string{b.Version})
	if err != nil {
		return nil, fmt.Errorf("intern code version: %w", err)
	}
	o.code = named[b.Version]
	timeout := max(b.HandlerTimeout, time.Millisecond) // zero would mean none
	if b.HandlerTimeout <= 0 {
		timeout = 30 * time.Second
	}
	o.begin = strings.NewReplacer(
		"{{statement_timeout}}", fmt.Sprintf("%dms", timeout.Milliseconds()),
		"{{idle_timeout}}", fmt.Sprintf("%dms", (timeout+time.Second).Milliseconds()),
	).Replace(s.query["begin"])
	return o, nil
}

// checkSettings refuses a server on which a commit may be lost after it was acknowledged: the offset in Kafka would then
// lead the effects for good.
func (s *Store[Tx]) checkSettings(ctx context.Context) error {
	var fsync, pages, sync, readOnly string
	var recovery bool
	err := s.link.exec(ctx, stmt{sql: s.query["settings"], row: func(scan func(...any) error) error {
		return scan(&fsync, &pages, &sync, &readOnly, &recovery)
	}})
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	refuse := func(what, hint string) error {
		return &pawl.Error{Op: "check PostgreSQL's settings", Class: pawl.Misconfigured, Err: errors.New(what), Hint: hint}
	}
	switch {
	case recovery:
		return refuse("the server is a standby", "connect to the primary")
	case readOnly == "on":
		return refuse("transactions are read-only here", "unset default_transaction_read_only for this role or database")
	case fsync == "off":
		return refuse("fsync is off: a crash can lose committed effects", "set fsync = on")
	case pages == "off":
		return refuse("full_page_writes is off: a crash can corrupt tables", "set full_page_writes = on")
	case sync == "off":
		return refuse("synchronous_commit is off: a crash can lose commits that were acknowledged, while Kafka's offset stays ahead of them",
			"alter role … set synchronous_commit = on")
	}
	return nil
}

func (s *Store[Tx]) checkSchema(ctx context.Context) error {
	want := Migrations()[len(Migrations())-1].Version
	refuse := func(what string) error {
		return &pawl.Error{Op: "check Pawl's tables", Class: pawl.Misconfigured, Err: errors.New(what),
			Hint: "call Migrate on the store, or apply what Migrations returns with your own tool"}
	}
	have, err := s.SchemaVersion(ctx)
	switch {
	case code(err) == "42501":
		return &pawl.Error{Op: "check Pawl's tables", Class: pawl.Misconfigured, Err: err,
			Hint: "this role has no right to do that: pawl doctor names those that running needs"}
	case err != nil:
		return err
	case have == 0:
		return refuse("they do not exist")
	case have < want:
		return refuse(fmt.Sprintf("they are at version %d, this program needs %d", have, want))
	case have > want:
		return &pawl.Error{Op: "check Pawl's tables", Class: pawl.Misconfigured,
			Err:  fmt.Errorf("they are at version %d, and this program knows %d", have, want),
			Hint: "run a program that is at least as new as the one that migrated them"}
	}
	return nil
}

func (s *bound[Tx]) bindConsumer(ctx context.Context, b pawl.Binding) error {
	var cluster, group string
	err := s.link.exec(ctx,
		stmt{sql: s.query["insert_consumer"], args: []any{b.Consumer, b.Cluster, b.Group, time.Now()}},
		stmt{sql: s.query["read_consumer"], args: []any{b.Consumer}, row: func(scan func(...any) error) error {
			return scan(&s.consumer, &cluster, &group)
		}})
	if err != nil {
		return fmt.Errorf("bind consumer %q: %w", b.Consumer, err)
	}
	if cluster != b.Cluster || group != b.Group {
		return &pawl.Error{
			Op: fmt.Sprintf("bind consumer %q", b.Consumer), Class: pawl.Misconfigured,
			Err:  fmt.Errorf("it belongs to group %q of cluster %q, not to group %q of cluster %q", group, cluster, b.Group, b.Cluster),
			Hint: "positions and claims of one group mean nothing to another: use another consumer name, or that group",
		}
	}
	return nil
}

func (s *bound[Tx]) bindRoutes(ctx context.Context, routes []pawl.RouteName) error {
	ids, err := s.readScopes(ctx)
	if err != nil {
		return err
	}
	for _, r := range routes { // before anything is written
		_, old := ids[r.RenamedFrom]
		if _, both := ids[r.Name]; old && both && r.RenamedFrom != "" {
			return &pawl.Error{
				Op: fmt.Sprintf("rename route %q to %q", r.RenamedFrom, r.Name), Class: pawl.Misconfigured,
				Err:  errors.New("both names have claims already"),
				Hint: "the new name was run before the rename was declared: its events may have taken effect twice; drop RenamedFrom to go on with the new name alone",
			}
		}
	}
	now := time.Now()
	for _, r := range routes {
		stmts := []stmt{{sql: s.query["insert_scope"], args: []any{s.consumer, r.Name, now}}}
		if _, old := ids[r.RenamedFrom]; old && r.RenamedFrom != "" {
			stmts[0] = stmt{sql: s.query["rename_scope"], args: []any{s.consumer, r.Name, r.RenamedFrom}}
		}
		if err := s.link.exec(ctx, stmts...); err != nil {
			return fmt.Errorf("bind route %q: %w", r.Name, err)
		}
	}
	if ids, err = s.readScopes(ctx); err != nil {
		return err
	}
	for _, r := range routes {
		id, ok := ids[r.Name]
		if !ok {
			return fmt.Errorf("bind route %q: another process renamed it at this moment", r.Name)
		}
		s.scopes = append(s.scopes, id)
	}
	return nil
}

func (s *bound[Tx]) readScopes(ctx context.Context) (map[string]int32, error) {
	ids := map[string]int32{}
	err := s.link.exec(ctx, stmt{sql: s.query["read_scopes"], args: []any{s.consumer}, row: func(scan func(...any) error) error {
		var id int32
		var name string
		err := scan(&id, &name)
		ids[name] = id
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	return ids, nil
}

// names caches the ids of interned names. A name's row is committed before its id is known here, so an id never dangles.
type names struct {
	mu  sync.Mutex
	ids map[string]int32
}

// mostNames bounds the cache; a consumer with more event types than that starts it over now and then.
const mostNames = 10_000

func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids = nil
}

// intern returns the ids of every name of the batch: the cache itself may be started over at any moment.
func (s *Store[Tx]) intern(ctx context.Context, ds []*pawl.Decision) (map[string]int32, error) {
	var list []string
	for i, d := range ds {
		for _, name := range [...]string{d.Identity.Type, d.Identity.StreamType} {
			if name != "" && (i == 0 || name != ds[i-1].Identity.Type && name != ds[i-1].Identity.StreamType) {
				list = append(list, name)
			}
		}
	}
	return s.names.resolve(ctx, s, list)
}

// internMore adds the names of events that joined the batch within the transaction, because they had waited for it: when the names
// of the batch were interned, nobody knew of them. A name that nobody has seen yet is written by the transaction, and is not cached:
// it may be undone.
func (s *Store[Tx]) internMore(ctx context.Context, t txn[Tx], ds []*pawl.Decision, named map[string]int32) error {
	var list []string
	for _, d := range ds {
		if d.Kept == nil {
			continue
		}
		for _, name := range [...]string{d.Identity.Type, d.Identity.StreamType} {
			if _, ok := named[name]; name != "" && !ok && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	missing := s.names.known(list, named)
	if len(missing) == 0 {
		return nil
	}
	return t.exec(ctx, s.internStmts(missing, func(id int32, name string) { named[name] = id })...)
}

// interner is what resolve needs of a Store, whatever its Tx.
type interner interface {
	internNames(ctx context.Context, list []string, each func(int32, string)) error
}

// known adds the ids that are cached to found, and returns the names of the others.
func (n *names) known(list []string, found map[string]int32) (missing []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range list {
		if id, ok := n.ids[name]; ok {
			found[name] = id
		} else {
			missing = append(missing, name)
		}
	}
	return missing
}

// resolve returns the id of each name, from the cache or from the database.
func (n *names) resolve(ctx context.Context, s interner, list []string) (map[string]int32, error) {
	found := make(map[string]int32, len(list))
	missing := n.known(list, found)
	if len(missing) == 0 {
		return found, nil
	}
	fresh := map[string]int32{}
	if err := s.internNames(ctx, missing, func(id int32, name string) { fresh[name] = id }); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ids == nil || len(n.ids) > mostNames {
		n.ids = map[string]int32{}
	}
	for name, id := range fresh {
		n.ids[name], found[name] = id, id
	}
	return found, nil
}

func (s *Store[Tx]) internNames(ctx context.Context, list []string, each func(int32, string)) error {
	return s.link.exec(ctx, s.internStmts(list, each)...)
}

func (s *Store[Tx]) internStmts(list []string, each func(int32, string)) []stmt {
	return []stmt{
		{sql: s.query["insert_names"], args: []any{list}},
		{sql: s.query["read_names"], args: []any{list}, row: func(scan func(...any) error) error {
			var id int32
			var name string
			err := scan(&id, &name)
			each(id, name)
			return err
		}},
	}
}
