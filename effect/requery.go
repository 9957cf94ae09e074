package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/pawlhq/pawl"
)

// Source is a source of truth about streams. It is asked outside any transaction, by several goroutines at once, and must
// heed its context. Values are by column, and as [Column].Value may return them or a json.RawMessage; every column that is no
// note must be there.
// An error is classified as a handler's is: see [pawl.Classed] and [pawl.Overloaded].
type Source interface {
	// Ask returns the version that a stream is at, and its values; false if the source does not know the stream.
	Ask(ctx context.Context, stream string) (pawl.Answer, bool, error)
}

// SourceFunc is a Source that is a function.
type SourceFunc func(ctx context.Context, stream string) (pawl.Answer, bool, error)

// Ask is part of Source.
func (f SourceFunc) Ask(ctx context.Context, stream string) (pawl.Answer, bool, error) {
	return f(ctx, stream)
}

// asked is how many streams are asked about at once.
const asked = 8

// ask asks the source about each stream, and makes its answers fit for rows.
func (s *sequence[T]) ask(ctx context.Context, streams []string) (map[string]pawl.Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		failed  error
		answers = make(map[string]pawl.Answer, len(streams))
		next    = make(chan string)
	)
	for range min(asked, len(streams)) {
		wg.Go(func() {
			for stream := range next {
				a, ok, err := s.answer(ctx, stream)
				mu.Lock()
				switch {
				case err != nil && failed == nil:
					failed = fmt.Errorf("stream %q: %w", stream, err)
					cancel()
				case err == nil && ok:
					answers[stream] = a
				}
				mu.Unlock()
			}
		})
	}
	for _, stream := range streams {
		if ctx.Err() != nil {
			break
		}
		next <- stream
	}
	close(next)
	wg.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	if failed != nil {
		return nil, failed
	}
	return answers, nil
}

func (s *sequence[T]) answer(ctx context.Context, stream string) (a pawl.Answer, ok bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the source of truth panics: %v", v)
		}
	}()
	a, ok, err = s.early.Source.Ask(ctx, stream)
	if err != nil || !ok {
		return a, false, err
	}
	if a.Version < 1 {
		return a, false, pawl.Classed(pawl.Validation, fmt.Errorf("the source of truth is at version %d", a.Version))
	}
	row, values := make([]any, len(s.columns)), make(map[string]any, len(s.columns))
	for i, c := range s.columns {
		v, told := a.Values[c.Name]
		if !told && c.Note {
			continue
		}
		if !told {
			return a, false, pawl.Classed(pawl.Misconfigured, fmt.Errorf("the source of truth says nothing about column %q", c.Name))
		}
		v, err := valueOf(c.Kind, v)
		if err == nil && (v == Keep || v == nil && c.NotNull) {
			err = errors.New("has no value")
		}
		if err != nil {
			return a, false, pawl.Classed(pawl.Validation, fmt.Errorf("the source of truth, column %q: %w", c.Name, err))
		}
		values[c.Name], row[i] = v, v
	}
	if s.sound != nil {
		if wrong := s.sound(row); wrong != "" {
			return a, false, pawl.Classed(pawl.Validation, errors.New("the source of truth: "+wrong))
		}
	}
	return pawl.Answer{Version: a.Version, Values: values}, true, nil
}

// HTTPSource asks over HTTP. The answer is a JSON object: {"version": 7, "values": {"status": "OPEN", …}}. 404 and 410 say that
// the stream is not known; 429 and 503 are overload, a broken connection and other 5xx transient, and what is refused for
// want of a right or a correct request stops the consumer, since no record is to blame.
type HTTPSource struct {
	URL     string       // with {stream} in it, which is escaped: "https://cases.internal/cases/{stream}"
	Header  http.Header  // sent with each request
	Version string       // the member that has the version. Default: "version"
	Values  string       // the member that has the values; "." is the whole answer. Default: "values"
	Client  *http.Client // default: http.DefaultClient. It is bounded by the consumer's HandlerTimeout in any case
	Limit   int64        // bytes of an answer. Default: 1 MiB
}

