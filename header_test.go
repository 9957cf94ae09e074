package pawl

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestHeadersOfAnyBytesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hs []Header
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			h := Header{Key: string(rapid.SliceOf(rapid.Byte()).Draw(t, "key"))}
			if rapid.Bool().Draw(t, "has a value") {
				h.Value = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "value")...)
			}
			hs = append(hs, h)
		}
		got, err := DecodeHeaders(EncodeHeaders(hs))
		if err != nil || !reflect.DeepEqual(got, hs) {
			t.Fatalf("%v reads back as %v, %v", hs, got, err)
		}
	})
}
