// A handler whose transaction is not its store's. It must not compile; see compile_test.go.
package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/sqlite"
)

func main() {
	var store *sqlite.Store
	r := pawl.NewRunner(store, nil, pawl.Config{})
	pawl.Handle(r, pawl.Route{}, decode.JSON(func(pawl.Meta, int) pawl.Identity { return pawl.Identity{} }),
		func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[int]) error { return nil })
}
