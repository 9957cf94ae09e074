package sqlite

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl"
)

type rows struct{ s *session }

var errUnfinished = errors.New("unfinished")

func (rows) Read(context.Context, *pawl.Table, []pawl.Row) ([]pawl.Row, error) {
	return nil, errUnfinished
}
func (rows) Put(_ context.Context, _ *pawl.Table, _, _ []pawl.Row) error { return errUnfinished }
func (rows) Insert(context.Context, *pawl.Table, []pawl.Row) error       { return errUnfinished }
func (rows) Add(context.Context, *pawl.Table, []pawl.Row) error          { return errUnfinished }
func (rows) Delete(context.Context, *pawl.Table, []pawl.Row) error       { return errUnfinished }
