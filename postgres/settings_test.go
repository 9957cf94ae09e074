package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
)

func TestUnsafeSettingsAreRefused(t *testing.T) {
	for setting, word := range map[string]string{
		"synchronous_commit = off":           "synchronous_commit",
		"default_transaction_read_only = on": "read-only",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			db := openSQL(t, url)
			store := postgres.New(openPool(t, url))
			if err := store.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(`alter database "` + dbName(t, db) + `" set ` + setting); err != nil {
				t.Fatal(err)
			}
			_, err := postgres.New(openPool(t, url)).Open(t.Context(), pawl.Binding{Consumer: "c", Cluster: "k", Group: "g", Version: "v"})
			var e *pawl.Error
			if !errors.As(err, &e) || e.Class != pawl.Misconfigured || e.Hint == "" || !strings.Contains(err.Error(), word) {
				t.Errorf("got %v, want a refusal that names %s and says what to do", err, word)
			}
		})
	}
}
