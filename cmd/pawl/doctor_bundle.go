package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pipeline"
	"github.com/pawlhq/pawl/secret"
)

// bundle is a file for those who are asked for help: what there is to know about an installation, without what is nobody's
// business. Nothing of a record is in it, and nothing that operators wrote.
type bundle struct {
	app     *app
	hidden  []string // secrets, as they are: none of them may be in it, whoever wrote it into an error
	entries []bundled
}

type bundled struct {
	name string
	text []byte
}

type bundledConsumer struct {
	Name       string             `json:"name"`
	Group      string             `json:"group"`
	Routes     []string           `json:"routes"`
	Paused     bool               `json:"paused"`
	Partitions []bundledPartition `json:"partitions"`
	Conditions []bundledCondition `json:"conditions"`
	Quarantine []bundledGroup     `json:"quarantine"`
	Operations []bundledOperation `json:"operations"`
	Since      *time.Time         `json:"since"`
}

type bundledPartition struct {
	Topic      string     `json:"topic"`
	Partition  int32      `json:"partition"`
	Next       int64      `json:"next"`
	Epoch      int64      `json:"epoch"`
	Owned      bool       `json:"owned"`
	Crashes    int        `json:"crashes"`
	AdvancedAt *time.Time `json:"advancedAt"`
}

type bundledCondition struct {
	Topic     string     `json:"topic,omitempty"`
	Partition int32      `json:"partition"`
	State     string     `json:"state"`
	Reason    string     `json:"reason"`
	Since     *time.Time `json:"since"`
}

type bundledGroup struct {
	Route  string     `json:"route"`
	Cause  string     `json:"cause"`
	Count  int        `json:"count"`
	Oldest *time.Time `json:"oldest"`
	Newest *time.Time `json:"newest"`
}

type bundledOperation struct {
	ID     int64      `json:"id"`
	Kind   string     `json:"operation"`
	State  string     `json:"state"`
	Total  int        `json:"total"`
	Done   int        `json:"done"`
	Failed int        `json:"failed"`
	At     *time.Time `json:"at"`
}

// isFree refuses a file that is somebody's, before anything is looked at.
func isFree(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return &exitError{exitRefused, fmt.Errorf("%s is there already: nothing was written", path)}
	}
	return nil
}

// writeBundle writes what is known to a file that must not be there.
func (a *app) writeBundle(ctx context.Context, path string, set *pipeline.Set, settings []pipeline.Setting, l *location, found []checkView, live string) error {
	b := &bundle{app: a, hidden: secretsOf(ctx, set, l)}
	b.json("version.json", buildVersion())
	b.json("settings.json", settings)
	b.json("findings.json", set.Findings)
	b.json("checks.json", found)
	b.store(ctx, l)
	for _, what := range []string{"metrics", "progress"} {
		b.live(ctx, live, what)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range b.entries {
		f, err := w.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: a.now()})
		if err == nil {
			_, err = f.Write(b.scrub(e.text))
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if _, err = f.Write(out.Bytes()); err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	a.note("%s has %s; look through it before you send it", path, plural(len(b.entries), "file"))
	return nil
}

// secretsOf are the secrets of an installation, as far as they can be read, and what they are made of.
func secretsOf(ctx context.Context, set *pipeline.Set, l *location) []string {
	refs := []secret.Ref{l.postgres}
	if set.Store != nil {
		refs = append(refs, set.Store.Postgres)
	}
	if k := set.Kafka; k != nil && k.TLS != nil {
		refs = append(refs, k.TLS.Key)
	}
	if k := set.Kafka; k != nil && k.SASL != nil {
		refs = append(refs, k.SASL.Password)
	}
	var all []string
	for _, r := range refs {
		text, err := r.Resolve(ctx)
		if err != nil {
			continue
		}
		all = append(all, text)
		if u, err := url.Parse(text); err == nil && u.User != nil {
			if password, ok := u.User.Password(); ok {
				all = append(all, password, url.QueryEscape(password), url.PathEscape(password))
			}
		}
		for _, word := range strings.Fields(text) {
			if password, ok := strings.CutPrefix(word, "password="); ok {
				all = append(all, strings.Trim(password, "'"))
			}
		}
	}
	return all
}

func (b *bundle) scrub(text []byte) []byte {
	for _, h := range b.hidden {
		if h != "" {
			text = bytes.ReplaceAll(text, []byte(h), []byte("***"))
		}
	}
	return text
}

func (b *bundle) json(name string, v any) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // what is escaped would not be found by scrub
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		text.Reset()
		fmt.Fprintf(&text, "%q\n", err.Error())
	}
	b.entries = append(b.entries, bundled{name, text.Bytes()})
}

// store adds what the store knows of its consumers. That it does not answer is among the checks.
func (b *bundle) store(ctx context.Context, l *location) {
	if isStore(l) != nil {
		return
	}
	s, err := l.open(ctx, false)
	if err != nil {
		return
	}
	defer s.close()
	if have, err := s.have(ctx); err != nil || have != s.needs() {
		return
	}
	all, err := s.admin.Consumers(ctx)
	var views []bundledConsumer
	for _, c := range all {
		var v *bundledConsumer
		if v, err = b.consumer(ctx, s.admin, c); err != nil {
			break
		}
		views = append(views, *v)
	}
	if err != nil {
		b.entries = append(b.entries, bundled{"consumers.txt", []byte(err.Error() + "\n")})
		return
	}
	b.json("consumers.json", views)
}

func (b *bundle) consumer(ctx context.Context, admin pawl.Admin, c pawl.BoundConsumer) (*bundledConsumer, error) {
	stamp := b.app.stamp
	v := &bundledConsumer{Name: c.Name, Group: c.Group, Routes: c.Routes, Paused: c.Paused != nil, Since: stamp(c.Since)}
	progress, err := admin.Progress(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	for _, p := range progress {
		v.Partitions = append(v.Partitions, bundledPartition{p.Partition.Topic, p.Partition.Index, p.Next, p.Epoch, p.Owned, p.Crashes, stamp(p.AdvancedAt)})
	}
	conditions, err := admin.Conditions(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	for _, o := range conditions {
		v.Conditions = append(v.Conditions, bundledCondition{o.Partition.Topic, o.Partition.Index, string(o.State), o.Reason, stamp(o.Since)})
	}
	groups, err := admin.QuarantineGroups(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	for _, g := range groups { // without the reasons: they quote records
		v.Quarantine = append(v.Quarantine, bundledGroup{g.Route, g.Cause, g.Count, stamp(g.Oldest), stamp(g.Newest)})
	}
	operations, err := admin.Operations(ctx, c.Name, 50)
	if err != nil {
		return nil, err
	}
	for _, o := range operations {
		v.Operations = append(v.Operations, bundledOperation{o.ID, string(o.Kind), string(o.State), o.Total, o.Done, o.Failed, stamp(o.At)})
	}
	return v, nil
}

const mostLive = 16 << 20

// live adds what a process that runs here says of itself, or why it does not.
func (b *bundle) live(ctx context.Context, address, what string) {
	if address == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	text, err := func() ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/"+what, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answers %s", address, resp.Status)
		}
		return io.ReadAll(io.LimitReader(resp.Body, mostLive))
	}()
	if err != nil {
		text = []byte("no process was asked: " + err.Error() + "\n")
	}
	b.entries = append(b.entries, bundled{what + ".txt", text})
}
