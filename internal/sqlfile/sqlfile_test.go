package sqlfile

import (
	"testing"
	"testing/fstest"
)

func TestQueriesAreReadByName(t *testing.T) {
	q := Queries(fstest.MapFS{"sql/a.sql": {Data: []byte("-- about the file\n\n-- name: one\n-- why\nselect 1\nfrom t\n\n-- name: two\nselect 2\n")}}, "sql")
	if len(q) != 2 || q["one"] != "select 1\nfrom t" || q["two"] != "select 2" {
		t.Fatalf("got %q", q)
	}
}

func TestARepeatedNamePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	Queries(fstest.MapFS{"sql/a.sql": {Data: []byte("-- name: one\nselect 1\n-- name: one\nselect 2\n")}}, "sql")
}

func TestMigrationsAreInOrderWithoutGaps(t *testing.T) {
	m := Migrations(fstest.MapFS{"m/002_b.sql": {Data: []byte("b")}, "m/001_a.sql": {Data: []byte("a")}}, "m")
	if len(m) != 2 || m[0] != (Migration{1, "a", "a"}) || m[1] != (Migration{2, "b", "b"}) {
		t.Fatalf("got %v", m)
	}
	defer func() {
		if recover() == nil {
			t.Fatal("a gap must panic")
		}
	}()
	Migrations(fstest.MapFS{"m/001_a.sql": {}, "m/003_c.sql": {}}, "m")
}
