package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
)

func keyTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"keys of any length and any bytes are kept apart", keysOfAnyBytes[Tx]},
		{"a hashed key is kept readable", keyReadable[Tx]},
		{"a uuid, a ulid and a hash of the same bytes do not meet", keyFormsApart[Tx]},
	}
}

// oddKeys are keys that break a store that puts them in an index or a text column.
func oddKeys() []string {
	return []string{
		"k", " ", "k ", "K", "\x00", "\x00\x00", "a\x00b", "a", "\xff\xfe", "\xc3\x28", "ключ", "'; drop table effect; --", "%s",
		"null", strings.Repeat("x", 2703), strings.Repeat("x", 2704), strings.Repeat("x", 2705), strings.Repeat("y", 1<<20),
		"018f2f3a-0000-7000-8000-000000000001", "018F2F3A-0000-7000-8000-000000000001", "018f2f3a00007000800000000000001",
		"01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav", "00000000-0000-0000-0000-000000000000",
		"00000000000000000000000000",
	}
}

func keysOfAnyBytes[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	var first, second []*pawl.Decision
	for i, key := range oddKeys() {
		first = append(first, record(partition(0), int64(i), key, fmt.Sprint(i)))
		second = append(second, record(partition(1), int64(i), key, fmt.Sprint(i)))
	}
	c.apply(c.acquire(partition(0), 0), first...)
	for _, d := range first {
		w.wantOutcome(d, pawl.Applied)
	}
	c.apply(c.acquire(partition(1), 0), second...)
	for i, d := range second {
		w.wantOutcome(d, pawl.Duplicate)
		if d.Prior == nil || d.Prior.Fingerprint != first[i].Fingerprint {
			t.Errorf("key %.40q: prior %+v, want its own", d.Identity.Key, d.Prior)
		}
	}
	w.consistent()
}

func keyReadable[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	c.apply(o, record(partition(0), 0, "a\x00\xff", "v"))
	c.apply(o, record(partition(0), 1, "018f2f3a-0000-7000-8000-000000000001", "v"))
	w.wantInt(1, `select count(*) from pawl_decision where key_form = 0 and key = ?`, []byte("a\x00\xff"))
	w.wantInt(1, `select count(*) from pawl_decision where key_form = 1 and key is null`)
}

func keyFormsApart[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	id := pawl.NewKeyID("hashed").ID
	for i, form := range []pawl.KeyForm{pawl.KeyHashed, pawl.KeyUUID, pawl.KeyULID} {
		k := pawl.KeyID{Form: form, ID: id}
		key, ok := k.Key()
		if !ok {
			key = "hashed"
		}
		d := record(partition(0), int64(i), key, "v")
		if d.KeyID != k {
			t.Fatalf("key %q: id %+v, want %+v", key, d.KeyID, k)
		}
		c.apply(o, d)
		w.wantOutcome(d, pawl.Applied)
	}
	w.wantInt(3, `select count(*) from pawl_decision`)
	w.consistent()
}
