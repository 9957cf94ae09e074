package decode_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

type tree struct {
	Name     string           `json:"name"`
	Children []*tree          `json:"children"`
	ByKey    map[string]*tree `json:"byKey"`
	Pair     [2]tree1         `json:"pair"`
	Any      any              `json:"any"`
	When     time.Time        `json:"when"`
	Skipped  int              `json:"-"`
	Dash     int              `json:"-,omitempty"`
	Untagged int
	hidden   int
	Base
	*Pointed
	Labelled Base `json:"labelled"`
}

type tree1 struct {
	Leaf int `json:"leaf"`
}

type Base struct {
	CreatedBy string `json:"createdBy"`
	Name      string `json:"name"` // shadowed by the name of tree
}

type Pointed struct {
	ETag string `json:"etag"`
}

func TestWrongCaseIsRefusedAtAnyDepth(t *testing.T) {
	for doc, want := range map[string]string{
		`{"Name":"x"}`:                                `"Name" at the root: the field is "name" (byte 1)`,
		`{"\u004eame":"x"}`:                           `"Name" at the root: the field is "name"`,
		`{"name":"x","NAME":"y"}`:                     `"NAME" at the root: the field is "name"`,
		`{"children":[{},{"name":"","CHILDREN":[]}]}`: `"CHILDREN" at /children/1: the field is "children"`,
		`{"byKey":{"NAME":{"bykey":{}}}}`:             `"bykey" at /byKey/NAME: the field is "byKey"`,
		`{"pair":[{"leaf":1},{"Leaf":2}]}`:            `"Leaf" at /pair/1: the field is "leaf"`,
		`{"createdby":"x"}`:                           `"createdby" at the root: the field is "createdBy"`,
		`{"eTag":"x"}`:                                `"eTag" at the root: the field is "etag"`,
		`{"labelled":{"CreatedBy":"x"}}`:              `"CreatedBy" at /labelled: the field is "createdBy"`,
		`{"untagged":1}`:                              `"untagged" at the root: the field is "Untagged"`,
		// U+017F and U+212A are the same letters as s and k in another case.
		`{"by\u212aey":{}}`:   `the field is "byKey"`,
		`{"unta\u0067ged":1}`: `the field is "Untagged"`,
	} {
		refused[tree](t, doc, want)
		refused[[]*tree](t, "["+doc+"]", strings.SplitN(want, " at ", 2)[0])
	}
}

func TestNamesThatAreNoFieldsAreNotChecked(t *testing.T) {
	for _, doc := range []string{
		`{"byKey":{"NAME":{"name":"x"},"name":{}}}`,    // names of a map are data
		`{"any":{"NAME":1,"Name":2,"name":3}}`,         // so is all in an any
		`{"unknown":{"NAME":1}}`,                       // nothing is known of what is skipped
		`{"-":5,"Skipped":1,"skipped":1,"Hidden":1}`,   // ignored fields have no name
		`{"Base":1,"Pointed":2}`,                       // embedded structs have none either
		`{"na-me":1,"na_me":2,"nam":3,"names":4,"":5}`, // these resemble nothing
		`{"children":{"Name":1}}`,                      // not what the field holds: refused below, for that reason
	} {
		_, err := decodeAs[tree](doc)
		if err != nil && !strings.Contains(err.Error(), "does not fit") {
			t.Errorf("%s: %v", doc, err)
		}
	}
	got := mustDecode[tree](t, `{"name":"a","createdBy":"b","etag":"c","-":5,"labelled":{"name":"d"}}`).Body
	if got.Name != "a" || got.CreatedBy != "b" || got.ETag != "c" || got.Dash != 5 || got.Labelled.Name != "d" || got.hidden != 0 {
		t.Errorf("body is %+v", got)
	}
}

func TestFieldsThatDifferInCaseOnly(t *testing.T) {
	type both struct {
		Lower int `json:"id"`
		Upper int `json:"ID"`
	}
	if got := mustDecode[both](t, `{"ID":2,"id":1}`).Body; got != (both{1, 2}) {
		t.Errorf("body is %+v", got)
	}
	refused[both](t, `{"Id":1}`, `"Id" at the root: the field is "id"`)
}

func TestKnownFieldsOnly(t *testing.T) {
	known := decode.KnownFieldsOnly()
	mustDecode[tree](t, `{"name":"x","any":{"what":1},"byKey":{"ever":{}}}`, known)
	mustDecode[map[string]any](t, `{"what":1}`, known)
	refused[tree](t, `{"name":"x","nom":1}`, `"nom" at the root: there is no such field (KnownFieldsOnly) (byte 12)`, known)
	refused[tree](t, `{"children":[{"nom":1}]}`, `"nom" at /children/0: there is no such field`, known)
	refused[tree](t, `{"Name":1}`, `the field is "name"`, known)
	mustDecode[tree](t, `{"nom":1}`)

	type rest struct {
		ID   int            `json:"id"`
		Rest map[string]any `json:",embed"`
	}
	got := mustDecode[rest](t, `{"id":1,"other":2}`, known).Body
	if got.ID != 1 || len(got.Rest) != 1 || got.Rest["other"] != json.Number("2") {
		t.Errorf("body is %+v", got)
	}
	refused[rest](t, `{"Id":1,"other":2}`, `the field is "id"`, known)
}

type Labels map[string]string

func TestTypeThatNeverDecodesPanicsAtOnce(t *testing.T) {
	for name, f := range map[string]func(){
		"an embedded map without a name": func() { with[struct{ Labels }]() },
		"no exported field, deep inside": func() { with[[]struct{ Inner map[string]struct{ a int } }]() },
		"string on a list": func() {
			with[struct {
				A []int `json:",string"`
			}]()
		},
		"no identity":  func() { decode.JSON[int](nil) },
		"no bytes id":  func() { decode.Bytes(nil) },
		"no depth":     func() { with[any](decode.MaxDepth(0)) },
		"no bytes":     func() { with[any](decode.MaxBytes(0)) },
		"far too deep": func() { with[any](decode.MaxDepth(1 << 20)) },
		"far too long": func() { with[any](decode.MaxBytes(1 << 30)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if msg, ok := recover().(string); !ok || !strings.HasPrefix(msg, "decode: ") {
					t.Errorf("panic is %v", msg)
				}
			}()
			f()
		})
	}
}

func TestPanicOfIdentityPassesThrough(t *testing.T) {
	d := decode.JSON(func(_ pawl.Meta, p *payment) pawl.Identity { return pawl.Identity{Key: p.ID} })
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_, _ = d.Decode(pawl.NewMeta(&pawl.Record{}), []byte("null"))
}
