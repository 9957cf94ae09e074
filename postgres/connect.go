package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/secret"
)

// Connect returns a pool for [New], on the database that dsn names: a postgres:// URL, or words like host=… password=….
// User and password are read anew for every connection, so that ones that were rotated need no restart. No error shows any
// of it: the driver's own may show a password in a text that it does not understand. The pool is the caller's to close.
func Connect(ctx context.Context, dsn secret.Ref) (*pgxpool.Pool, error) {
	cfg, err := parseDSN(ctx, dsn)
	if err != nil {
		return nil, err
	}
	cfg.BeforeConnect = func(ctx context.Context, conn *pgx.ConnConfig) error {
		now, err := parseDSN(ctx, dsn)
		if err == nil {
			conn.User, conn.Password = now.ConnConfig.User, now.ConnConfig.Password
		}
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, &pawl.Error{Op: "connect to postgres", Class: pawl.Misconfigured, Err: err}
	}
	return pool, nil
}

func parseDSN(ctx context.Context, dsn secret.Ref) (*pgxpool.Config, error) {
	text, err := dsn.Resolve(ctx)
	if err == nil {
		var cfg *pgxpool.Config
		if cfg, err = pgxpool.ParseConfig(text); err == nil {
			return cfg, nil
		}
		err = errors.New("it is not a connection string") // and nothing of what it is
	}
	return nil, &pawl.Error{
		Op: "connect to the database of " + dsn.String(), Class: pawl.Misconfigured, Err: err,
		Hint: "postgres://user:password@host:5432/database; what is not a letter or digit in the password is written %XX",
	}
}
