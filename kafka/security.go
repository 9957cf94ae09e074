package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/secret"
)

// secure are the options that Config.TLS and Config.SASL stand for.
func (c *Config) secure() []kgo.Opt {
	var opts []kgo.Opt
	if c.TLS != nil {
		opts = append(opts, kgo.Dialer(c.TLS.dial))
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL.mechanism()))
	}
	return opts
}

// checkTimeout bounds reading every secret once, to see that it is there.
const checkTimeout = 10 * time.Second

// checkSecurity reports everything that is wrong with Config.TLS and Config.SASL. cl was made with the options only; it is
// nil if none can be made.
func (c *Config) checkSecurity(ctx context.Context, cl *kgo.Client) []error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var optionTLS *tls.Config
	if cl != nil {
		optionTLS, _ = cl.OptValue(kgo.DialTLSConfig).(*tls.Config)
	}
	var errs []error
	if c.TLS != nil {
		if _, err := c.TLS.config(ctx); err != nil {
			errs = append(errs, err)
		}
		// A dialer cannot be told from the client's own by looking at it. But it does not go with this option.
		both := append(slices.Clip(c.Options), kgo.DialTLSConfig(new(tls.Config)))
		if optionTLS == nil && kgo.ValidateOpts(c.Options...) == nil && kgo.ValidateOpts(both...) != nil {
			errs = append(errs, errors.New("option kgo.Dialer is reserved: Config.TLS is set: use one or the other"))
		}
	}
	if c.SASL != nil {
		errs = append(errs, c.SASL.check(ctx, c.TLS != nil || optionTLS != nil)...)
	}
	if optionTLS != nil && optionTLS.InsecureSkipVerify && optionTLS.VerifyConnection == nil && optionTLS.VerifyPeerCertificate == nil {
		c.Logger.Warn("INSECURE: TLS without verification: anyone on the way can pose as the broker; use kafka.Config.TLS with a CA",
			"brokers", c.Brokers)
	}
	return errs
}

// refusedLogin tells when a broker does not accept the login: the client itself would go on trying for ever, and a poll
// says nothing of it. It ends Run, unless the login was accepted before: then the secret may be on its way to a new value.
type refusedLogin struct{ *run }

var _ kgo.HookBrokerConnect = refusedLogin{}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (r refusedLogin) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	switch refused := isAny(err, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism); {
	case err == nil:
		r.letIn(false)
	case refused && r.member():
		r.castOut(err)
	case refused:
		class, hint, _ := refusal(err)
		addr := net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port)))
		r.fail(&pawl.Error{Op: "log in at " + addr, Class: class, Err: err, Hint: hint})
	}
}

// refusal says what an error means that a broker, or the way to it, has for everyone who connects like this: what to do
// about it, and whether it is any use to try again. ok is false for other errors.
func refusal(err error) (class pawl.Class, hint string, ok bool) {
	var (
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		record   tls.RecordHeaderError
		op       *net.OpError
		missing  *secret.Error
	)
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return pawl.Misconfigured, "the broker does not accept this login: does the user exist for this SASL mechanism, and is the secret the current one?", true
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return pawl.Misconfigured, "the broker does not offer this SASL mechanism on this port: see sasl.enabled.mechanisms of its listener", true
	case errors.As(err, &missing):
		return pawl.Misconfigured, "the secret must exist, and this process must be allowed to read it", true
	case errors.As(err, &unknown):
		return pawl.Misconfigured, "the broker's certificate is signed by an authority that is not trusted: set TLS.CA to the authority's certificate", true
	case errors.As(err, &hostname):
		return pawl.Misconfigured, "the broker's certificate is for another name: use that name in Brokers, or set TLS.ServerName", true
	case errors.As(err, &invalid):
		return pawl.Misconfigured, "the broker's certificate is not valid: it has to be renewed, or this machine's clock set", true
	case errors.As(err, &record):
		return pawl.Misconfigured, "the broker does not speak TLS on this port: use its TLS listener, or leave TLS out (Config.TLS; in a file: kafka.tls)", true
	case errors.As(err, &op) && op.Op == "remote error": // a TLS alert
		return pawl.Misconfigured, "the broker ended the TLS handshake: does it ask for a client's certificate, and trust who signed TLS.Certificate?", true
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return pawl.Misconfigured, "the user may not do this: it needs READ and DESCRIBE on the topic and READ on the group", true
	}
	return pawl.Unknown, "", false
}