var errNoURL = errors.New("the URL cannot be read as one: check its host and port, and that other characters are escaped")

// Validate refuses a source that cannot be asked. It does not repeat the URL, which may have a secret in it.
func (s HTTPSource) Validate() error {
	if !strings.Contains(s.URL, "{stream}") {
		return errors.New("the URL does not say {stream}: every stream would get the same answer")
	}
	u, err := url.Parse(s.urlOf("x"))
	if err != nil {
		return errNoURL
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("the URL does not begin with http:// or https:// and a host")
	}
	if s.Limit < 0 {
		return fmt.Errorf("Limit is %d", s.Limit)
	}
	return nil
}

func (s HTTPSource) urlOf(stream string) string {
	escaped := strings.ReplaceAll(url.QueryEscape(stream), "+", "%20") // right in a path and in a query
	return strings.ReplaceAll(s.URL, "{stream}", escaped)
}

// Ask is part of Source.
func (s HTTPSource) Ask(ctx context.Context, stream string) (pawl.Answer, bool, error) {
	none := pawl.Answer{}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.urlOf(stream), nil)
	if err != nil {
		return none, false, pawl.Classed(pawl.Misconfigured, errNoURL)
	}
	if s.Header != nil {
		req.Header = s.Header.Clone()
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	client := s.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		if at := (*url.Error)(nil); errors.As(err, &at) {
			err = at.Err // without the URL, which may have a secret in it
		}
		return none, false, pawl.Classed(pawl.Transient, fmt.Errorf("ask %s: %w", req.URL.Host, err))
	}
	defer resp.Body.Close()
	limit := s.Limit
	if limit == 0 {
		limit = 1 << 20
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if known, err := s.judge(req, resp.StatusCode); !known || err != nil {
		return none, false, err
	}
	if err != nil {
		return none, false, pawl.Classed(pawl.Transient, fmt.Errorf("read the answer of %s: %w", req.URL.Host, err))
	}
	if int64(len(body)) > limit {
		return none, false, pawl.Classed(pawl.Validation, fmt.Errorf("the answer of %s is longer than %d bytes", req.URL.Host, limit))
	}
	a, err := s.read(body)
	if err != nil {
		return none, false, pawl.Classed(pawl.Validation, fmt.Errorf("the answer of %s: %w", req.URL.Host, err))
	}
	return a, true, nil
}

// judge says what a status means.
func (s HTTPSource) judge(req *http.Request, status int) (known bool, err error) {
	said := fmt.Errorf("%s answers %d %s", req.URL.Host, status, http.StatusText(status))
	switch class := classOfStatus(status); {
	case status == http.StatusOK:
		return true, nil
	case status == http.StatusNotFound, status == http.StatusGone:
		return false, nil
	case class == pawl.Overload:
		return false, pawl.Overloaded(req.URL.Host, said)
	default:
		return false, pawl.Classed(class, said)
	}
}

// classOfStatus is the class of a status that is no answer.
func classOfStatus(status int) pawl.Class {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return pawl.Overload
	case status == http.StatusRequestTimeout, status >= 500:
		return pawl.Transient
	}
	return pawl.Misconfigured
}

func (s HTTPSource) read(body []byte) (pawl.Answer, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return pawl.Answer{}, err
	}
	member := func(name, otherwise string) json.RawMessage {
		if name == "" {
			name = otherwise
		}
		return members[name]
	}
	var a pawl.Answer
	if err := json.Unmarshal(member(s.Version, "version"), &a.Version); err != nil {
		return a, fmt.Errorf("the version: %w", err)
	}
	values := members
	if s.Values != "." {
		values = nil
		if err := json.Unmarshal(member(s.Values, "values"), &values); err != nil {
			return a, fmt.Errorf("the values: %w", err)
		}
	}
	a.Values = make(map[string]any, len(values))
	for name, text := range values {
		a.Values[name] = text
	}
	return a, nil
}
