package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/sqlfile"
)

// Migration is one step of the schema. Once released it never changes.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns every step, in order, to read, to print, or to apply with a tool of one's own: each records itself in
// pawl_schema. There is no way down: a database that was migrated too far is restored.
func Migrations() []Migration {
	var all []Migration
	for _, m := range sqlfile.Migrations(files, "migration") {
		all = append(all, Migration(m))
	}
	return all
}

// Migrate brings the schema up to date, each step in a transaction of its own. Steps that are there already are passed
// over, so that several processes may migrate at once.
func (s *Store) Migrate(ctx context.Context) error {
	have, err := s.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	for _, m := range Migrations() {
		if have >= m.Version {
			continue
		}
		if err := s.migrate(ctx, m); err != nil {
			return fmt.Errorf("migrate to %d (%s): %w", m.Version, m.Name, err)
		}
		if err := fault.Hit(ctx, fault.MigrationStep); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) migrate(ctx context.Context, m Migration) error {
	return s.write(ctx, func(tx *transaction) error {
		if _, err := tx.ExecContext(ctx, query("create_schema_table")); err != nil {
			return err
		}
		var version int
		if err := tx.QueryRowContext(ctx, query("schema_version")).Scan(&version); err != nil || version >= m.Version {
			return err
		}
		_, err := tx.ExecContext(ctx, m.SQL)
		return err
	})
}

// SchemaVersion is the version that Pawl's tables have: that of the last migration, or 0 where there are none.
func (s *Store) SchemaVersion(ctx context.Context) (int, error) {
	version, err := schemaVersion(ctx, s.reader)
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

// asker is a transaction, or a pool.
type asker interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func schemaVersion(ctx context.Context, in asker) (version int, err error) {
	var there int
	if err := in.QueryRowContext(ctx, query("has_schema")).Scan(&there); err != nil || there == 0 {
		return 0, err
	}
	err = in.QueryRowContext(ctx, query("schema_version")).Scan(&version)
	return version, err
}

// checkSchema refuses a database that this code does not know how to use.
func checkSchema(ctx context.Context, tx *transaction) error {
	version, err := schemaVersion(ctx, tx)
	if err != nil {
		return err
	}
	want := len(Migrations())
	switch {
	case version == 0:
		return &pawl.Error{Op: "open store", Class: pawl.Misconfigured, Err: errors.New("the database has no pawl tables"),
			Hint: "run Migrate once, before the first start"}
	case version < want:
		return &pawl.Error{Op: "open store", Class: pawl.Misconfigured,
			Err: fmt.Errorf("the schema is at version %d, this code needs %d", version, want), Hint: "run Migrate"}
	case version > want:
		return &pawl.Error{Op: "open store", Class: pawl.Misconfigured,
			Err: fmt.Errorf("the schema is at version %d, this code knows %d", version, want), Hint: "run a newer version of the code"}
	}
	return nil
}
