package pawl

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// Route joins topics to a decoder and a handler.
type Route struct {
	// Name is identity: claims are kept per (consumer, route, key). Under another name everything takes effect again,
	// unless RenamedFrom says what it was called before.
	Name string
	// RenamedFrom is the route's earlier name; its claims are taken over.
	RenamedFrom string
	// Topics that are read. Several routes may read one topic; each decides for itself.
	Topics []string
	// Order is what is kept in order. A topic whose order is not OrderPartition is read by one route. Default:
	// OrderPartition.
	Order Order
	// Quarantine is what waits behind a record that was set aside. Default: QuarantineRecord.
	Quarantine QuarantineScope
}

// QuarantineScope says what a record that is set aside takes along.
type QuarantineScope uint8

const (
	// QuarantineRecord sets the record aside alone: what comes after it in its stream takes effect without it.
	QuarantineRecord QuarantineScope = iota
	// QuarantineStream blocks the record's stream, where it has one: what comes after it is held in the store, in order, and is
	// released in order when an operator has replayed, edited or skipped it. A conflict blocks nothing.
	QuarantineStream
)

// Order says which records are settled one after the other, as they came.
type Order uint8

const (
	// OrderPartition keeps the records of a partition in order.
	OrderPartition Order = iota
	// OrderStream keeps the records of a stream in order that come from one partition. Different streams are worked on side by
	// side, so that a slow or failing one delays only itself, within what fits in memory. A record without a stream is in order
	// with nothing.
	OrderStream
	// OrderNone keeps no order.
	OrderNone
)

func (r *Route) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("route %q: "+format, append([]any{r.Name}, args...)...))
	}
	if r.Name == "" {
		bad("the name is empty")
	} else if err := validName(r.Name); err != nil {
		bad("name: %w", err)
	}
	if r.RenamedFrom == r.Name && r.Name != "" {
		bad("renamed from itself")
	}
	if r.Order > OrderNone {
		bad("Order is %d, which is none", r.Order)
	}
	if r.Quarantine > QuarantineStream {
		bad("Quarantine is %d, which is none", r.Quarantine)
	}
	if r.Quarantine == QuarantineStream && r.Order == OrderNone {
		bad("a stream cannot be blocked in the right place where no order is kept: use OrderStream or OrderPartition")
	}
	if len(r.Topics) == 0 {
		bad("no topics")
	}
	seen := map[string]bool{}
	for _, t := range r.Topics {
		if t == "" {
			bad("a topic is empty")
		}
		if seen[t] {
			bad("topic %q is listed twice", t)
		}
		seen[t] = true
	}
	return errors.Join(errs...)
}

// Handle registers a handler that is called for one record at a time. Its writes go through tx; what it returns is
// described at the verbs ([Ignore], [Stale], [Reject], [Later]). What is wrong with a registration is reported by Run.
func Handle[Tx, T any](r *Runner[Tx], route Route, dec Decoder[T], h func(ctx context.Context, tx Tx, e Envelope[T]) error) {
	r.register(route, dec == nil || h == nil, func(n int) section[Tx] { return &records[Tx, T]{envelopes: newEnvelopes(dec, n), h: h} })
}

// HandleBatch registers a handler that is called for many records at once: for effects that are written as a set. Each
// Key is in a batch once, and the records of a stream are in order. An error undoes the whole batch, which is then tried
// in halves until the record that fails is alone.
func HandleBatch[Tx, T any](r *Runner[Tx], route Route, dec Decoder[T], h func(ctx context.Context, tx Tx, b *Batch[T]) error) {
	r.register(route, dec == nil || h == nil, func(n int) section[Tx] { return &batches[Tx, T]{envelopes: newEnvelopes(dec, n), h: h} })
}

// section is the part of a batch that belongs to one route, with the body's type erased. It holds decoded envelopes by
// index.
type section[Tx any] interface {
	// decode adds a record and fills d from it, or returns why it cannot be decoded.
	decode(rec *Record, d *Decision) error
	// cut drops what was decoded from the n-th on, of size records.
	cut(n int)
	size() int
	// adopt takes over a record that another section of the same route has decoded, and returns its index here.
	adopt(from section[Tx], i int) int
	// batched reports which of the two calls below applies.
	batched() bool
	call(ctx context.Context, tx Tx, i int) error
	callBatch(ctx context.Context, s Session[Tx], at []int, h *hearing) error
	// ask has the source of truth of a declared effect asked, and keeps the answers for the next call.
	ask(ctx context.Context, streams []string) error
}

// unasked is a section whose handler asks nobody.
type unasked struct{}

func (unasked) ask(context.Context, []string) error {
	panic("pawl: a handler has no source of truth to be asked")
}

