package decimal

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestScaleIsWhatANumberNeeds(t *testing.T) {
	for s, want := range map[string]int{
		"12.50": 1, "1200": -2, "-0.001": 3, "+7": 0, ".5": 1, "5.": 0, "1e3": -3, "1.5e-3": 4, "15E+1": -1, "0": math.MinInt, "-0.00": math.MinInt,
		"0.10": 1, "100.0": -2, "0e999999": math.MinInt,
	} {
		if got, ok := Scale(s); !ok || got != want {
			t.Errorf("%s: got %d %v, want %d", s, got, ok, want)
		}
	}
}

func TestWhatIsNoNumberIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "-", ".", "NaN", "Infinity", "-inf", "0x1f", "1_000", " 1", "1 ", "1e", "1e+", "1.2.3", "--1", "1e9999999", "1e100001", "1e-16384",
		"١", "1\x00", strings.Repeat("9", mostWhole+1), "0." + strings.Repeat("9", mostScale+1),
	} {
		if _, ok := Scale(s); ok {
			t.Errorf("Scale takes %.20q", s)
		}
		if got, err := Plain(s); err == nil {
			t.Errorf("Plain(%.20q): got %.20s", s, got)
		}
		if _, err := Add("1", s); err == nil {
			t.Errorf("Add takes %.20q", s)
		}
	}
}

func TestPlainSpellsANumberOneWay(t *testing.T) {
	for s, want := range map[string]string{
		"12.50": "12.50", "+1": "1", "007": "7", ".5": "0.5", "5.": "5", "-0": "0", "-0.00": "0.00", "1e3": "1000", "1.50e1": "15.0",
		"1e-3": "0.001", "-12.50": "-12.50", "-0.01": "-0.01", "0": "0", "00.10": "0.10",
	} {
		if got, err := Plain(s); err != nil || got != want {
			t.Errorf("%s: got %s %v, want %s", s, got, err, want)
		}
	}
}

func TestAddIsExact(t *testing.T) {
	for _, tt := range [][3]string{
		{"0.1", "0.2", "0.3"}, {"-12.50", "12.5", "0.00"}, {"1", "-0.001", "0.999"}, {"-1", "-2", "-3"},
		{strings.Repeat("9", 60), "0." + strings.Repeat("0", 59) + "1", strings.Repeat("9", 60) + "." + strings.Repeat("0", 59) + "1"},
	} {
		if got, err := Add(tt[0], tt[1]); err != nil || got != tt[2] {
			t.Errorf("%s + %s: got %s %v, want %s", tt[0], tt[1], got, err, tt[2])
		}
	}
	number := rapid.StringMatching(`[+-]?[0-9]{1,70}(\.[0-9]{1,70})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		got, err := Add(a, b)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		sum, ok := new(big.Rat).SetString(got)
		if !ok || sum.Cmp(x.Add(x, y)) != 0 {
			t.Fatalf("%s + %s: got %s", a, b, got)
		}
		plain, err := Plain(a)
		if x, _ = new(big.Rat).SetString(a); err != nil {
			t.Fatal(err)
		}
		if p, ok := new(big.Rat).SetString(plain); !ok || p.Cmp(x) != 0 || !isPlain(plain) {
			t.Fatalf("Plain(%s): got %s", a, plain)
		}
	})
}
