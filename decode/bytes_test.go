package decode_test

import (
	"errors"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

func TestBytesKeepsTheValueAndHashesIt(t *testing.T) {
	bad := errors.New("no identity")
	d := decode.Bytes(func(m pawl.Meta, value []byte) (pawl.Identity, error) {
		if len(value) > 0 && value[0] == '!' {
			return pawl.Identity{}, bad
		}
		return pawl.Identity{Key: string(m.RecordKey)}, nil
	})
	m := pawl.NewMeta(&pawl.Record{Key: []byte("k")})
	seen := map[pawl.Fingerprint]string{}
	for _, value := range [][]byte{nil, {}, []byte("v"), []byte("t"), []byte("vv"), {0}, {0xff, 0}} {
		got, err := d.Decode(m, value)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := d.Decode(m, append([]byte(nil), value...))
		if value != nil && len(value) > 0 && (again.Fingerprint != got.Fingerprint || &got.Body[0] != &value[0]) {
			t.Errorf("%q: the fingerprint changed or the body was copied", value)
		}
		if got.Identity.Key != "k" || string(got.Body) != string(value) || (got.Body == nil) != (value == nil) {
			t.Errorf("%q: decoded %+v", value, got)
		}
		if other, ok := seen[got.Fingerprint]; ok {
			t.Errorf("%q and %q have one fingerprint", value, other)
		}
		seen[got.Fingerprint] = string(value)
	}
	if _, err := d.Decode(m, []byte("!")); !errors.Is(err, bad) {
		t.Errorf("error is %v", err)
	}
}
