package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// Inspection is what a server says of itself, for a doctor.
type Inspection struct {
	Version           string
	Standby           bool
	ReadOnly          bool
	Fsync             bool
	FullPageWrites    bool
	SynchronousCommit string
	MaxConnections    int
	Connections       int  // of clients at the moment
	Superuser         bool // the role may do everything
	Creates           bool // the role may create tables
	Now               time.Time
	Lacking           []string // tables of Pawl that the role may not read or add to
}

// Inspect asks the server how it is set up. It changes nothing, and needs no migration.
func (s *Store[Tx]) Inspect(ctx context.Context) (*Inspection, error) {
	i := &Inspection{}
	tables := []string{s.qual("pawl_progress"), s.qual("pawl_decision"), s.qual("pawl_redelivery"), s.qual("pawl_quarantine"), s.qual("pawl_hold"), s.qual("pawl_audit")}
	err := s.link.exec(ctx,
		stmt{sql: s.query["inspect"], row: func(scan func(...any) error) error {
			return scan(&i.Version, &i.Standby, &i.ReadOnly, &i.Fsync, &i.FullPageWrites, &i.SynchronousCommit, &i.MaxConnections, &i.Connections,
				&i.Superuser, &i.Creates, &i.Now)
		}},
		stmt{sql: s.query["rights_lacking"], args: []any{tables}, row: func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			i.Lacking = append(i.Lacking, name)
			return err
		}})
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	return i, nil
}

// CheckTables refuses, all at once, tables of declared effects that are not there or would not keep their values: as Open does.
func (s *Store[Tx]) CheckTables(ctx context.Context, tables []*pawl.Table) error {
	_, err := s.openTables(ctx, tables)
	return err
}
