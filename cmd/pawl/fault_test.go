package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/kafka/embedded"
)

// Whatever is wrong around a command, it says what, and what to do; its exit code tells it to scripts; and nothing is lost.
func TestFaultScripts(t *testing.T) {
	sqlite := func(env *testscript.Env) error {
		env.Setenv("PAWL_STORE", "sqlite:"+filepath.Join(env.WorkDir, "pawl.db"))
		env.Setenv("KIND", "sqlite")
		return nil
	}
	postgres := func(env *testscript.Env) error {
		store := pgtest.URL(env.T().(testing.TB))
		u, err := url.Parse(store)
		if err != nil {
			return err
		}
		env.Setenv("PAWL_STORE", store)
		env.Setenv("KIND", "postgres")
		env.Setenv("SERVER", u.Host)
		return nil
	}
	for _, run := range []struct {
		name, dir string
		setup     func(*testscript.Env) error
		server    bool
	}{
		{"plain", "plain", func(*testscript.Env) error { return nil }, false},
		{"sqlite", "store", sqlite, false},
		{"postgres", "store", postgres, true},
		{"rights", "postgres", postgres, true},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			if run.server {
				pgtest.URL(t) // skips where there is none
			}
			p := params(filepath.Join("testdata/script/fault", run.dir), run.setup)
			maps.Copy(p.Cmds, map[string]func(*testscript.TestScript, bool, []string){
				"broker": cmdBroker, "produce": cmdProduce, "query": cmdQuery, "create": cmdCreate, "role": cmdRole, "limited": cmdLimited, "code": cmdCodeOf,
			})
			testscript.Run(t, p)
		})
	}
}

const scriptPatience = 20 * time.Second

// broker TOPIC: there is a broker at $KAFKA until the script ends, with the topic.
func cmdBroker(ts *testscript.TestScript, _ bool, args []string) {
	b, err := embedded.Start(embedded.Config{})
	ts.Check(err)
	ts.Defer(func() { ts.Check(b.Close()) })
	ts.Setenv("KAFKA", b.Addrs()[0])
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	ts.Check(err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, args[0])
	ts.Check(err)
}

// produce TOPIC VALUE…: the records are in the topic.
func cmdProduce(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("KAFKA")))
	ts.Check(err)
	defer cl.Close()
	for _, v := range args[1:] {
		ts.Check(cl.ProduceSync(ctx, &kgo.Record{Topic: args[0], Value: []byte(v)}).FirstErr())
	}
}

// query SQL [WANT]: whoever owns the database runs it; with WANT, its single value becomes that within seconds.
func cmdQuery(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	driver, dsn := "pgx", ts.Getenv("PAWL_STORE")
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, dsn = "sqlite", path+"?_busy_timeout=10000"
	}
	db, err := sql.Open(driver, dsn)
	ts.Check(err)
	defer db.Close()
	if len(args) == 1 {
		_, err = db.ExecContext(ctx, args[0])
		ts.Check(err)
		return
	}
	for {
		var got any
		err := db.QueryRowContext(ctx, args[0]).Scan(&got)
		if ctx.Err() != nil {
			ts.Fatalf("%s is %v, want %s", args[0], got, args[1])
		}
		ts.Check(err)
		if fmt.Sprint(got) == args[1] {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// create FILE: whoever owns the database runs the statements of the file.
func cmdCreate(ts *testscript.TestScript, neg bool, args []string) {
	cmdQuery(ts, neg, []string{ts.ReadFile(args[0])})
}

// role NAME SQL…: there is a role on the server until the script ends, with what the statements give it as ROLE. $NAME is the
// store as it sees it, and $NAME_ROLE its name.
func cmdRole(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	role := "pawl_f_" + strings.ToLower(rand.Text()[:12])
	db, err := sql.Open("pgx", ts.Getenv("PAWL_STORE"))
	ts.Check(err)
	run := func(statement string) error {
		_, err := db.ExecContext(ctx, strings.ReplaceAll(statement, "ROLE", role))
		return err
	}
	ts.Check(run(`create role ROLE login password 'geheim'`))
	ts.Defer(func() {
		ctx, cancel = context.WithTimeout(context.Background(), scriptPatience)
		defer cancel()
		ts.Check(run(`drop owned by ROLE; drop role ROLE`))
		ts.Check(db.Close())
	})
	for _, statement := range args[1:] {
		ts.Check(run(statement))
	}
	u, err := url.Parse(ts.Getenv("PAWL_STORE"))
	ts.Check(err)
	u.User = url.UserPassword(role, "geheim")
	ts.Setenv(args[0], u.String())
	ts.Setenv(args[0]+"_ROLE", role)
}

// code N command args…, as elsewhere; and code N full args… is pawl where nothing can be written to stdout.
func cmdCodeOf(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) > 1 && args[1] == "full" {
		args = append([]string{args[0], "sh", "-c", `exec pawl "$@" >/dev/full`, "sh"}, args[2:]...)
	}
	cmdCode(ts, neg, args)
}
