package decode

import "bytes"

// maxExponent bounds the exponents that are taken, so that arithmetic on them is exact. What is beyond is no quantity of
// anything. Nothing is ever made of an exponent but a number of that size.
const maxExponent = 999_999_999

// number reads a number and keeps its exact value: the digits without zeros at either end, and an exponent. It takes no
// more memory than the literal, whatever that stands for.
func (s *scanner) number() *Error {
	start := s.pos
	negative := s.at('-')
	if negative {
		s.pos++
	}
	whole := s.digits()
	switch {
	case len(whole) == 0:
		return s.unexpected("a digit is due")
	case len(whole) > 1 && whole[0] == '0':
		return s.fail(start, "the number "+cut(s.src[start:s.pos], maxToken), "it must not start with a zero")
	}
	var fraction []byte
	if s.at('.') {
		s.pos++
		if fraction = s.digits(); len(fraction) == 0 {
			return s.unexpected("a digit is due")
		}
	}
	var exponent int64
	if s.at('e') || s.at('E') {
		var ok bool
		s.pos++
		minus := s.at('-')
		if minus || s.at('+') {
			s.pos++
		}
		power := s.digits()
		if len(power) == 0 {
			return s.unexpected("a digit is due")
		}
		if exponent, ok = parseExponent(power); !ok {
			return s.fail(start, "the number "+cut(s.src[start:s.pos], maxToken), "its exponent is beyond ±999999999")
		}
		if minus {
			exponent = -exponent
		}
	}
	digits := whole
	if len(fraction) > 0 {
		s.scratch = append(append(s.scratch[:0], whole...), fraction...)
		digits = s.scratch
		exponent -= int64(len(fraction))
	}
	digits = bytes.TrimLeft(digits, "0")
	n := len(digits)
	digits = bytes.TrimRight(digits, "0")
	s.content.number(negative, digits, exponent+int64(n-len(digits)))
	return nil
}

// digits skips and returns a run of digits.
func (s *scanner) digits() []byte {
	start := s.pos
	for s.pos < len(s.src) && isDigit(s.src[s.pos]) {
		s.pos++
	}
	return s.src[start:s.pos]
}

func parseExponent(digits []byte) (int64, bool) {
	var n int64
	for _, c := range digits {
		if n = n*10 + int64(c-'0'); n > maxExponent {
			return 0, false
		}
	}
	return n, true
}
