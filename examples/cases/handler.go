package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
)

// This file is the consumer. Everything else in this directory is there to attack it, and to check it.

// Event is something that happened to a case, as its producer writes it.
type Event struct {
	EventID    string    `json:"eventId"`
	CaseID     string    `json:"caseId"`
	Version    int64     `json:"version"`
	EventType  string    `json:"eventType"`
	OccurredAt time.Time `json:"occurredAt"`
}

// schema is what the handler writes to. case_history has no unique constraint on purpose: an effect that happened twice
// would stay there for everyone to see.
const schema = `
create table if not exists case_projection (
	case_id       text primary key,
	status        text not null,
	version       integer not null,
	last_event_id text not null,
	updated_at    text not null
);
create table if not exists case_history (
	case_id  text not null,
	version  integer not null,
	event_id text not null
);`

// events decodes the topic: each eventId takes effect once.
var events = decode.JSON(func(_ pawl.Meta, e Event) pawl.Identity {
	return pawl.Identity{
		Key: e.EventID, EventID: e.EventID, StreamType: "case", Stream: e.CaseID, Version: e.Version, Type: e.EventType,
		OccurredAt: e.OccurredAt,
	}
})

// follows is the life of a case: which statuses may come after which. Every event is named after the status it leads to.
var follows = map[string][]string{
	"":                   {"OPENED"}, // no case yet
	"OPENED":             {"EVIDENCE_SUBMITTED"},
	"EVIDENCE_SUBMITTED": {"NOTICE_ISSUED"},
	"NOTICE_ISSUED":      {"RESPONSE_RECEIVED"},
	"RESPONSE_RECEIVED":  {"PENALTY_ASSESSED"},
	"PENALTY_ASSESSED":   {"APPEALED", "CLOSED"},
	"APPEALED":           {"CLOSED"},
}

// project moves a case forward by one version. An error undoes its writes, and is kept as the reason. What is rejected is
// set aside and decides nothing: sent again when its turn has come, it applies.
func project(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[Event]) error {
	var status string
	var version int64
	err := tx.QueryRowContext(ctx, `select status, version from case_projection where case_id = ?`, e.Stream).Scan(&status, &version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	switch {
	case e.Version <= version:
		return pawl.Stale(fmt.Sprintf("the case is at version %d, the event brings %d", version, e.Version))
	case e.Version > version+1:
		return pawl.Reject(fmt.Errorf("version gap: the case is at version %d, the event brings %d", version, e.Version))
	case !slices.Contains(follows[status], e.Type):
		return pawl.Reject(fmt.Errorf("illegal transition: from %q to %q", status, e.Type))
	}

	_, err = tx.ExecContext(ctx, `
		insert into case_projection (case_id, status, version, last_event_id, updated_at) values (?, ?, ?, ?, ?)
		on conflict (case_id) do update set
			status = excluded.status, version = excluded.version,
			last_event_id = excluded.last_event_id, updated_at = excluded.updated_at`,
		e.Stream, e.Type, e.Version, e.EventID, e.OccurredAt.Format(time.RFC3339))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `insert into case_history (case_id, version, event_id) values (?, ?, ?)`,
		e.Stream, e.Version, e.EventID)
	return err
}
