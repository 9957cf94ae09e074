package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl"
)

// Classify says what an error means, whether it came from Apply or through a handler.
func (s *Store) Classify(err error) pawl.Class { return classify(err) }

func classify(err error) pawl.Class {
	if known, ok := errors.AsType[*pawl.Error](err); ok && known.Class != pawl.Unknown {
		return known.Class
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrBadConn) {
		return pawl.Transient
	}
	failed, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return pawl.Unknown
	}
	switch failed.Code() & 0xff { // the rest of the code says more than is needed here
	case sqlite3.SQLITE_CONSTRAINT:
		return pawl.Validation
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL:
		return pawl.Transient
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return pawl.Poison
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CORRUPT,
		sqlite3.SQLITE_NOTADB:
		return pawl.Misconfigured
	case sqlite3.SQLITE_ERROR:
		return classifyText(failed.Error())
	}
	return pawl.Unknown
}

// classifyText tells apart what SQLite has one code for. Its messages are all there is to go by.
func classifyText(text string) pawl.Class {
	for _, part := range []string{
		"no such ", "has no column named", "syntax error", "incomplete input", "unrecognized token", " values for ",
		"wrong number of arguments",
	} {
		if strings.Contains(text, part) {
			return pawl.Misconfigured
		}
	}
	for _, part := range []string{"malformed JSON", "integer overflow"} {
		if strings.Contains(text, part) {
			return pawl.Poison
		}
	}
	return pawl.Unknown
}

func hasCode(err error, codes ...int) bool {
	failed, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	for _, code := range codes {
		if failed.Code() == code || failed.Code()&0xff == code {
			return true
		}
	}
	return false
}

func isBusy(err error) bool { return hasCode(err, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) }

// isTaken reports a key that is in a table already.
func isTaken(err error) bool {
	return hasCode(err, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE)
}

// isStranded reports a record that would be held behind a stream that is free.
func isStranded(err error) bool { return hasCode(err, sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY) }

// isRefusedCommit reports a commit that the guard turned into a rollback.
func isRefusedCommit(err error) bool { return hasCode(err, sqlite3.SQLITE_CONSTRAINT_COMMITHOOK) }

// own is for a failure of Pawl's own statements. Data that the database cannot hold is a record's fault; anything else that
// waiting does not mend is nobody's but the database's.
func own(op string, err error) error {
	if errors.Is(err, pawl.ErrRaced) || errors.Is(err, pawl.ErrStoreWentBack) {
		return fmt.Errorf("%s: %w", op, err)
	}
	class := classify(err)
	if class != pawl.Transient && class != pawl.Poison {
		class = pawl.Misconfigured
	}
	return &pawl.Error{Op: op, Class: class, Err: err}
}
