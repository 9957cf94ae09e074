package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pawlhq/pawl/secret"
)

// TLS is how connections are encrypted, and who proves what to whom. The zero value trusts the system's authorities and
// shows no certificate. TLS 1.2 is the least that is spoken, and a broker's certificate is always verified.
//
// What the references name is read for every new connection: certificates that were replaced are used without a restart,
// from the next connection on. Files that are replaced one after the other may not fit together for a moment; a
// connection that is made then fails and is tried again.
type TLS struct {
	// CA names the authorities, in PEM, by one of which the brokers' certificates are signed. Default: the system's.
	CA secret.Ref

	// Certificate and Key are the client's own, in PEM, for brokers that ask for one (mTLS). The certificate comes first,
	// and those between it and the authority behind it. Default: none.
	Certificate, Key secret.Ref

	// ServerName is the name that the brokers' certificates are for. Default: the host that was dialled, for each broker.
	ServerName string
}

// dialTimeout bounds connecting, the handshake included.
const dialTimeout = 10 * time.Second

// dial makes a connection with what the references name now.
func (t *TLS) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	cfg, err := t.config(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.ServerName == "" {
		if cfg.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return nil, err
		}
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: cfg}
	return d.DialContext(ctx, network, addr)
}

// config reads everything anew. It returns everything that is wrong.
func (t *TLS) config(ctx context.Context) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var caErr, certErr error
	if !t.CA.IsZero() {
		cfg.RootCAs, caErr = authorities(ctx, t.CA)
	}
	switch {
	case t.Certificate.IsZero() != t.Key.IsZero():
		certErr = errors.New("TLS.Certificate and TLS.Key go together: one is set and the other is not")
	case !t.Certificate.IsZero():
		var own tls.Certificate
		own, certErr = t.own(ctx)
		cfg.Certificates = []tls.Certificate{own}
	}
	return cfg, errors.Join(caErr, certErr)
}

// authorities reads certificates to trust.
func authorities(ctx context.Context, ref secret.Ref) (*x509.CertPool, error) {
	pem, err := ref.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", ref)
	}
	return pool, nil
}

// own reads the client's certificate. One that is out of date is refused here: of the broker's refusal one learns less.
func (t *TLS) own(ctx context.Context) (tls.Certificate, error) {
	certPEM, certErr := t.Certificate.Resolve(ctx)
	keyPEM, keyErr := t.Key.Resolve(ctx)
	if err := errors.Join(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	cert, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the certificate %s with the key %s: %w", t.Certificate, t.Key, err)
	}
	now := time.Now()
	if from, to := cert.Leaf.NotBefore, cert.Leaf.NotAfter; now.Before(from) || now.After(to) {
		return tls.Certificate{}, fmt.Errorf("the certificate %s is valid from %s to %s only", t.Certificate,
			from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	return cert, nil
}
