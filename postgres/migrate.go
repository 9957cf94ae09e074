package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/fault"
	"github.com/pawlhq/pawl/internal/sqlfile"
)

// Migration is one numbered step of Pawl's schema. Once released it never changes.
type Migration = sqlfile.Migration

// Migrations returns all steps in order, for reading or for a migration tool of one's own. That tool must also record
// each in pawl_schema (version, name, applied_at).
func Migrations() []Migration { return sqlfile.Migrations(files, "migration") }

// Migrate brings Pawl's tables to the version that this program needs. Each step is a transaction of its own; calling it
// again, or from several processes at once, is harmless. It needs the right to create tables, which Open and Apply do not.
func (s *Store[Tx]) Migrate(ctx context.Context) error {
	if err := s.link.exec(ctx, stmt{sql: s.query["create_schema_table"]}); err != nil && code(err) != "23505" && code(err) != "42P07" {
		return fmt.Errorf("create pawl_schema: %w", err) // the two codes: another process created it at this moment
	}
	for _, m := range Migrations() {
		var have int
		err := s.link.exec(ctx, stmt{sql: s.query["schema_version"], row: func(scan func(...any) error) error { return scan(&have) }})
		if err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
		if m.Version <= have {
			continue
		}
		err = s.link.script(ctx, stmt{sql: s.query["lock_migrations"]}, s.qual(m.SQL),
			stmt{sql: s.query["record_migration"], args: []any{int32(m.Version), m.Name, time.Now()}})
		if code(err) == "42P07" || code(err) == "23505" { // another process was first
			continue
		}
		if err != nil {
			return fmt.Errorf("migration %03d_%s: %w", m.Version, m.Name, err)
		}
		if err := fault.Hit(ctx, fault.MigrationStep); err != nil {
			return err
		}
	}
	return nil
}
