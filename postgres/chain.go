package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// AuditTrail walks over seals and chains. See pawl.Admin.
func (a *admin[Tx]) AuditTrail(
	ctx context.Context, consumer string, seal func(*pawl.AuditSeal), row func(*pawl.AuditLink) error,
) error {
	var last *pawl.AuditSeal
	err := a.link.exec(ctx, stmt{sql: a.query["audit_seals"], args: []any{consumer}, row: func(scan func(...any) error) error {
		var s pawl.AuditSeal
		var h pawl.AuditHead
		if err := scan(&s.ID, &s.Consumer, &s.Number, &s.At, &s.Acts, &s.Hash, &s.Chain, &h.Operation, &h.Length, &h.Head); err != nil {
			return err
		}
		if last == nil || last.ID != s.ID {
			if last != nil {
				seal(last)
			}
			last = &s
		}
		if h.Operation >= 0 {
			last.Heads = append(last.Heads, h)
		}
		return nil
	}})
	if err != nil {
		return fmt.Errorf("read the seals of %q: %w", consumer, err)
	}
	if last != nil {
		seal(last)
	}
	err = a.link.exec(ctx, stmt{sql: a.query["audit_trail"], args: []any{consumer}, row: func(scan func(...any) error) error {
		var l pawl.AuditLink
		var r pawl.AuditRow
		var at *time.Time
		if err := scan(&l.Operation, &l.Length, &l.Head, &r.ID, &r.Consumer, &r.Item, &r.Number, &r.What, &r.By, &r.Why, &at,
			&r.Detail, &r.Salt, &r.Digest, &r.Chain, &r.Erased, &r.Old); err != nil {
			return err
		}
		if r.ID != 0 {
			r.Operation, r.At = l.Operation, timeOf(at)
			l.Row = &r
		}
		return row(&l)
	}})
	if err != nil {
		return fmt.Errorf("read the chains of %q: %w", consumer, err)
	}
	return nil
}

// SealAudit seals what was added. See pawl.Admin.
func (a *admin[Tx]) SealAudit(ctx context.Context, consumer string, at time.Time) (sealed *pawl.AuditSeal, err error) {
	at = at.Truncate(time.Microsecond)
	err = a.link.atomically(ctx, func(run func(...stmt) error) error {
		id, err := a.lockConsumer(run, consumer) // seals come one after the other
		if err != nil {
			return err
		}
		var last pawl.AuditSeal
		var heads []pawl.AuditHead
		err = run(
			stmt{sql: a.query["last_seal"], args: []any{id}, row: func(scan func(...any) error) error {
				return scan(&last.ID, &last.Consumer, &last.Number, &last.At, &last.Acts, &last.Hash, &last.Chain)
			}},
			stmt{sql: a.query["unsealed_heads"], args: []any{id}, row: func(scan func(...any) error) error {
				var h pawl.AuditHead
				err := scan(&h.Operation, &h.Length, &h.Head, &h.Sealed)
				heads = append(heads, h)
				return err
			}})
		if err != nil {
			return err
		}
		if sealed = &last; len(heads) == 0 {
			return nil
		}
		sealed = pawl.NextSeal(&last, int64(id), heads, at)
		err = run(stmt{sql: a.query["insert_seal"], args: []any{id, sealed.Number, at, sealed.Acts, sealed.Hash, sealed.Chain},
			row: func(scan func(...any) error) error { return scan(&sealed.ID) }})
		if err != nil {
			return err
		}
		for _, h := range heads {
			err := run(stmt{sql: a.query["insert_seal_head"], args: []any{id, h.Operation, h.Length, h.Head, sealed.ID}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("seal the audit of %q: %w", consumer, err)
	}
	return sealed, nil
}
