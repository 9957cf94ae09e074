// Package plainsql writes the handler in SQL, on the handler's transaction as it is.
package plainsql

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl"

	"github.com/pawlhq/pawl/examples/sqlstacks/orders"
)

// The guard is in the statement: a version that is not newer changes no row.
const apply = `
insert into orders (id, status, total_cents, version, changes)
values ($1, $2, $3, $4, 1)
on conflict (id) do update
set status      = excluded.status,
    total_cents = excluded.total_cents,
    version     = excluded.version,
    changes     = orders.changes + 1
where orders.version < excluded.version`

// Handler brings an order up to the event's version.
func Handler(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[orders.Event]) error {
	o := e.Body
	result, err := tx.ExecContext(ctx, apply, o.OrderID, o.Status, o.TotalCents, o.Version)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return pawl.Stale(fmt.Sprintf("order %s has version %d or newer", o.OrderID, o.Version))
	}
	return nil
}
