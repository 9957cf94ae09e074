package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"sync"
)

// names remembers the ids of interned names. It holds only what is committed.
type names struct {
	mu  sync.Mutex
	ids map[string]int64
}

// maxNames bounds the memory for names that never repeat.
const maxNames = 4096

// id returns the id of name, made in tx where it is new. What it had to ask the database for is put in fresh, to keep
// after the commit.
func (n *names) id(ctx context.Context, tx *transaction, name string, fresh map[string]int64) (int64, error) {
	n.mu.Lock()
	id, ok := n.ids[name]
	n.mu.Unlock()
	if ok {
		return id, nil
	}
	if id, ok := fresh[name]; ok {
		return id, nil
	}
	err := tx.QueryRowContext(ctx, query("find_name"), name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, query("insert_name"), name).Scan(&id)
	}
	if err != nil {
		return 0, err
	}
	fresh[name] = id
	return id, nil
}

// keep adds what a transaction has committed.
func (n *names) keep(fresh map[string]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ids == nil || len(n.ids)+len(fresh) > maxNames {
		n.ids = map[string]int64{}
	}
	maps.Copy(n.ids, fresh)
}

// forget drops everything: the database may give these ids to other names.
func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids = nil
}
