package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/postgres"
)

// The examples give the same outcomes and the same rows on PostgreSQL as they do on SQLite.
func TestTheExamplesGiveTheSameRowsOnPostgres(t *testing.T) {
	folders, _ := filepath.Glob("../examples/*/pipeline.yaml")
	if len(folders) < 5 {
		t.Fatalf("%d examples", len(folders))
	}
	env := Env{Files: os.DirFS(".."), Offline: true}
	for _, file := range folders {
		name := filepath.Base(filepath.Dir(file))
		set, err := Load([]string{"examples/" + name}, env)
		if err != nil {
			t.Fatal(err)
		}
		content, err := read(env.Files, set.Fixtures[0])
		if err != nil {
			t.Fatal(err)
		}
		b := &binder{source: &source{name: file}, env: env, places: map[string]span{}}
		var f fixtures
		b.bind(b.parse(content), &f, "")
		p := set.Pipelines[0]
		for _, c := range f.Cases {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				pool := pgtest.Pool(t)
				store := postgres.New(pool)
				if err := store.Migrate(ctx); err != nil {
					t.Fatal(err)
				}
				for _, table := range p.Tables() {
					if _, err := pool.Exec(ctx, postgres.DDL(table)); err != nil {
						t.Fatal(err)
					}
				}
				log, ok := c.log(b, p)
				if !ok {
					t.Fatal(b.findings)
				}
				db := stdlib.OpenDBFromPool(pool)
				defer db.Close()
				for _, failure := range runOn(ctx, c, p, log, store, db) {
					t.Error(failure)
				}
			})
		}
	}
}
