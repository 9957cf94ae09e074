// Package schema is what ent generates package gen from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Order is the table of orders/schema.sql.
type Order struct{ ent.Schema }

// Fields of the Order.
func (Order) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").Immutable(),
		field.String("status"),
		field.Int64("total_cents"),
		field.Int64("version"),
		field.Int64("changes"),
	}
}
