package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/sqlite"
)

func TestUnsafeSettingsAreRefusedWithAReason(t *testing.T) {
	for _, tt := range []struct {
		name string
		dsn  string // %s is a path
		says string
	}{
		{"in memory", ":memory:", "in memory"},
		{"in memory by uri", "file::memory:", "in memory"},
		{"in memory by mode", "file:%s?mode=memory", "to a file"},
		{"no name", "", "names no file"},
		{"no name, with parameters", "?_fk=1", "names no file"},
		{"temporary", "file:?_fk=1", "in memory"},
		{"read-only by mode", "file:%s?mode=ro", "Pawl writes"},
		{"immutable", "file:%s?immutable=1", "immutable"},
		{"no locks", "file:%s?nolock=1", "without locks"},
		{"no locks by vfs", "%s?vfs=unix-none", "write-ahead log"},
		{"shared cache", "file:%s?cache=shared", "shared cache"},
		{"uri parameter without a uri", "%s?mode=ro", "file: URI"},
		{"journal off", "%s?_pragma=journal_mode(off)", "journal_mode off"},
		{"journal in memory", "%s?_pragma=journal_mode(memory)", "journal_mode memory"},
		{"journal in memory, spelled otherwise", "%s?_pragma=main.journal_mode%%20=%%20MEMORY", "journal_mode memory"},
		{"journal off by a second statement", "%s?_pragma=cache_size(10);pragma%%20journal_mode=off", "invalid semicolon"},
		{"journal off behind an escaped semicolon", "%s?_pragma=cache_size(10)%%3Bpragma%%20journal_mode=off", "journal_mode is off"},
		{"rollback journal", "%s?_journal_mode=DELETE", "needs wal"},
		{"rollback journal by alias", "%s?_journal=truncate", "needs wal"},
		{"synchronous normal", "%s?_pragma=synchronous(normal)", "synchronous is 1"},
		{"synchronous normal by number", "%s?_pragma=synchronous=1", "synchronous is 1"},
		{"synchronous off", "%s?_synchronous=off", "synchronous is 0"},
		{"synchronous normal by alias", "%s?_sync=NORMAL", "synchronous is 1"},
		{"foreign keys off", "%s?_pragma=foreign_keys(0)", "foreign_keys is 0"},
		{"foreign keys off by key", "%s?_fk=false", "foreign_keys is 0"},
		{"checks ignored", "%s?_pragma=ignore_check_constraints(1)", "ignore_check_constraints is 1"},
		{"query only", "%s?_pragma=query_only(1)", "query_only is 1"},
		{"exclusive locking", "%s?_pragma=locking_mode(exclusive)", "locking_mode is exclusive"},
		{"deferred transactions", "%s?_txlock=deferred", "immediate"},
		{"waiting for ever", "%s?_pragma=busy_timeout(3600000)", "busy_timeout"},
		{"waiting for ever by key", "%s?_busy_timeout=3600000", "busy_timeout"},
		{"unknown value", "%s?_synchronous=sometimes", "_synchronous"},
		{"a directory", filepath.Dir("%s"), "open"},
		{"no such directory", filepath.Join("%s", "none", "test.db"), "open"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			dsn := strings.ReplaceAll(strings.ReplaceAll(tt.dsn, "%s", filepath.Join(dir, "test.db")), "%%", "%")
			if tt.name == "a directory" {
				dsn = dir
			}
			s, err := sqlite.Open(t.Context(), dsn)
			if err == nil {
				_ = s.Close()
				t.Fatal("opened, want that it is refused")
			}
			refused, ok := errors.AsType[*pawl.Error](err)
			if !ok || refused.Class != pawl.Misconfigured || refused.Hint == "" {
				t.Errorf("got %#v, want a *pawl.Error that says misconfigured and has a hint", err)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v: does not say %q", err, tt.says)
			}
		})
	}
}

// A database in WAL mode must not be converted by a DSN that is refused.
func TestARefusedSettingDoesNotChangeTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "test.db")
	open(t, file)
	if _, err := sqlite.Open(t.Context(), file+"?_journal_mode=delete"); err == nil {
		t.Fatal("opened, want that it is refused")
	}
	var mode string
	if err := beside(t, file).QueryRowContext(t.Context(), `pragma journal_mode`).Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode %q, %v; want wal", mode, err)
	}
}

func TestSafeSettingsAreAccepted(t *testing.T) {
	for _, dsn := range []string{
		"%s", "file:%s", "file:%s?mode=rwc", "%s?_pragma=synchronous(full)", "%s?_pragma=synchronous(3)", "%s?_sync=EXTRA",
		"%s?_pragma=journal_mode(WAL)", "%s?_journal=wal", "%s?_txlock=immediate", "%s?_pragma=busy_timeout(100)",
		"%s?_pragma=cache_size(-2000)", "%s?_fk=1", "file:%s?nolock=0",
	} {
		t.Run(dsn, func(t *testing.T) {
			t.Parallel()
			s := open(t, strings.ReplaceAll(dsn, "%s", filepath.Join(t.TempDir(), "a file.db")))
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAReadOnlyFileIsRefused(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root may write any file: the mode bits prove nothing, and mode=ro above stands for it.
		t.Log("left out as root: file mode bits")
		return
	}
	file := filepath.Join(t.TempDir(), "test.db")
	open(t, file)
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), file)
	if refused, ok := errors.AsType[*pawl.Error](err); !ok || refused.Class != pawl.Misconfigured {
		t.Errorf("got %v, want that it is refused", err)
	}
}

func TestAFileThatAnotherHoldsIsRefusedForNow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "test.db")
	open(t, file)
	conn, err := beside(t, file).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), `begin immediate`); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(t.Context(), file+"?_pragma=busy_timeout(1)")
	if refused, ok := errors.AsType[*pawl.Error](err); !ok || refused.Class != pawl.Transient || refused.Hint == "" {
		t.Errorf("got %#v, want a transient *pawl.Error with a hint", err)
	}

	// A context ends the wait, however long busy_timeout is.
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if _, err := sqlite.Open(ctx, file+"?_pragma=busy_timeout(60000)"); err == nil {
		t.Error("opened a file that another has locked")
	}
}

func TestANotADatabaseIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), file)
	if refused, ok := errors.AsType[*pawl.Error](err); !ok || refused.Class != pawl.Misconfigured {
		t.Errorf("got %v, want that it is refused", err)
	}
}
