package decode

import "fmt"

// Option changes what [JSON] accepts or fingerprints.
type Option func(*settings)

type settings struct {
	maxBytes  int
	maxDepth  int
	knownOnly bool
	envelope  map[string]bool
}

const (
	// DefaultMaxBytes is four times what a Kafka broker takes by default, so that only a topic that was set up for large
	// records needs [MaxBytes].
	DefaultMaxBytes = 4 << 20
	// DefaultMaxDepth is far beyond what people design and far below what costs anything.
	DefaultMaxDepth = 64

	// The offsets of the scanner are 32 bits wide, and its form of a document is at most twice as long.
	maxMaxBytes = 256 << 20
	// Deeper documents are refused by the package that makes the body.
	maxMaxDepth = 10_000
)

// MaxBytes refuses values of more than n bytes before they are read; n is from 1 to 256 MiB. The default is
// [DefaultMaxBytes].
func MaxBytes(n int) Option {
	if n < 1 || n > maxMaxBytes {
		panic(fmt.Sprintf("decode: MaxBytes(%d): want 1 to %d", n, maxMaxBytes))
	}
	return func(s *settings) { s.maxBytes = n }
}

// MaxDepth refuses documents with more than n levels of objects and arrays; n is from 1 to 10000. The default is
// [DefaultMaxDepth].
func MaxDepth(n int) Option {
	if n < 1 || n > maxMaxDepth {
		panic(fmt.Sprintf("decode: MaxDepth(%d): want 1 to %d", n, maxMaxDepth))
	}
	return func(s *settings) { s.maxDepth = n }
}

// KnownFieldsOnly refuses members that are no field of the body's type. By default they are accepted, so that a
// producer may add fields first; they count in the fingerprint either way.
func KnownFieldsOnly() Option {
	return func(s *settings) { s.knownOnly = true }
}

// EnvelopeFields leaves the named members of the outermost object out of the fingerprint: those that belong to the
// message and change when an event is sent again, such as a message id or the time of sending. They are checked and
// decoded like any other. Names are exact: a member that is spelt otherwise counts.
func EnvelopeFields(names ...string) Option {
	return func(s *settings) {
		for _, n := range names {
			s.envelope[n] = true
		}
	}
}
