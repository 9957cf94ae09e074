package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string and returns its value, which is valid until the next call.
func (s *scanner) text() ([]byte, *Error) {
	start := s.pos + 1
	ascii := true
	for i := start; i < len(s.src); {
		for i+8 <= len(s.src) {
			n := plain(binary.LittleEndian.Uint64(s.src[i:]))
			i += n
			if n < 8 {
				break
			}
		}
		if i == len(s.src) {
			break
		}
		switch c := s.src[i]; {
		case c == '"':
			s.pos = i + 1
			text := s.src[start:i]
			if !ascii {
				return text, s.checkUTF8(text, start)
			}
			return text, nil
		case c == '\\':
			return s.escapedText(start, i)
		case c < ' ':
			return nil, s.control(i)
		case c >= utf8.RuneSelf:
			ascii = false
		}
		i++
	}
	s.pos = len(s.src)
	return nil, s.unexpected("")
}

// plain counts the bytes before the first of eight that ends a string, escapes, is a control character or is beyond
// ASCII. A byte is marked by its highest bit: it has it, or gets it when what it must not be is taken from it. That may
// borrow from the bytes after it, which does not matter to the first.
func plain(w uint64) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^low*'"', w^low*'\\'
	return bits.TrailingZeros64((w|(w-low*' ')|(quote-low)|(slash-low))&high) / 8
}

// escapedText reads on from the first escape of a string that starts at start.
func (s *scanner) escapedText(start, first int) ([]byte, *Error) {
	dst := s.scratch[:0]
	defer func() { s.scratch = dst }()
	plain := start // the start of what is not copied yet
	for i := first; i < len(s.src); {
		switch c := s.src[i]; {
		case c == '"':
			if err := s.checkUTF8(s.src[plain:i], plain); err != nil {
				return nil, err
			}
			dst = append(dst, s.src[plain:i]...)
			s.pos = i + 1
			return dst, nil
		case c == '\\':
			if err := s.checkUTF8(s.src[plain:i], plain); err != nil {
				return nil, err
			}
			dst = append(dst, s.src[plain:i]...)
			r, n, err := s.escape(i)
			if err != nil {
				return nil, err
			}
			dst = utf8.AppendRune(dst, r)
			i += n
			plain = i
		case c < ' ':
			return nil, s.control(i)
		default:
			i++
		}
	}
	s.pos = len(s.src)
	return nil, s.unexpected("")
}

// escape reads the escape at i and returns the character it stands for and its length.
func (s *scanner) escape(i int) (rune, int, *Error) {
	if i+1 >= len(s.src) {
		s.pos = len(s.src)
		return 0, 0, s.unexpected("")
	}
	switch c := s.src[i+1]; c {
	case '"', '\\', '/':
		return rune(c), 2, nil
	case 'b':
		return '\b', 2, nil
	case 'f':
		return '\f', 2, nil
	case 'n':
		return '\n', 2, nil
	case 'r':
		return '\r', 2, nil
	case 't':
		return '\t', 2, nil
	case 'u':
	default:
		return 0, 0, s.fail(i, quoted(s.src[i:i+2]), "there is no such escape")
	}
	r, ok := hex4(s.src[i+2:])
	if !ok {
		return 0, 0, s.fail(i, quoted(s.src[i:min(i+6, len(s.src))]), "four hexadecimal digits are due after \\u")
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, nil
	}
	if rest := s.src[i+6:]; len(rest) > 2 && rest[0] == '\\' && rest[1] == 'u' {
		if low, ok := hex4(rest[2:]); ok {
			if both := utf16.DecodeRune(r, low); both != unicode.ReplacementChar {
				return both, 12, nil
			}
		}
	}
	return 0, 0, s.fail(i, quoted(s.src[i:i+6]), "half a surrogate pair stands for no character")
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func (s *scanner) control(i int) *Error {
	return s.fail(i, fmt.Sprintf("the control character 0x%02x", s.src[i]), "it must be escaped in a string")
}

// checkUTF8 refuses text, which is at the offset at, unless it is valid.
func (s *scanner) checkUTF8(text []byte, at int) *Error {
	if utf8.Valid(text) {
		return nil
	}
	i := bytes.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError })
	for {
		if _, n := utf8.DecodeRune(text[i:]); n == 1 {
			return s.fail(at+i, fmt.Sprintf("the byte 0x%02x", text[i]), "it is not valid UTF-8")
		}
		i += 3 // U+FFFD itself, which is valid
		i += bytes.IndexFunc(text[i:], func(r rune) bool { return r == utf8.RuneError })
	}
}

// appendFold appends name with each character replaced by the least of those that differ from it in case only. Names are
// equal but for case, as strings.EqualFold says, if they fold to the same.
func appendFold(dst, name []byte) []byte {
	for i := 0; i < len(name); {
		c := name[i]
		if c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(name[i:])
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		dst = utf8.AppendRune(dst, least)
		i += n
	}
	return dst
}
