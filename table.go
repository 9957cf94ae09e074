package pawl

import (
	"context"
	"errors"
	"fmt"
)

// Table is a table of the user's that a declared effect keeps.
type Table struct {
	Name    string   // "accounts", or "billing.accounts"
	Key     int      // how many of the columns, from the first on, name a row: they are unique together
	Columns []Column // that the effect reads and writes; the table may have others, which must have defaults

	// Guard says that the column behind the key changes whenever its row does, as a version: Put compares it with what was
	// read, and Read need not lock.
	Guard bool
}

// Column is a column of a [Table].
type Column struct {
	Name    string
	Kind    Kind
	NotNull bool
}

// Kind is what a column holds, and which Go type its values have in a [Row]. A value of any kind may be nil.
type Kind uint8

const (
	KindText    Kind = iota + 1 // string
	KindInt                     // int64
	KindDecimal                 // string, a decimal number such as "-12.50", exact
	KindBool                    // bool
	KindTime                    // time.Time, to the microsecond, in UTC when it was read
	KindJSON                    // string, a JSON text; what is read need not be spelled as it was written
	KindBytes                   // []byte
)

func (k Kind) String() string {
	switch k {
	case KindText:
		return "text"
	case KindInt:
		return "int"
	case KindDecimal:
		return "decimal"
	case KindBool:
		return "bool"
	case KindTime:
		return "time"
	case KindJSON:
		return "json"
	case KindBytes:
		return "bytes"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Row is the values of a table's columns, in the order of [Table.Columns]; or of its key columns alone, where a key is asked
// for.
type Row []any

// Validate refuses a table that no store could keep.
func (t *Table) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("table %q: "+format, append([]any{t.Name}, args...)...))
	}
	if t.Name == "" {
		bad("the name is empty")
	}
	if t.Key < 1 || t.Key > len(t.Columns) {
		bad("%d of %d columns are its key", t.Key, len(t.Columns))
	}
	if t.Guard && (t.Key >= len(t.Columns) || !t.Columns[t.Key].NotNull) {
		bad("the column behind the key is its guard, and must be there and not null")
	}
	seen := map[string]bool{}
	for i, c := range t.Columns {
		switch {
		case i < t.Key && (c.Kind == KindDecimal || c.Kind == KindJSON):
			bad("column %q is part of the key, and %s: what is equal is spelled in several ways", c.Name, c.Kind)
		case c.Name == "":
			bad("the name of a column is empty")
		case seen[c.Name]:
			bad("column %q is there twice", c.Name)
		case c.Kind < KindText || c.Kind > KindBytes:
			bad("column %q is of kind %d, which is none", c.Name, c.Kind)
		}
		seen[c.Name] = true
	}
	return errors.Join(errs...)
}

// Rows is how declared effects read and write tables: sets of rows, inside the transaction, through any store. Each key is at
// most once in a call. A store orders what it locks and writes by key, so that two transactions wait for each other and do
// not deadlock.
//
// Tables were given to [Store].Open in Binding.Tables, and are known by their pointers.
type Rows interface {
	// Read returns the rows with these keys as they are now: row i is that of keys[i], nil where there is none. Where the table
	// has no Guard they stay so until the transaction is over.
	Read(ctx context.Context, t *Table, keys []Row) ([]Row, error)

	// Put writes rows: rows[i] takes the place of before[i], which is as Read returned it: nil where there was none. A row
	// that is there meanwhile, is not there any more, or is not as it was, is ErrRaced.
	Put(ctx context.Context, t *Table, rows, before []Row) error

	// Insert adds rows. What violates a constraint fails as the database says, and the record is to blame.
	Insert(ctx context.Context, t *Table, rows []Row) error

	// Add inserts rows, or adds the columns behind the key, of which each is KindInt or KindDecimal, to those that are there.
	Add(ctx context.Context, t *Table, rows []Row) error

	// Delete removes the rows with these keys, where there are any.
	Delete(ctx context.Context, t *Table, keys []Row) error
}
