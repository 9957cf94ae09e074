package decode_test

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// doc is the content of a document. It holds nil, bool, string, number, []doc or map[string]doc.
type doc any

// number is a number by its exact value: coefficient × 10^exponent.
type number struct {
	coefficient int64
	exponent    int
}

// documents are objects and arrays of some size: what may go wrong is in the nesting and the order.
func documents() *rapid.Generator[doc] { return docs(3, "object", "object", "object", "array") }

// values are what an object or an array holds. Kinds are sampled, because rapid draws small integers more often.
func values(depth int) *rapid.Generator[doc] {
	kinds := []string{"null", "bool", "number", "number", "text"}
	if depth > 0 {
		kinds = append(kinds, "array", "object", "object")
	}
	return docs(depth, kinds...)
}

func docs(depth int, kinds ...string) *rapid.Generator[doc] {
	return rapid.Custom(func(t *rapid.T) doc {
		switch rapid.SampledFrom(kinds).Draw(t, "kind") {
		case "null":
			return nil
		case "bool":
			return rapid.Bool().Draw(t, "bool")
		case "number":
			return number{
				rapid.OneOf(rapid.Int64Range(-120, 120), rapid.Int64()).Draw(t, "coefficient"),
				rapid.OneOf(rapid.Just(0), rapid.IntRange(-30, 30), rapid.Just(400000)).Draw(t, "exponent"),
			}
		case "text":
			return texts.Draw(t, "text")
		case "array":
			return rapid.SliceOfN(values(depth-1), rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "least"), 5).Draw(t, "array")
		}
		return rapid.MapOfN(texts, values(depth-1), rapid.SampledFrom([]int{0, 2, 4}).Draw(t, "least"), 8).Draw(t, "object")
	})
}

var texts = rapid.OneOf(
	rapid.SampledFrom([]string{"", "a", "b", "ab", "id", "abcdefgh", "abcdefghi", "a\x00", "\x00", "k\x01a", "/", "\"", "\\", "é", "😀", "\u2028", "\ufffd", "null", "1"}),
	rapid.StringN(0, 12, -1),
)

// spell writes d in one of its spellings.
func spell(t *rapid.T, d doc) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n", "\t\r "}).Draw(t, "space") }
	var parts []string
	open, end := "[", "]"
	switch d := d.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(d)
	case string:
		return spellText(t, d)
	case number:
		return spellNumber(t, d)
	case []doc:
		for _, e := range d {
			parts = append(parts, spell(t, e))
		}
	case map[string]doc:
		open, end = "{", "}"
		names := make([]string, 0, len(d))
		for name := range d {
			names = append(names, name)
		}
		slices.Sort(names) // a map's order would not be the generator's own
		for _, name := range rapid.Permutation(names).Draw(t, "order") {
			parts = append(parts, spellText(t, name)+space()+":"+space()+spell(t, d[name]))
		}
	}
	for i := range parts {
		parts[i] = space() + parts[i] + space()
	}
	if len(parts) == 0 {
		parts = []string{space()}
	}
	return open + strings.Join(parts, ",") + end
}

