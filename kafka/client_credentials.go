package kafka

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/secret"
)

// ClientCredentials is a [TokenSource] that asks an identity provider, with the OAuth 2.0 client credentials grant. A
// token is kept for four fifths of its life, or until a broker refuses it. Use a pointer.
type ClientCredentials struct {
	// TokenURL is the provider's token endpoint. It must be https. Redirects are not followed, and proxies not used: what
	// is sent there is a secret. Required.
	TokenURL string

	// ClientID and ClientSecret are sent as HTTP basic authentication. Required.
	ClientID     string
	ClientSecret secret.Ref

	// Scopes to ask for. Default: none.
	Scopes []string

	// Parameters are sent besides, such as audience or resource. They are not secret. Default: none.
	Parameters url.Values

	// CA names the authorities, in PEM, for the provider's certificate. Default: the system's.
	CA secret.Ref

	mu     sync.Mutex
	token  secret.Ref // zero if none is kept
	keepTo time.Time
}

const (
	tokenTimeout = 10 * time.Second // of one request, from dialling to the last byte
	maxTokenBody = 256 << 10
)

var _ TokenSource = (*ClientCredentials)(nil)

func (c *ClientCredentials) check(ctx context.Context) []error {
	var errs []error
	if _, err := c.endpoint(); err != nil {
		errs = append(errs, err)
	}
	if c.ClientID == "" {
		errs = append(errs, errors.New("ClientCredentials.ClientID is empty"))
	}
	if c.ClientSecret.IsZero() {
		errs = append(errs, errors.New("ClientCredentials.ClientSecret is not set: name one with secret.Env or secret.File"))
	} else if _, err := c.ClientSecret.Resolve(ctx); err != nil {
		errs = append(errs, err)
	}
	if !c.CA.IsZero() {
		if _, err := authorities(ctx, c.CA); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// endpoint parses TokenURL. Its error does not repeat what might hold a password.
func (c *ClientCredentials) endpoint() (*url.URL, error) {
	u, err := url.Parse(c.TokenURL)
	switch {
	case err != nil:
		return nil, errors.New("ClientCredentials.TokenURL is not a URL")
	case u.Scheme != "https" || u.Host == "":
		return nil, errors.New("ClientCredentials.TokenURL is not https://…: the client's secret is sent there")
	case u.User != nil:
		return nil, errors.New("ClientCredentials.TokenURL has a user in it: use ClientID and ClientSecret")
	}
	return u, nil
}

// Token implements [TokenSource].
func (c *ClientCredentials) Token(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	// Held while asking, so that the connections to many brokers share one answer.
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.token.IsZero() && time.Now().Before(c.keepTo) {
		return c.token.Resolve(ctx)
	}
	u, err := c.endpoint()
	if err != nil {
		return "", err
	}
	asked := time.Now()
	token, life, err := c.ask(ctx, u)
	if err != nil {
		return "", fmt.Errorf("ask https://%s%s for a token: %w", u.Host, u.Path, err)
	}
	c.token, c.keepTo = secret.Literal(token), asked.Add(life*4/5)
	return token, nil
}

// forget makes the next Token ask anew.
func (c *ClientCredentials) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, err := c.token.Resolve(context.Background()); err == nil && kept == token { // of this process, no waiting
		c.token = secret.Ref{}
	}
}

// ask makes one request. life is zero if the answer does not say how long the token lives.
func (c *ClientCredentials) ask(ctx context.Context, u *url.URL) (token string, life time.Duration, err error) {
	req, err := c.request(ctx, u)
	if err != nil {
		return "", 0, err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxTokenBody,
	}
	defer transport.CloseIdleConnections()
	if !c.CA.IsZero() {
		if transport.TLSClientConfig.RootCAs, err = authorities(ctx, c.CA); err != nil {
			return "", 0, err
		}
	}
	resp, err := transport.RoundTrip(req) // not a Client: it would follow redirects
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenBody+1))
	if err != nil {
		return "", 0, err
	}
	if len(body) > maxTokenBody {
		return "", 0, fmt.Errorf("the answer is longer than %d bytes", maxTokenBody)
	}
	return readToken(resp.StatusCode, body)
}

func (c *ClientCredentials) request(ctx context.Context, u *url.URL) (*http.Request, error) {
	clientSecret, err := c.ClientSecret.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	form := url.Values{}
	for name, values := range c.Parameters {
		form[name] = values
	}
	form.Set("grant_type", "client_credentials")
	if len(c.Scopes) > 0 {
		form.Set("scope", strings.Join(c.Scopes, " "))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(clientSecret)) // escaped: RFC 6749, 2.3.1
	return req, nil
}

// errorCodes are the words that an answer may give as its reason. Other text of the answer is not shown: it is the
// provider's, and might repeat what was sent.
var errorCodes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"invalid_target", "access_denied", "server_error", "temporarily_unavailable",
}

func readToken(status int, body []byte) (string, time.Duration, error) {
	var answer struct {
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"` // a string, at some providers
		Error       string      `json:"error"`
	}
	err := json.Unmarshal(body, &answer)
	if status != http.StatusOK {
		if err == nil && slices.Contains(errorCodes, answer.Error) {
			return "", 0, fmt.Errorf("the answer is %d, %s", status, answer.Error)
		}
		return "", 0, fmt.Errorf("the answer is %d", status)
	}
	if err != nil || answer.AccessToken == "" {
		return "", 0, errors.New("the answer holds no access_token")
	}
	if strings.ContainsFunc(answer.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		// 0x01 ends the token in the login, and what follows would be read as something else.
		return "", 0, errors.New("the answer's access_token has characters that no token may have")
	}
	seconds, err := answer.ExpiresIn.Int64()
	if err != nil || seconds < 0 {
		seconds = 0
	}
	return answer.AccessToken, time.Duration(min(seconds, 24*60*60)) * time.Second, nil
}