// envelopes are what a section has decoded.
type envelopes[T any] struct {
	dec Decoder[T]
	all []Envelope[T]
}

func newEnvelopes[T any](dec Decoder[T], n int) envelopes[T] {
	return envelopes[T]{dec, make([]Envelope[T], 0, n)}
}

func (s *envelopes[T]) decode(rec *Record, d *Decision) (err error) {
	s.all = append(s.all, Envelope[T]{})
	defer recoverAs(&err)
	got, err := s.dec.Decode(NewMeta(rec), rec.Value)
	if err != nil {
		return err
	}
	if err := got.Identity.validate(); err != nil {
		return err
	}
	if got.Fingerprint == (Fingerprint{}) {
		return errors.New("the decoder gave no fingerprint: a conflict could not be told from a duplicate")
	}
	d.Identity, d.Fingerprint, d.KeyID = got.Identity, got.Fingerprint, NewKeyID(got.Identity.Key)
	s.all[len(s.all)-1] = Envelope[T]{Identity: got.Identity, Mode: d.Mode, Headers: rec.Headers, Body: got.Body}
	return nil
}

func (s *envelopes[T]) size() int { return len(s.all) }

func (s *envelopes[T]) cut(n int) {
	clear(s.all[n:])
	s.all = s.all[:n]
}

func (s *envelopes[T]) append(from []Envelope[T], i int) int {
	s.all = append(s.all, from[i])
	from[i] = Envelope[T]{} // the others of its section may wait for long
	return len(s.all) - 1
}

type records[Tx, T any] struct {
	envelopes[T]
	unasked
	h func(context.Context, Tx, Envelope[T]) error
}

func (s *records[Tx, T]) batched() bool { return false }

func (s *records[Tx, T]) adopt(from section[Tx], i int) int {
	return s.append(from.(*records[Tx, T]).all, i)
}

func (s *records[Tx, T]) call(ctx context.Context, tx Tx, i int) (err error) {
	defer recoverAs(&err)
	return s.h(ctx, tx, s.all[i])
}

func (s *records[Tx, T]) callBatch(context.Context, Session[Tx], []int, *hearing) error {
	panic("pawl: a per-record route has no batch call")
}

type batches[Tx, T any] struct {
	envelopes[T]
	unasked
	h func(context.Context, Tx, *Batch[T]) error
}

func (s *batches[Tx, T]) batched() bool { return true }

func (s *batches[Tx, T]) adopt(from section[Tx], i int) int {
	return s.append(from.(*batches[Tx, T]).all, i)
}

func (s *batches[Tx, T]) call(context.Context, Tx, int) error {
	panic("pawl: a batch route has no per-record call")
}

func (s *batches[Tx, T]) callBatch(ctx context.Context, session Session[Tx], at []int, h *hearing) (err error) {
	defer recoverAs(&err)
	return s.h(ctx, session.Tx(), &Batch[T]{s.all, at, h})
}

// folds is the section of a declared effect.
type folds[Tx, T any] struct {
	envelopes[T]
	e       Effect[T]
	answers map[string]Answer
}

func (s *folds[Tx, T]) batched() bool { return true }

func (s *folds[Tx, T]) adopt(from section[Tx], i int) int {
	return s.append(from.(*folds[Tx, T]).all, i)
}

func (s *folds[Tx, T]) call(context.Context, Tx, int) error {
	panic("pawl: a declared effect has no per-record call")
}

func (s *folds[Tx, T]) callBatch(ctx context.Context, session Session[Tx], at []int, h *hearing) (err error) {
	defer recoverAs(&err)
	h.answers = s.answers
	err = s.e.Fold(ctx, session.Rows(), &Batch[T]{s.all, at, h})
	if ask := (*askError)(nil); !errors.As(err, &ask) {
		s.answers = nil // they were for this batch: the source may know more when the next one asks
	}
	return err
}

func (s *folds[Tx, T]) ask(ctx context.Context, streams []string) (err error) {
	defer recoverAs(&err)
	asker, ok := s.e.(Asker)
	if !ok {
		return &Error{Op: "ask a source of truth", Class: Misconfigured, Err: fmt.Errorf("%T has none", s.e)}
	}
	answers, err := asker.Ask(ctx, streams)
	if err != nil {
		return err
	}
	if s.answers == nil {
		s.answers = map[string]Answer{}
	}
	for _, stream := range streams {
		s.answers[stream] = answers[stream] // also what it does not know: it is asked once
	}
	return nil
}

// panicError is a panic of user code, kept as an error so that it ends one record and not the process.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// Unwrap lets an error that was thrown be classified like one that was returned.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

func recoverAs(err *error) {
	if v := recover(); v != nil {
		*err = &panicError{v, debug.Stack()}
	}
}
