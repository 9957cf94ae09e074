package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/pawlhq/pawl"
)

// scan checks all of a document that does not need a body, in one pass, and returns its fingerprint. root is the shape
// of the type it will be decoded into.
func scan(value []byte, set *settings, root *shape) (pawl.Fingerprint, *Error) {
	switch {
	case value == nil:
		return pawl.Fingerprint{}, &Error{why: "the record is a tombstone: it has no value, and so no document"}
	case len(value) == 0:
		return pawl.Fingerprint{}, &Error{why: "the value is empty: it holds no document"}
	case len(value) > set.maxBytes:
		return pawl.Fingerprint{}, &Error{why: fmt.Sprintf("the value has %d bytes; at most %d are read (MaxBytes)", len(value), set.maxBytes)}
	}
	s := scanners.Get().(*scanner)
	defer s.release()
	s.src, s.set = value, set
	if err := s.document(root); err != nil {
		return pawl.Fingerprint{}, err.settle()
	}
	return s.content.sum(), nil
}

// scanner reads a document once. It calls itself for nested values, so the depth is checked before it goes deeper.
type scanner struct {
	src   []byte
	pos   int
	depth int
	set   *settings

	content content
	scratch []byte // a string without its escapes, or the digits of a number
}

// scanners keeps the buffers of past documents, which are most of the cost of a small one.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

// release gives the buffers back, unless one large document has made them too large to keep for small ones.
func (s *scanner) release() {
	if cap(s.scratch) > maxKept || !s.content.reset() {
		return
	}
	s.src, s.pos, s.depth, s.set = nil, 0, 0, nil
	scanners.Put(s)
}

const maxKept = 64 << 10

func (s *scanner) document(root *shape) *Error {
	s.content.begin(len(s.src))
	s.space()
	if err := s.value(root); err != nil {
		return err
	}
	s.space()
	if s.pos < len(s.src) {
		return s.unexpected("the document has ended")
	}
	return nil
}

// value reads one value. A nil shape is one that nothing is known of.
func (s *scanner) value(sh *shape) *Error {
	if s.pos == len(s.src) {
		return s.unexpected("")
	}
	switch c := s.src[s.pos]; {
	case c == '"':
		text, err := s.text()
		if err != nil {
			return err
		}
		s.content.text(text)
		return nil
	case c == '{':
		return s.object(sh)
	case c == '[':
		return s.array(sh)
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.literal("true", tagTrue)
	case c == 'f':
		return s.literal("false", tagFalse)
	case c == 'n':
		return s.literal("null", tagNull)
	}
	return s.unexpected("a value is due")
}

func (s *scanner) literal(word string, tag byte) *Error {
	if !bytes.HasPrefix(s.src[s.pos:], []byte(word)) {
		return s.unexpected("a value is due")
	}
	s.pos += len(word)
	s.content.buf = append(s.content.buf, tag)
	return nil
}

// enter goes one level deeper. Leaving it is a plain s.depth--: after an error nobody asks.
func (s *scanner) enter() *Error {
	if s.depth == s.set.maxDepth {
		return s.fail(s.pos, "the value", fmt.Sprintf("it is nested deeper than %d levels (MaxDepth)", s.set.maxDepth))
	}
	s.depth++
	s.pos++
	return nil
}

func (s *scanner) array(sh *shape) *Error {
	var elem *shape
	if sh != nil && sh.kind == listShape {
		elem = sh.elem
	}
	if err := s.enter(); err != nil {
		return err
	}
	s.content.buf = append(s.content.buf, tagArray)
	s.space()
	if s.at(']') {
		return s.closeArray()
	}
	for i := 0; ; i++ {
		s.space()
		if err := s.value(elem); err != nil {
			return err.within(strconv.Itoa(i))
		}
		s.space()
		switch {
		case s.at(','):
			s.pos++
		case s.at(']'):
			return s.closeArray()
		default:
			return s.unexpected("a comma or ] is due")
		}
	}
}

func (s *scanner) closeArray() *Error {
	s.pos++
	s.depth--
	s.content.buf = append(s.content.buf, tagEnd)
	return nil
}

func (s *scanner) object(sh *shape) *Error {
	if err := s.enter(); err != nil {
		return err
	}
	o := s.content.openObject()
	s.space()
	if s.at('}') {
		return s.closeObject(&o)
	}
	for next := 0; ; {
		s.space()
		if !s.at('"') {
			return s.unexpected("the name of a member is due")
		}
		at := s.pos
		name, err := s.text()
		if err != nil {
			return err
		}
		name = s.content.name(&o, name, at)
		child, err := s.member(sh, name, at, &next)
		if err != nil {
			return err
		}
		s.space()
		if !s.at(':') {
			return s.unexpected("a colon is due")
		}
		s.pos++
		s.space()
		if err := s.value(child); err != nil {
			return err.within(cut(name, maxToken))
		}
		s.content.endMember()
		s.space()
		switch {
		case s.at(','):
			s.pos++
		case s.at('}'):
			return s.closeObject(&o)
		default:
			return s.unexpected("a comma or } is due")
		}
	}
}

func (s *scanner) closeObject(o *object) *Error {
	var envelope map[string]bool
	if s.depth == 1 {
		envelope = s.set.envelope
	}
	s.pos++
	s.depth--
	if twice := s.content.closeObject(o, envelope); twice != nil {
		return s.fail(int(twice.src), quoted(s.content.nameOf(twice)), "the name is there twice")
	}
	return nil
}

// member returns the shape of the value of a member. next is where the last one was followed in the type: producers
// mostly keep the order of the fields.
func (s *scanner) member(sh *shape, name []byte, at int, next *int) (*shape, *Error) {
	if sh == nil || sh.kind == listShape {
		return nil, nil
	}
	if sh.kind == mapShape {
		return sh.elem, nil
	}
	i, ok := *next, false
	if ok = i < len(sh.fields) && sh.fields[i].name == string(name); !ok {
		i, ok = sh.byName[string(name)]
	}
	if ok {
		*next = i + 1
		return sh.fields[i].shape, nil
	}
	s.scratch = appendFold(s.scratch[:0], name)
	if i, ok := sh.byFold[string(s.scratch)]; ok {
		return nil, s.fail(at, quoted(name), "the field is "+quoted([]byte(sh.fields[i].name)))
	}
	if s.set.knownOnly && !sh.hasRest {
		return nil, s.fail(at, quoted(name), "there is no such field (KnownFieldsOnly)")
	}
	return nil, nil
}

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.src) && isSpace(s.src[s.pos]) {
		s.pos++
	}
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.src) && s.src[s.pos] == c }

func (s *scanner) fail(at int, what, why string) *Error {
	return &Error{Offset: int64(at), what: what, why: why}
}

// unexpected refuses the next byte, or the lack of one.
func (s *scanner) unexpected(why string) *Error {
	if s.pos >= len(s.src) {
		return s.fail(len(s.src), "the end of the value", "the document is cut off")
	}
	c := s.src[s.pos]
	if c >= utf8.RuneSelf {
		return s.fail(s.pos, fmt.Sprintf("the byte 0x%02x", c), why)
	}
	return s.fail(s.pos, strconv.QuoteRune(rune(c)), why)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// prefixOf returns the first eight bytes of a name as a number that orders as they do.
func prefixOf(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(name)
	}
	var b [8]byte
	copy(b[:], name)
	return binary.BigEndian.Uint64(b[:])
}
