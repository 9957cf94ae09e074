package decode

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error says what [JSON] refused in a document, and where. It holds no more of the document than a name or a number, cut
// to a length that a log can bear.
type Error struct {
	// Pointer is the JSON Pointer (RFC 6901) of the value that was refused; for a name, of the object that holds it.
	// Empty is the whole document. Long names are cut.
	Pointer string
	// Offset counts the bytes of the record's value before what was refused.
	Offset int64

	what, why string
	err       error
	path      []string // the pointer while it is being gathered, innermost first
}

func (e *Error) Error() string {
	if e.what == "" {
		return "json: " + e.why
	}
	where := "the root"
	if e.Pointer != "" {
		where = printable(e.Pointer)
	}
	return "json: " + e.what + " at " + where + ": " + e.why + " (byte " + strconv.FormatInt(e.Offset, 10) + ")"
}

// Unwrap returns what an UnmarshalJSON or UnmarshalText of the caller returned, if that is what was wrong.
func (e *Error) Unwrap() error { return e.err }

// within adds the name or the index of the value that e was met in.
func (e *Error) within(token string) *Error {
	e.path = append(e.path, token)
	return e
}

// settle makes the pointer of the path.
func (e *Error) settle() *Error {
	var b strings.Builder
	for _, token := range slices.Backward(e.path) {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(token))
	}
	e.Pointer = cut(b.String(), maxPointer)
	e.path = nil
	return e
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

const (
	maxPointer = 512
	maxToken   = 64
)

// cut bounds what an error quotes of a document, without cutting a character in two.
func cut[S string | []byte](s S, n int) string {
	if len(s) <= n {
		return string(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return string(s[:n]) + "…"
}

// quoted is a name as an error shows it.
func quoted(name []byte) string { return strconv.Quote(cut(name, maxToken)) }

// printable keeps control characters of a document out of logs and terminals.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
