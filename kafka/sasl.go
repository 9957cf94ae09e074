package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/pawlhq/pawl/secret"
)

// SASL is how to log in: [Plain], [SCRAM256], [SCRAM512] or [OAuthBearer]. Other mechanisms come as an option,
// kgo.SASL.
//
// A secret is read at every login, and Kafka may ask for a new one on a connection that stands (KIP-368): one that was
// rotated is used without a restart.
type SASL interface {
	// check reports everything that can be known to be wrong before a broker is asked.
	check(ctx context.Context, encrypted bool) []error
	mechanism() sasl.Mechanism
}

// Plain is a user and a password, which is sent as it is: without TLS it is refused.
type Plain struct {
	User     string
	Password secret.Ref

	// InsecureWithoutTLS sends the password where everyone on the way can read it. Default: false, refused.
	InsecureWithoutTLS bool
}

// SCRAM256 is a user and a password that never leaves the process. Without TLS whoever listens can try passwords at home.
type SCRAM256 struct {
	User     string
	Password secret.Ref
}

// SCRAM512 is [SCRAM256] with a longer hash.
type SCRAM512 struct {
	User     string
	Password secret.Ref
}

func (p Plain) check(ctx context.Context, encrypted bool) []error {
	errs := checkUser(ctx, p.User, p.Password)
	if !encrypted && !p.InsecureWithoutTLS {
		errs = append(errs, withoutTLS("Plain", "the password"))
	}
	return errs
}

func (s SCRAM256) check(ctx context.Context, _ bool) []error {
	return checkUser(ctx, s.User, s.Password)
}
func (s SCRAM512) check(ctx context.Context, _ bool) []error {
	return checkUser(ctx, s.User, s.Password)
}

func checkUser(ctx context.Context, user string, password secret.Ref) []error {
	var errs []error
	if user == "" {
		errs = append(errs, errors.New("SASL: User is empty"))
	}
	if password.IsZero() {
		return append(errs, errors.New("SASL: Password is not set: name one with secret.Env or secret.File"))
	}
	if _, err := password.Resolve(ctx); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func withoutTLS(mechanism, what string) error {
	return fmt.Errorf("SASL: %s would be sent unencrypted: set Config.TLS (in a file: kafka.tls), or %s.InsecureWithoutTLS to do it all the same", what, mechanism)
}

func (p Plain) mechanism() sasl.Mechanism {
	return plain.Plain(func(ctx context.Context) (plain.Auth, error) {
		password, err := p.Password.Resolve(ctx)
		return plain.Auth{User: p.User, Pass: password}, err
	})
}

func (s SCRAM256) mechanism() sasl.Mechanism { return scram.Sha256(scramAuth(s.User, s.Password)) }
func (s SCRAM512) mechanism() sasl.Mechanism { return scram.Sha512(scramAuth(s.User, s.Password)) }

func scramAuth(user string, ref secret.Ref) func(context.Context) (scram.Auth, error) {
	return func(ctx context.Context) (scram.Auth, error) {
		password, err := ref.Resolve(ctx)
		return scram.Auth{User: user, Pass: password}, err
	}
}
