// Package decimal checks and adds decimal numbers that are kept as text. Nothing here rounds.
package decimal

import (
	"fmt"
	"math"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Numbers that need more digits are refused: an exponent can ask for more than memory has.
const (
	mostWhole = 100_000 // before the point
	mostScale = 16_383  // behind it, as PostgreSQL's numeric
)

// Scale returns how many digits behind the point a number needs: 1 for "12.50", -2 for "1200", math.MinInt for zero. Not ok
// is what is no decimal number ("NaN" and "0x1f" among them), or one with more digits than anybody keeps.
func Scale(s string) (scale int, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	digits, point := 0, -1
	first, last := -1, -1 // the digits that are not zero
	i := 0
	for ; i < len(s); i++ {
		switch ch := s[i]; {
		case ch >= '0' && ch <= '9':
			if ch != '0' {
				if last = digits; first < 0 {
					first = digits
				}
			}
			digits++
			continue
		case ch == '.' && point < 0:
			point = digits
			continue
		}
		break
	}
	if digits == 0 {
		return 0, false
	}
	exp := 0
	if i < len(s) {
		if exp, ok = exponent(s[i:]); !ok {
			return 0, false
		}
	}
	if point < 0 {
		point = digits
	}
	if point-max(first, 0)+exp > mostWhole && first >= 0 || digits-point-exp > mostScale {
		return 0, false
	}
	if first < 0 {
		return math.MinInt, true
	}
	return last + 1 - point - exp, true
}

// exponent reads "e-12".
func exponent(s string) (n int, ok bool) {
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s = s[1:]
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if s == "" || len(s) > 6 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// Plain writes a number that Scale accepts in the one way without exponent, plus sign, leading zeros or negative zero. Zeros
// at the end stay.
func Plain(s string) (string, error) {
	if isPlain(s) {
		return s, nil
	}
	if _, ok := Scale(s); !ok {
		return "", fmt.Errorf("%.40q is not a decimal number", s)
	}
	d, _, err := apd.NewFromString(s)
	if err != nil {
		return "", fmt.Errorf("read %.40q: %w", s, err)
	}
	return text(d), nil
}

func isPlain(s string) bool {
	whole, fraction, pointed := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	if whole == "" || len(whole) > 1 && whole[0] == '0' || len(whole) > mostWhole || pointed && fraction == "" || len(fraction) > mostScale {
		return false
	}
	zero := true
	for _, part := range [...]string{whole, fraction} {
		for i := range len(part) {
			if part[i] < '0' || part[i] > '9' {
				return false
			}
			zero = zero && part[i] == '0'
		}
	}
	return !zero || s[0] != '-'
}

func text(d *apd.Decimal) string {
	if d.IsZero() {
		d.Negative = false
	}
	return d.Text('f')
}

// Add returns a + b, exact, with as many digits behind the point as the longer of the two.
func Add(a, b string) (string, error) {
	var x, y apd.Decimal
	for _, n := range [...]struct {
		text string
		d    *apd.Decimal
	}{{a, &x}, {b, &y}} {
		if _, ok := Scale(n.text); !ok {
			return "", fmt.Errorf("%.40q is not a decimal number", n.text)
		}
		if _, _, err := n.d.SetString(n.text); err != nil {
			return "", fmt.Errorf("read %.40q: %w", n.text, err)
		}
	}
	if _, err := apd.BaseContext.Add(&x, &x, &y); err != nil {
		return "", fmt.Errorf("add %.40q and %.40q: %w", a, b, err)
	}
	return text(&x), nil
}
