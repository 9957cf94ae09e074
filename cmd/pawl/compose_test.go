package main

import (
	"bytes"
	"os"
	"testing"
)

// The tables that deploy/compose makes are those that its pipelines need.
func TestComposeHasTheTablesOfItsPipelines(t *testing.T) {
	t.Setenv("PAWL_DSN", "postgres://pawl@postgres/pawl")
	var out, errs bytes.Buffer
	if code := newApp(nil, &out, &errs).run(t.Context(), []string{"init", "--ddl", "../../deploy/compose/pipelines"}); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	const path = "../../deploy/compose/tables.sql"
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, out.Bytes()) {
		t.Errorf("%s is not current (%v): go test ./cmd/pawl -run TestCompose -update", path, err)
	}
}