func spellText(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		must := r < ' ' || r == '"' || r == '\\'
		if !must && rapid.IntRange(0, 3).Draw(t, "escape") > 0 {
			b.WriteRune(r)
			continue
		}
		if short := strings.IndexRune("\"\\/\b\f\n\r\t", r); short >= 0 && rapid.Bool().Draw(t, "short") {
			b.WriteString(`\` + `"\/bfnrt`[short:short+1])
			continue
		}
		format := rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "case")
		if r1, r2 := utf16.EncodeRune(r); r1 != '\ufffd' {
			fmt.Fprintf(&b, format+format, r1, r2)
		} else {
			fmt.Fprintf(&b, format, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func spellNumber(t *rapid.T, n number) string {
	digits := new(big.Int).Abs(big.NewInt(n.coefficient)).String()
	exponent := n.exponent
	sign := ""
	if n.coefficient < 0 || n.coefficient == 0 && rapid.Bool().Draw(t, "minus zero") {
		sign = "-"
	}
	if zeros := rapid.IntRange(0, 3).Draw(t, "zeros"); n.coefficient != 0 {
		digits += strings.Repeat("0", zeros)
		exponent -= zeros
	}
	// Move the point into or before the digits.
	if point := rapid.IntRange(0, len(digits)+2).Draw(t, "point"); point > 0 {
		if point >= len(digits) {
			digits = strings.Repeat("0", point-len(digits)+1) + digits
		}
		digits = digits[:len(digits)-point] + "." + digits[len(digits)-point:]
		exponent += point
	}
	if exponent == 0 && rapid.Bool().Draw(t, "bare") {
		return sign + digits
	}
	e := rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e")
	plus := ""
	if exponent >= 0 && rapid.Bool().Draw(t, "plus") {
		plus = "+"
	}
	return sign + digits + e + plus + strconv.Itoa(exponent)
}

// meaning is a second, slow and simple opinion on whether two contents are the same.
func meaning(d doc) string {
	switch d := d.(type) {
	case string:
		return strconv.Quote(d)
	case number:
		c := new(big.Int).SetInt64(d.coefficient)
		e, ten, rest := d.exponent, big.NewInt(10), new(big.Int)
		for c.Sign() != 0 && rest.Rem(c, ten).Sign() == 0 {
			c.Quo(c, ten)
			e++
		}
		if c.Sign() == 0 {
			e = 0
		}
		return fmt.Sprintf("%d×10^%d", c, e)
	case []doc:
		var parts []string
		for _, e := range d {
			parts = append(parts, meaning(e))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]doc:
		var parts []string
		for name, e := range d {
			parts = append(parts, strconv.Quote(name)+":"+meaning(e))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return fmt.Sprint(d)
}

func TestFingerprintIsTheSameHoweverSpelt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := documents().Draw(rt, "document")
		one, two := spell(rt, d), spell(rt, d)
		if fingerprint(t, one) != fingerprint(t, two) {
			rt.Fatalf("%s\n%s\nsay the same and have other fingerprints", one, two)
		}
	})
}

func TestFingerprintDiffersWhereContentDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := documents().Draw(rt, "document")
		b := change(rt, a)
		same := meaning(a) == meaning(b)
		one, two := spell(rt, a), spell(rt, b)
		if (fingerprint(t, one) == fingerprint(t, two)) != same {
			rt.Fatalf("%s\n%s\nfingerprints are equal: %v, contents: %v", one, two, !same, same)
		}
	})
}

// change returns d with one thing in it changed: most ways a document may differ are small ones.
func change(t *rapid.T, d doc) doc {
	switch d := d.(type) {
	case []doc:
		if i := rapid.IntRange(-2, len(d)-1).Draw(t, "index"); i >= 0 {
			c := slices.Clone(d)
			c[i] = change(t, c[i])
			return c
		} else if i == -1 && len(d) > 1 {
			return rapid.Permutation(d).Draw(t, "order")
		}
		return append(slices.Clone(d), values(1).Draw(t, "element"))
	case map[string]doc:
		c := map[string]doc{}
		names := make([]string, 0, len(d))
		for name, v := range d {
			c[name] = v
			names = append(names, name)
		}
		slices.Sort(names)
		if i := rapid.IntRange(-1, len(names)-1).Draw(t, "member"); i >= 0 {
			name := names[i]
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				delete(c, name)
			case 1:
				delete(c, name)
				c[texts.Draw(t, "name")] = d[name]
			default:
				c[name] = change(t, c[name])
			}
			return c
		}
		c[texts.Draw(t, "name")] = values(1).Draw(t, "value")
		return c
	case number:
		return rapid.SampledFrom([]number{
			{d.coefficient, d.exponent + 1}, {d.coefficient ^ 1, d.exponent}, {-d.coefficient, d.exponent},
		}).Draw(t, "number")
	}
	return values(1).Draw(t, "other")
}
