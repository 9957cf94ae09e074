package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl"
)

// Pawl's own conditions, raised by pawl_advance.
const (
	codeFenced   = "PW001"
	codeWentBack = "PW002"
	codeEnded    = "PW003"
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
	case c == "23505" && strings.Contains(err.Error(), "pawl_decision_pkey"):
		return pawl.ErrRaced
	}
	return err
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
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.Timeout(err) || pgconn.SafeToRetry(err) || errors.As(err, new(*pgconn.ConnectError)) || connectionGone(err) {
		return pawl.Transient
	}
	return pawl.Unknown
}

// connectionGone recognises what drivers say without a type of their own.
func connectionGone(err error) bool {
	text := err.Error()
	return strings.Contains(text, "conn closed") || strings.Contains(text, "driver: bad connection") ||
		strings.Contains(text, "closed pool") || strings.Contains(text, "conn busy")
}
