package main

import (
	"context"
	"database/sql"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
)

// tamper QUERY: someone who owns the database changes it behind Pawl's back.
func cmdTamper(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	url := ts.Getenv("PAWL_STORE")
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err := sql.Open("sqlite", path)
		ts.Check(err)
		defer db.Close()
		_, err = db.Exec(`drop trigger if exists pawl_audit_stays; drop trigger if exists pawl_audit_stays_whole;` + args[0])
		ts.Check(err)
		return
	}
	conn, err := pgx.Connect(ctx, url)
	ts.Check(err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `alter table pawl_audit disable trigger user;`+args[0])
	ts.Check(err)
}

// kept NAME file: the hash in the file becomes a variable.
func cmdKept(ts *testscript.TestScript, _ bool, args []string) {
	hash := regexp.MustCompile(`[0-9a-f]{64}`).FindString(ts.ReadFile(args[1]))
	if hash == "" {
		ts.Fatalf("%s has no hash", args[1])
	}
	ts.Setenv(args[0], hash)
}
