package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

// Pawl's own conditions, raised by pawl_advance and its like.
const (
	codeFenced   = "PW001"
	codeWentBack = "PW002"
	codeEnded    = "PW003"
	codeNotKept  = "PW004"
	codeDecided  = "PW005"
)

// code is the SQLSTATE of an error of any driver, or "".
func code(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// translate turns what the server raised into what the caller knows.
func (s *Store[Tx]) translate(err error) error {
	switch c := code(err); {
	case c == codeFenced:
		return pawl.ErrFenced
	case c == codeWentBack:
		s.names.forget() // the names may have gone back too
		return pawl.ErrStoreWentBack
	case c == codeEnded:
		return pawl.ErrTxEnded
	case c == codeNotKept:
		return fmt.Errorf("%w (%w)", pawl.ErrNotKept, err)
	case c == codeDecided:
		return fmt.Errorf("%w (%w)", pawl.ErrRaced, err)
	case c == "23505" && strings.Contains(err.Error(), "pawl_decision_pkey"):
		return pawl.ErrRaced
	case c == "23503" && strings.Contains(err.Error(), "pawl_hold_stream_fkey"): // its stream was freed meanwhile
		return fmt.Errorf("%w (%w)", pawl.ErrRaced, err)
	}
	if e := (*stmtError)(nil); errors.As(err, &e) && e.after != fault.Committed {
		return s.own("write decisions", err)
	}
	return err // of COMMIT: what a handler left for it to check
}

// stmtError says which statement failed.
type stmtError struct {
	after fault.Point
	err   error
}

func (e *stmtError) Error() string { return e.err.Error() }
func (e *stmtError) Unwrap() error { return e.err }

// own is for a failure of Pawl's own statements. Data that the database cannot hold is a record's fault; anything else that
// waiting does not mend is nobody's but the database's.
func (s *Store[Tx]) own(op string, err error) error {
	class := s.Classify(err)
	switch c := code(err); {
	case class == pawl.Transient, class == pawl.Poison:
	case c == "", c == "25P03": // not the server's answer, or its farewell to an owner that froze
		class = pawl.Transient
	default:
		class = pawl.Misconfigured
	}
	return &pawl.Error{Op: op, Class: class, Err: err}
}

// refused reports whether the server said no to a statement, so that nothing was committed. What ends the connection
// instead leaves it open whether the commit behind it was done.
func refused(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.SeverityUnlocalized == "ERROR" || pg.SeverityUnlocalized == "" && pg.Severity == "ERROR"
	}
	c := code(err)
	return c != "" && !strings.HasPrefix(c, "08") && !strings.HasPrefix(c, "57P") && c != "25P03" && c != "25P04"
}

// Classify sorts by SQLSTATE. See pawl.BoundStore.
func (s *Store[Tx]) Classify(err error) pawl.Class {
	var e *pawl.Error
	if errors.As(err, &e) && e.Class != pawl.Unknown {
		return e.Class
	}
	switch c := code(err); {
	case c == "25P02", c == "25P03":
		// Behind a failed statement, and cut off while idle: what led there decides, and is not known here.
		return pawl.Unknown
	case c == "42601" && !atPosition(err): // not of the statement: of text that it was given to parse, such as a tsquery
		return pawl.Poison
	case c == "25006": // read-only: a standby, or a server that ran out of room and was switched over
		return pawl.Misconfigured
	case strings.HasPrefix(c, "08"), strings.HasPrefix(c, "40"), strings.HasPrefix(c, "53"), strings.HasPrefix(c, "57"),
		strings.HasPrefix(c, "58"), c == "55P03", c == "25P04":
		return pawl.Transient
	case strings.HasPrefix(c, "23"):
		return pawl.Validation
	case strings.HasPrefix(c, "22"), c == "54000":
		return pawl.Poison
	case strings.HasPrefix(c, "42"), strings.HasPrefix(c, "28"), strings.HasPrefix(c, "3D"), strings.HasPrefix(c, "3F"):
		return pawl.Misconfigured
	case c != "":
		return pawl.Unknown
	}
	// By what these errors are, not by what they say or may be: a handler's own may quote anything. Whether the connection is
	// gone is asked of the connection (Session.Rest).
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, new(*net.OpError)) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		pgconn.Timeout(err) || pgconn.SafeToRetry(err) || errors.As(err, new(*pgconn.ConnectError)) {
		return pawl.Transient
	}
	return pawl.Unknown
}

// atPosition reports whether the server points at a place in the statement.
func atPosition(err error) bool {
	var pg *pgconn.PgError
	return !errors.As(err, &pg) || pg.Position != 0
}
