package postgres

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/sqlfile"
)

// Migration is one numbered step of Pawl's schema. Once released it never changes.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns all steps in order, for reading or for a migration tool of one's own. Each records itself in
// pawl_schema. With [InSchema] they name the schema, as the store will.
func Migrations(opts ...Option) []Migration {
	qual := qualifier(chosen(opts).schema)
	var all []Migration
	for _, m := range sqlfile.Migrations(files, "migration") {
		m.SQL = qual(m.SQL)
		all = append(all, Migration(m))
	}
	return all
}

// Migrate brings Pawl's tables to the version that this program needs. Each step is a transaction of its own; calling it
// again, or from several processes at once, is harmless. It needs the right to create tables, which Open and Apply do not.
func (s *Store[Tx]) Migrate(ctx context.Context) error {
	have, err := s.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	for _, m := range Migrations(InSchema(s.schema)) {
		if have >= m.Version {
			continue
		}
		version := stmt{sql: s.query["schema_version"], row: func(scan func(...any) error) error { return scan(&have) }}
		err := s.link.script(ctx, []stmt{{sql: s.query["lock_migrations"]}, {sql: s.query["create_schema_table"]}, version},
			func() string {
				if have >= m.Version { // another process was faster
					return ""
				}
				return m.SQL
			})
		if err != nil {
			return fmt.Errorf("migration %03d_%s: %w", m.Version, m.Name, err)
		}
		if err := fault.Hit(ctx, fault.MigrationStep); err != nil {
			return err
		}
	}
	return nil
}

// SchemaVersion is the version that Pawl's tables have: that of the last migration, or 0 where there are none.
func (s *Store[Tx]) SchemaVersion(ctx context.Context) (have int, err error) {
	err = s.link.exec(ctx, stmt{sql: s.query["schema_version"], row: func(scan func(...any) error) error { return scan(&have) }})
	switch {
	case code(err) == "42P01":
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return have, nil
}
