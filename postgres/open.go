package postgres

import (
	"context"
	"errors"
	"fmt"
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
	o := &bound[Tx]{Store: s}
	if err := o.bindConsumer(ctx, b); err != nil {
		return nil, err
	}
	if err := o.bindRoutes(ctx, b.Routes); err != nil {
		return nil, err
	}
	if err := s.names.load(ctx, s, []string{b.Version}); err != nil {
		return nil, fmt.Errorf("intern code version: %w", err)
	}
	o.code = s.names.get(b.Version)
	timeout := b.HandlerTimeout
	if timeout <= 0 {
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
	var have int
	err := s.link.exec(ctx, stmt{sql: s.query["schema_version"], row: func(scan func(...any) error) error { return scan(&have) }})
	switch {
	case code(err) == "42P01":
		return refuse("they do not exist")
	case err != nil:
		return fmt.Errorf("read schema version: %w", err)
	case have < want:
		return refuse(fmt.Sprintf("they are at version %d, this program needs %d", have, want))
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
	now := time.Now()
	for _, r := range routes {
		if r.RenamedFrom != "" {
			if err := s.link.exec(ctx, stmt{sql: s.query["rename_scope"], args: []any{s.consumer, r.Name, r.RenamedFrom}}); err != nil {
				return fmt.Errorf("rename route %q to %q: %w", r.RenamedFrom, r.Name, err)
			}
		}
	}
	for _, r := range routes {
		if err := s.link.exec(ctx, stmt{sql: s.query["insert_scope"], args: []any{s.consumer, r.Name, now}}); err != nil {
			return fmt.Errorf("bind route %q: %w", r.Name, err)
		}
	}
	ids := map[string]int32{}
	err := s.link.exec(ctx, stmt{sql: s.query["read_scopes"], args: []any{s.consumer}, row: func(scan func(...any) error) error {
		var id int32
		var name string
		err := scan(&id, &name)
		ids[name] = id
		return err
	}})
	if err != nil {
		return fmt.Errorf("read routes: %w", err)
	}
	for _, r := range routes {
		if _, both := ids[r.RenamedFrom]; both && r.RenamedFrom != "" {
			return &pawl.Error{
				Op: fmt.Sprintf("rename route %q to %q", r.RenamedFrom, r.Name), Class: pawl.Misconfigured,
				Err:  errors.New("both names have claims already"),
				Hint: "the new name was run before the rename was declared: its events may have taken effect twice; drop RenamedFrom to go on with the new name alone",
			}
		}
		s.scopes = append(s.scopes, ids[r.Name])
	}
	return nil
}

// names caches the ids of interned names. A name's row is committed before its id is known here, so an id never dangles.
type names struct {
	mu  sync.RWMutex
	ids map[string]int32
}

// mostNames bounds the cache; a consumer with more event types than that starts it over now and then.
const mostNames = 10_000

func (n *names) get(name string) int32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.ids[name]
}

func (n *names) has(name string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, ok := n.ids[name]
	return ok || name == ""
}

func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids = nil
}

// intern makes sure that every name of the batch has an id.
func (s *Store[Tx]) intern(ctx context.Context, ds []*pawl.Decision) error {
	var missing []string
	for _, d := range ds {
		for _, name := range [...]string{d.Identity.Type, d.Identity.StreamType} {
			if !s.names.has(name) {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := s.names.load(ctx, s, missing); err != nil {
		return fmt.Errorf("intern names: %w", err)
	}
	return nil
}

// interner is what load needs of a Store, whatever its Tx.
type interner interface {
	internNames(ctx context.Context, list []string, each func(int32, string)) error
}

func (n *names) load(ctx context.Context, s interner, list []string) error {
	got := map[string]int32{}
	if err := s.internNames(ctx, list, func(id int32, name string) { got[name] = id }); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ids == nil || len(n.ids) > mostNames {
		n.ids = map[string]int32{}
	}
	for name, id := range got {
		n.ids[name] = id
	}
	return nil
}

func (s *Store[Tx]) internNames(ctx context.Context, list []string, each func(int32, string)) error {
	return s.link.exec(ctx,
		stmt{sql: s.query["insert_names"], args: []any{list}},
		stmt{sql: s.query["read_names"], args: []any{list}, row: func(scan func(...any) error) error {
			var id int32
			var name string
			err := scan(&id, &name)
			each(id, name)
			return err
		}})
}
