package pawl

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Header is one header of a record. Kafka allows a key to repeat, so headers are a list.
type Header struct {
	Key   string
	Value []byte
}

// headerText is a header as stores keep it: readable, and exact for any bytes.
type headerText struct {
	Key   string `json:"key,omitempty"`
	Key64 []byte `json:"key64,omitempty"` // in place of Key where that is not valid text
	Value []byte `json:"value"`           // base64; null where there is none
}

// EncodeHeaders writes headers as the JSON text in which stores keep them; none is the empty string.
func EncodeHeaders(hs []Header) string {
	if len(hs) == 0 {
		return ""
	}
	out := make([]headerText, len(hs))
	for i, h := range hs {
		out[i] = headerText{Key: h.Key, Value: h.Value}
		if !utf8.ValidString(h.Key) {
			out[i] = headerText{Key64: []byte(h.Key), Value: h.Value}
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return string(text)
}

// DecodeHeaders reads what EncodeHeaders wrote.
func DecodeHeaders(text string) ([]Header, error) {
	if text == "" {
		return nil, nil
	}
	var in []headerText
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, fmt.Errorf("read stored headers: %w", err)
	}
	out := make([]Header, len(in))
	for i, h := range in {
		out[i] = Header{Key: h.Key, Value: h.Value}
		if h.Key64 != nil {
			out[i].Key = string(h.Key64)
		}
	}
	return out, nil
}
