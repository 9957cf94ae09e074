package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// OAuthBearer logs in with a token (OAUTHBEARER). Whoever sees a token can use it: without TLS it is refused.
type OAuthBearer struct {
	// Tokens is asked at every login: [ClientCredentials], or a [TokenFunc]. Required.
	Tokens TokenSource

	// Extensions are sent along (KIP-342), as some clouds demand. Default: none.
	Extensions map[string]string

	// InsecureWithoutTLS sends the token where everyone on the way can read it. Default: false, refused.
	InsecureWithoutTLS bool
}

// TokenSource has tokens. It is called from several goroutines, and keeps a token itself if asking for one is dear.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// TokenFunc is a [TokenSource].
type TokenFunc func(ctx context.Context) (string, error)

// Token implements [TokenSource].
func (f TokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }

func (o OAuthBearer) check(ctx context.Context, encrypted bool) []error {
	var errs []error
	if o.Tokens == nil {
		errs = append(errs, errors.New("SASL: OAuthBearer.Tokens is not set"))
	}
	if c, ok := o.Tokens.(interface{ check(context.Context) []error }); ok {
		errs = append(errs, c.check(ctx)...)
	}
	if !encrypted && !o.InsecureWithoutTLS {
		errs = append(errs, withoutTLS("OAuthBearer", "the token"))
	}
	return errs
}

func (o OAuthBearer) mechanism() sasl.Mechanism { return &bearer{o} }

type bearer struct{ OAuthBearer }

// Name implements sasl.Mechanism.
func (*bearer) Name() string { return "OAUTHBEARER" }

// Authenticate implements sasl.Mechanism.
func (b *bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	token, err := b.Tokens.Token(ctx)
	if err != nil {
		return nil, nil, err
	}
	auth := oauth.Auth{Token: token, Extensions: b.Extensions}
	_, first, err := auth.AsMechanism().Authenticate(ctx, host)
	return &bearerSession{b, token}, first, err
}

type bearerSession struct {
	*bearer
	token string
}

// Challenge answers a broker that does not accept the token. It says so in a challenge, and only once that is answered
// with a single 0x01 does it send the error by which a refused login is known (RFC 7628, 3.2.3). The client library's own
// session ends at the challenge, with an error that looks like any other.
func (s *bearerSession) Challenge(challenge []byte) (done bool, answer []byte, err error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	if c, ok := s.Tokens.(interface{ forget(token string) }); ok {
		c.forget(s.token)
	}
	return false, []byte{1}, nil
}
