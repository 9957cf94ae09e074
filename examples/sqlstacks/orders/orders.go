// Package orders is what the handlers of this module have in common: the event, its identity, and the table it changes.
package orders

import (
	_ "embed"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

// Schema creates the table, on SQLite and on PostgreSQL.
//
//go:embed schema.sql
var Schema string

// Event says what an order has become.
type Event struct {
	ID         string `json:"id"`
	OrderID    string `json:"order_id"`
	Version    int64  `json:"version"`
	Status     string `json:"status"`
	TotalCents int64  `json:"total_cents"`
}

// Decoder decodes events: each is applied once by its ID, and the events of an order have an order of their own.
var Decoder = decode.JSON(func(_ pawl.Meta, e Event) pawl.Identity {
	return pawl.Identity{Key: e.ID, EventID: e.ID, StreamType: "order", Stream: e.OrderID, Version: e.Version}
})
