package decode_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hexNumber is a number that reads itself.
type hexNumber uint64

func (h *hexNumber) UnmarshalJSON(b []byte) error {
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(s, 16, 64)
	*h = hexNumber(n)
	return err
}

type octet byte

// usual has a field for each thing that version 2 of encoding/json reads in another way unless told.
type usual struct {
	When    time.Time          `json:"when"`
	WhenPtr *time.Time         `json:"whenPtr,omitempty"`
	Wait    time.Duration      `json:"wait"`
	Data    []byte             `json:"data"`
	Octets  []octet            `json:"octets"`
	Sum     [4]byte            `json:"sum"`
	Addr    netip.Addr         `json:"addr"`
	Hex     hexNumber          `json:"hex"`
	HexPtr  *hexNumber         `json:"hexPtr"`
	Big     *big.Int           `json:"big"`
	Num     json.Number        `json:"num"`
	Raw     json.RawMessage    `json:"raw"`
	IntStr  int64              `json:"intStr,string"`
	UintStr *uint16            `json:"uintStr,string"`
	BoolStr bool               `json:"boolStr,string"`
	StrStr  string             `json:"strStr,string"`
	Floats  []float64          `json:"floats"`
	ByInt   map[int]string     `json:"byInt"`
	ByAddr  map[netip.Addr]int `json:"byAddr"`
	Any     any                `json:"any"`
	Omit    int                `json:"omit,omitempty,omitzero"`
	Ptr     **int              `json:"ptr"`
	Nested  struct{ A, B int } `json:"nested"`
	Iface   interface{ M() }   `json:"iface"`
	Chan    chan int           `json:"chan"`
}

func TestBodyIsWhatEncodingJSONMakes(t *testing.T) {
	for _, doc := range []string{
		`{}`,
		`null`,
		`{"when":"2026-09-18T05:43:03.123456789+02:00","whenPtr":"2026-09-18T05:43:03Z","wait":1500000000}`,
		`{"data":"AAECAw==","octets":"AAEC","sum":[1,2,3,4]}`,
		`{"data":"AAEC\nAw==","octets":[1,2]}`,
		`{"data":null,"octets":null,"sum":null,"when":null,"wait":null,"hexPtr":null,"big":null,"num":null,"raw":null,"any":null,"ptr":null,"nested":null,"iface":null,"floats":null,"byInt":null}`,
		`{"addr":"10.0.0.1","hex":"ff","hexPtr":"10","big":123456789012345678901234567890}`,
		`{"num":1e400000}`, `{"num":"12.50"}`, `{"num":-0}`,
		`{"raw": {"a" : [1, 2 ]} }`,
		`{"intStr":"-9007199254740993","uintStr":"65535","boolStr":"true","strStr":"\"x\""}`,
		`{"floats":[1,0.1,1e-400000,-0,1e21]}`,
		`{"byInt":{"-5":"a","7":"b"},"byAddr":{"::1":3}}`,
		`{"any":{"a":[1,1.50,"x",true,null,{}],"b":[]},"omit":5,"ptr":12,"nested":{"A":1,"B":2}}`,
		`{"num":null,"unknown":[1,{"deep":{}}]}`,
	} {
		got := mustDecode[usual](t, doc).Body
		var want usual
		dec := json.NewDecoder(bytes.NewReader([]byte(doc)))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", doc, got, want)
		}
	}
}

func TestBodyIsRefusedWhereEncodingJSONGuesses(t *testing.T) {
	for doc, want := range map[string]string{
		`{"sum":[1,2,3]}`:                "at /sum: it does not fit [4]uint8",
		`{"sum":[1,2,3,4,5]}`:            "does not fit",
		`{"when":"2026-09-18T5:43:03Z"}`: "at /when: it does not fit time.Time",
		`{"when":"2026-09-18"}`:          "does not fit",
		`{"when":1}`:                     "does not fit",
		`{"wait":"1s"}`:                  "at /wait: it does not fit time.Duration",
		`{"byInt":{"0":"a","-0":"b"}}`:   "byInt",
		`{"hex":"xyz"}`:                  "at /hex: it does not fit decode_test.hexNumber",
		`{"nested":[]}`:                  "an array at /nested: it does not fit struct",
		`{"iface":{}}`:                   "at /iface",
		`{"chan":1}`:                     "at /chan",
		`[]`:                             "an array at the root: it does not fit decode_test.usual",
	} {
		refused[usual](t, doc, want)
	}
}

func TestQuotedNumbersFollowJSON(t *testing.T) {
	type quoted struct {
		I int     `json:"i,string"`
		F float64 `json:"f,string"`
	}
	if got := mustDecode[quoted](t, `{"i":"-12","f":"1.5e3"}`).Body; got != (quoted{-12, 1500}) {
		t.Errorf("body is %+v", got)
	}
	for _, doc := range []string{`{"i":"+1"}`, `{"i":"01"}`, `{"i":" 1"}`, `{"i":"0x1"}`, `{"i":1}`, `{"f":"NaN"}`, `{"f":"Inf"}`, `{"f":"0x1p4"}`, `{"f":""}`} {
		refused[quoted](t, doc, strings.Split(doc, `"`)[1])
	}
}
