//go:build unix

// Package e2e proves Pawl with processes that really die. A member of a consumer group is a process of its own: this test
// binary, started again with a role in its environment. The tests kill, freeze and stop members, cut their database
// sessions, restart PostgreSQL and the broker, and then look at what is left: every event took effect once, every record
// has one outcome, nothing is stuck; and at no sampled moment was the offset in Kafka ahead of the effects.
//
// The short forms are for every run; PAWL_PROOF=long kills many more. A run prints its seed: it decides what is produced
// and what is done to whom, not how the processes interleave.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	roleVariable   = "PAWL_E2E_ROLE"   // set in a child: what it is
	configVariable = "PAWL_E2E_CONFIG" // its configuration, JSON
	faultVariable  = "PAWL_FAULT"      // what fault.FromEnv makes of it
)

// patience bounds a wait for something that should take far less. The machine may be busy.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		flag.Set("test.parallel", "4") // the proofs wait far more than they work
		goleak.VerifyTestMain(m)
	case "member":
		os.Exit(runMember())
	default:
		fmt.Fprintf(os.Stderr, "no role %q\n", role)
		os.Exit(2)
	}
}

func long() bool { return os.Getenv("PAWL_PROOF") == "long" }
