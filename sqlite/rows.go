package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/decimal"
)

// rows is what declared effects get: statements that are prepared once a call and run row by row, which in one process costs
// no more than a set would. There is one writer, so that what was read stays as it is until the transaction is over.
type rows struct{ s *session }

func (r rows) Read(ctx context.Context, of *pawl.Table, keys []pawl.Row) (read []pawl.Row, err error) {
	read = make([]pawl.Row, len(keys))
	err = r.do(ctx, of, "read", len(keys), func(w *writing) error {
		for i, key := range keys {
			if read[i], err = w.read(key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return read, nil
}

func (r rows) Put(ctx context.Context, of *pawl.Table, rows, before []pawl.Row) error {
	return r.do(ctx, of, "put", len(rows), func(w *writing) error {
		if len(rows) != len(before) {
			return w.t.mistaken("put %d rows in the place of %d", len(rows), len(before))
		}
		for i, row := range rows {
			write := w.replace
			if before[i] == nil {
				write = func(row pawl.Row) (int64, error) { return w.write(w.t.put, row) }
			}
			switch n, err := write(row); {
			case err != nil:
				return err
			case n == 0:
				return pawl.ErrRaced
			}
		}
		return nil
	})
}

func (r rows) Insert(ctx context.Context, of *pawl.Table, rows []pawl.Row) error {
	return r.do(ctx, of, "insert", len(rows), func(w *writing) error {
		for _, row := range rows {
			if _, err := w.write(w.t.insert, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// Add adds here and not in SQL: SQLite makes floating-point numbers of decimals, and of integers that are too large.
func (r rows) Add(ctx context.Context, of *pawl.Table, rows []pawl.Row) error {
	return r.do(ctx, of, "add", len(rows), func(w *writing) error {
		for _, c := range of.Columns[of.Key:] {
			if c.Kind != pawl.KindInt && c.Kind != pawl.KindDecimal {
				return w.t.mistaken("column %q is of kind %s, which cannot be added to", c.Name, c.Kind)
			}
		}
		for _, row := range rows {
			if err := w.add(row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r rows) Delete(ctx context.Context, of *pawl.Table, keys []pawl.Row) error {
	return r.do(ctx, of, "delete", len(keys), func(w *writing) error {
		for _, key := range keys {
			if _, err := w.write(w.t.delete, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// do is one call: it is counted, refused where the transaction is over, and its error says what was tried.
func (r rows) do(ctx context.Context, of *pawl.Table, verb string, n int, f func(*writing) error) error {
	if n == 0 {
		return nil
	}
	t := r.s.tables[of]
	if t == nil {
		return &pawl.Error{Op: fmt.Sprintf("%s rows of %q", verb, of.Name), Class: pawl.Misconfigured,
			Err: errors.New("the store was not opened with this table"), Hint: "an effect returns from Tables what it uses"}
	}
	if err := r.s.enter(); err != nil {
		return err
	}
	w := &writing{ctx: ctx, still: context.WithoutCancel(ctx), tx: r.s.tx, t: t, args: make([]any, len(of.Columns))}
	err := f(w)
	w.close()
	if err = r.s.leave(err); err != nil {
		return fmt.Errorf("%s %d rows of %q: %w", verb, n, of.Name, err)
	}
	return nil
}

// writing is one call under way.
type writing struct {
	ctx, still context.Context // still does not end: SQLite rolls back when a write is interrupted, so that is looked at in between
	tx         *transaction
	t          *table
	args       []any
	prepared   []prepared
}

type prepared struct {
	text string
	*sql.Stmt
}

func (w *writing) close() {
	for _, p := range w.prepared {
		_ = p.Close() // what it did is done, and said
	}
}

// statement is prepared when it is first used.
func (w *writing) statement(text string) (*sql.Stmt, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	for _, p := range w.prepared {
		if p.text == text {
			return p.Stmt, nil
		}
	}
	st, err := w.tx.PrepareContext(w.still, text)
	if err == nil {
		w.prepared = append(w.prepared, prepared{text, st})
	}
	return st, err
}

// read returns a row, nil if there is none.
func (w *writing) read(key pawl.Row) (pawl.Row, error) {
	st, err := w.statement(w.t.read)
	if err != nil {
		return nil, err
	}
	if err := w.t.store(w.args, key, w.t.Key); err != nil {
		return nil, err
	}
	row := make(pawl.Row, len(w.t.Columns))
	dest := make([]any, len(row))
	for i := range row {
		dest[i] = &row[i]
	}
	err = st.QueryRowContext(w.still, w.args[:w.t.Key]...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return row, w.t.load(row)
}

// write runs one of the statements with a row, or with a key, and says how many rows it wrote.
func (w *writing) write(text string, row pawl.Row) (int64, error) {
	n := len(w.t.Columns)
	if text == w.t.delete {
		n = w.t.Key
	}
	if err := w.t.store(w.args, row, n); err != nil {
		return 0, err
	}
	return w.exec(text, w.args[:n]...)
}

func (w *writing) replace(row pawl.Row) (int64, error) {
	if err := w.t.store(w.args, row, len(w.t.Columns)); err != nil {
		return 0, err
	}
	rest := w.args[w.t.Key:]
	return w.exec(w.t.replace, append(rest[:len(rest):len(rest)], w.args[:w.t.Key]...)...)
}

func (w *writing) exec(text string, args ...any) (int64, error) {
	st, err := w.statement(text)
	if err != nil {
		return 0, err
	}
	done, err := st.ExecContext(w.still, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// add inserts a row, or adds it to the one that is there. Null counts as nothing, not as unknown.
func (w *writing) add(row pawl.Row) error {
	if len(row) != len(w.t.Columns) {
		return w.t.mistaken("a row has %d values for %d columns", len(row), len(w.t.Columns))
	}
	sum, err := w.read(row[:w.t.Key])
	if err != nil {
		return err
	}
	if sum == nil {
		_, err := w.write(w.t.insert, row)
		return err
	}
	if err := w.t.store(w.args, row, len(row)); err != nil { // which checks the types
		return err
	}
	for i := w.t.Key; i < len(row); i++ {
		c := &w.t.Columns[i]
		switch {
		case row[i] == nil:
		case sum[i] == nil:
			sum[i] = row[i]
		case c.Kind == pawl.KindInt:
			a, b := sum[i].(int64), row[i].(int64)
			if b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
				return w.t.refused(c, pawl.Poison, "the sum is out of range")
			}
			sum[i] = a + b
		default:
			if sum[i], err = decimal.Add(sum[i].(string), row[i].(string)); err != nil {
				return w.t.refused(c, pawl.Poison, "%w", err)
			}
		}
	}
	_, err = w.replace(sum)
	return err
}
