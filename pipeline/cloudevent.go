package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/pawlhq/pawl"
)

// decodeCloudEvent reads a CloudEvent as the Kafka binding has it: structured, if the content type says so or no header is
// one of its attributes; else binary.
func (d *decoder) decodeCloudEvent(m pawl.Meta, value []byte, doc *Document) (pawl.Fingerprint, error) {
	contentType := ""
	for _, name := range []string{"content-type", "Content-Type"} {
		if v, ok := m.Header(name); ok {
			contentType = string(v)
		}
	}
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case strings.HasPrefix(media, "application/cloudevents-batch"):
		return pawl.Fingerprint{}, errors.New("a batch of CloudEvents is not one event: send them one in a record")
	case strings.HasPrefix(media, "application/cloudevents") && media != "application/cloudevents+json" &&
		media != "application/cloudevents":
		return pawl.Fingerprint{}, fmt.Errorf("a CloudEvent in %s is not read: send JSON", clip(media, 60))
	case !strings.HasPrefix(media, "application/cloudevents") && hasAttributes(m.Headers):
		whole, err := structured(m.Headers, media, value)
		if err != nil {
			return pawl.Fingerprint{}, err
		}
		value = whole
	}
	// Both modes go the same way from here on, so that one event has one fingerprint however it was sent.
	got, err := d.json.Decode(m, value)
	if err != nil {
		return pawl.Fingerprint{}, err
	}
	event, ok := got.Body.(map[string]any)
	if !ok {
		return pawl.Fingerprint{}, errors.New("a CloudEvent is an object")
	}
	doc.Attributes = make(map[string]string, len(event))
	for name, v := range event {
		if name == "data" {
			continue
		}
		if name == "data_base64" {
			return pawl.Fingerprint{}, errors.New("the data is not JSON (data_base64)")
		}
		text, err := convert(v, textKind)
		if err != nil {
			return pawl.Fingerprint{}, fmt.Errorf("attribute %q: %w", clip(name, 60), err)
		}
		doc.Attributes[name] = text.(string)
	}
	if v := doc.Attributes["specversion"]; v != "1.0" {
		return pawl.Fingerprint{}, fmt.Errorf("specversion is %q: 1.0 is read", clip(v, 20))
	}
	for _, name := range []string{"id", "source", "type"} {
		if doc.Attributes[name] == "" {
			return pawl.Fingerprint{}, fmt.Errorf("attribute %q is missing", name)
		}
	}
	doc.Body = event["data"]
	return got.Fingerprint, nil
}

func hasAttributes(headers []pawl.Header) bool {
	for _, h := range headers {
		if strings.HasPrefix(h.Key, "ce_") {
			return true
		}
	}
	return false
}

// structured writes a CloudEvent in binary mode as one in structured mode.
func structured(headers []pawl.Header, media string, value []byte) ([]byte, error) {
	if media != "" && media != "application/json" && media != "text/json" && !strings.HasSuffix(media, "+json") {
		return nil, fmt.Errorf("the data is %s: only JSON is read", clip(media, 60))
	}
	attributes := map[string]string{}
	for _, h := range headers {
		name, ok := strings.CutPrefix(h.Key, "ce_")
		if !ok {
			continue
		}
		if !utf8.Valid(h.Value) || !utf8.ValidString(name) || name == "data" || name == "data_base64" {
			return nil, fmt.Errorf("header %q is no attribute of a CloudEvent", clip(h.Key, 60))
		}
		if _, twice := attributes[name]; twice {
			return nil, fmt.Errorf("header %q is there twice", clip(h.Key, 60))
		}
		attributes[name] = string(h.Value)
	}
	head, err := json.Marshal(attributes)
	if err != nil {
		return nil, err
	}
	if len(value) == 0 {
		return head, nil
	}
	if !json.Valid(value) { // else it could close the object, and add attributes of its own
		return nil, errors.New("the data is not JSON")
	}
	out := append(head[:len(head)-1], `,"data":`...)
	return append(append(out, value...), '}'), nil
}

// contentOf is what two copies of a CloudEvent are compared by: not its id and time, nor what tracing has added on the way.
func contentOf(except []string) func(body any) any {
	return func(body any) any {
		event, ok := body.(map[string]any)
		if !ok {
			return body
		}
		c := map[string]any{}
		for _, name := range []string{"source", "type", "subject", "dataschema", "data"} {
			if v, ok := event[name]; ok {
				c[name] = v
			}
		}
		if data, ok := c["data"].(map[string]any); ok && len(except) > 0 {
			kept := make(map[string]any, len(data))
			for k, v := range data {
				kept[k] = v
			}
			for _, name := range except {
				delete(kept, name)
			}
			c["data"] = kept
		}
		return c
	}
}
