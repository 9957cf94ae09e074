package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// note adds the acts that a query returns to the audit, at the end of their chain. They are all of one operation, or all of
// none.
func (t *transaction) note(ctx context.Context, name string, args ...any) error {
	acts, err := t.acts(ctx, name, args...)
	if err != nil || len(acts) == 0 {
		return err
	}
	chain, id := "consumer_chain", acts[0].Consumer
	if acts[0].Operation != 0 {
		chain, id = "operation_chain", acts[0].Operation
	}
	var length int64
	var head []byte
	if err := t.QueryRowContext(ctx, query(chain), id).Scan(&length, &head); err != nil {
		return err
	}
	for i := range acts {
		r := &acts[i]
		length++
		r.Number, r.Salt = length, make([]byte, 16)
		rand.Read(r.Salt) // never fails
		r.Digest = r.Sum()
		head = pawl.ChainSum(head, r.Digest)
		_, err := t.ExecContext(ctx, query("insert_act"), sql.Named("consumer", r.Consumer), sql.Named("operation", orNull(r.Operation)),
			sql.Named("item", orNull(r.Item)), sql.Named("what", r.What), sql.Named("by", r.By), sql.Named("why", r.Why),
			sql.Named("at", micros(r.At)), sql.Named("detail", orNull(r.Detail)), sql.Named("number", r.Number),
			sql.Named("salt", r.Salt), sql.Named("digest", r.Digest), sql.Named("chain", head))
		if err != nil {
			return err
		}
	}
	_, err = t.ExecContext(ctx, query("set_"+chain), sql.Named("id", id), sql.Named("length", length), sql.Named("head", head))
	return err
}

func (t *transaction) acts(ctx context.Context, name string, args ...any) (all []pawl.AuditRow, err error) {
	rows, err := t.QueryContext(ctx, query(name), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r pawl.AuditRow
		var operation, item sql.NullInt64
		var detail sql.NullString
		var at int64
		if err := rows.Scan(&r.Consumer, &operation, &item, &r.What, &r.By, &r.Why, &at, &detail); err != nil {
			return nil, err
		}
		r.Operation, r.Item, r.Detail, r.At = operation.Int64, item.Int64, detail.String, time.UnixMicro(at)
		all = append(all, r)
	}
	return all, rows.Err()
}

// AuditTrail walks over seals and chains. See pawl.Admin.
func (a *admin) AuditTrail(
	ctx context.Context, consumer string, seal func(*pawl.AuditSeal), row func(*pawl.AuditLink) error,
) error {
	var last *pawl.AuditSeal
	err := a.each(ctx, "audit_seals", func(scan func(...any) error) error {
		var s pawl.AuditSeal
		var h pawl.AuditHead
		var at int64
		if err := scan(&s.ID, &s.Consumer, &s.Number, &at, &s.Acts, &s.Hash, &s.Chain, &h.Operation, &h.Length, &h.Head); err != nil {
			return err
		}
		if last == nil || last.ID != s.ID {
			if last != nil {
				seal(last)
			}
			s.At = time.UnixMicro(at)
			last = &s
		}
		if h.Operation >= 0 {
			last.Heads = append(last.Heads, h)
		}
		return nil
	}, consumer)
	if err != nil {
		return fmt.Errorf("read the seals of %q: %w", consumer, err)
	}
	if last != nil {
		seal(last)
	}
	err = a.each(ctx, "audit_trail", func(scan func(...any) error) error {
		var l pawl.AuditLink
		var r pawl.AuditRow
		var at int64
		if err := scan(&l.Operation, &l.Length, &l.Head, &r.ID, &r.Consumer, &r.Item, &r.Number, &r.What, &r.By, &r.Why, &at,
			&r.Detail, &r.Salt, &r.Digest, &r.Chain, &r.Erased, &r.Old); err != nil {
			return err
		}
		if r.ID != 0 {
			r.Operation, r.At = l.Operation, time.UnixMicro(at)
			l.Row = &r
		}
		return row(&l)
	}, consumer)
	if err != nil {
		return fmt.Errorf("read the chains of %q: %w", consumer, err)
	}
	return nil
}

// SealAudit seals what was added. See pawl.Admin.
func (a *admin) SealAudit(ctx context.Context, consumer string, at time.Time) (sealed *pawl.AuditSeal, err error) {
	at = at.Truncate(time.Microsecond)
	err = a.write(ctx, func(tx *transaction) error {
		id, err := findConsumer(ctx, tx, consumer)
		if err != nil {
			return err
		}
		var last pawl.AuditSeal
		var sealedAt int64
		err = tx.QueryRowContext(ctx, query("last_seal"), id).Scan(&last.ID, &last.Consumer, &last.Number, &sealedAt, &last.Acts,
			&last.Hash, &last.Chain)
		switch {
		case err == nil:
			last.At = time.UnixMicro(sealedAt)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		heads, err := tx.unsealed(ctx, id)
		if err != nil {
			return err
		}
		if sealed = &last; len(heads) == 0 {
			return nil
		}
		sealed = pawl.NextSeal(&last, id, heads, at)
		of := sql.Named("consumer", id)
		err = tx.QueryRowContext(ctx, query("insert_seal"), of, sql.Named("number", sealed.Number), sql.Named("at", micros(at)),
			sql.Named("acts", sealed.Acts), sql.Named("hash", sealed.Hash), sql.Named("chain", sealed.Chain)).Scan(&sealed.ID)
		if err != nil {
			return err
		}
		for _, h := range heads {
			_, err := tx.ExecContext(ctx, query("insert_seal_head"), of, sql.Named("operation", h.Operation),
				sql.Named("length", h.Length), sql.Named("head", h.Head), sql.Named("seal", sealed.ID))
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

func (t *transaction) unsealed(ctx context.Context, consumer int64) (heads []pawl.AuditHead, err error) {
	rows, err := t.QueryContext(ctx, query("unsealed_heads"), sql.Named("consumer", consumer))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var h pawl.AuditHead
		if err := rows.Scan(&h.Operation, &h.Length, &h.Head, &h.Sealed); err != nil {
			return nil, err
		}
		heads = append(heads, h)
	}
	return heads, rows.Err()
}
