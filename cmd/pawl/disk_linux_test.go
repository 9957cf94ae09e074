package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/internal/kafkatest"
)

// smallDisk tells a test that it runs where it may mount.
const smallDisk = "PAWL_TEST_MAY_MOUNT"

// mayMount runs the test once more, in a process that has a file system table of its own, and reports whether this is that
// process. It needs no rights, but a system that lets anybody have one.
func mayMount(t *testing.T) bool {
	t.Helper()
	if os.Getenv(smallDisk) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), smallDisk+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	t.Logf("in a process that may mount:\n%s", out)
	switch _, ran := err.(*exec.ExitError); {
	case err != nil && !ran:
		t.Skipf("no disk can be mounted here: %v", err)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skip("no disk can be mounted here")
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Error(err)
	}
	return false
}

func mountDisk(t *testing.T, dir string, flags uintptr, size string) {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", flags, "size="+size); err != nil {
		if flags == 0 {
			t.Skipf("mount: %v", err)
		}
		t.Fatal(err)
	}
}

// On a disk that is full nothing is lost and nothing is set aside: what was settled stays, what was not is tried again, and
// takes effect once there is room.
func TestAFullDiskLosesNothing(t *testing.T) {
	if !mayMount(t) {
		return
	}
	disk := t.TempDir()
	mountDisk(t, disk, 0, "2m")
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	brokers := kafkatest.Embedded(t)
	topic := kafkatest.Topic(t, brokers, 1)
	db, file := filepath.Join(disk, "pawl.db"), filepath.Join(t.TempDir(), "pawl.yaml")
	content := fmt.Sprintf(audited, db, brokers[0], topic) + "    limits: {batch: 20}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code := runLine(t, "migrate", "up", "--execute", "-f", file); code != exitDone {
		t.Fatalf("migrate: %d", code)
	}
	ddl, _ := runLine(t, "init", "--ddl", file)
	raw, err := sql.Open("sqlite", db+"?_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec(ddl); err != nil {
		t.Fatal(err)
	}
	count := func(what string) (n int) {
		t.Helper()
		if err := raw.QueryRow("select count(*) from " + what).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	const records = 1000 // of 4 KiB each: twice what the disk has
	cl := kafkatest.Client(t, brokers)
	for i := range records {
		value := fmt.Sprintf(`{"id":"e%d","body":%q}`, i, strings.Repeat("x", 4<<10))
		cl.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}, nil)
		if i%3 == 0 {
			cl.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}, nil) // again
		}
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	const deliveries = records + (records+2)/3

	p := startRun(t, file)
	await(t, p.stderr, "the disk to be full", func() bool { return strings.Contains(p.stderr.String(), "full (13)") })
	rows, settled := count("order_audit"), p.progress()
	if rows == 0 || rows == records || settled >= deliveries {
		t.Fatalf("%d rows and %d settled: the disk was not full: %s", rows, settled, p.stderr)
	}
	t.Logf("the disk is full with %d rows of %d", rows, records)
	if n := count("pawl_quarantine"); n > 0 {
		t.Errorf("%d records are set aside", n)
	}
	// It still answers, and can be stopped; one that is started now says what is wrong.
	if out, code := runLine(t, "status", "-f", file, "-o", "csv"); code != exitDone {
		t.Errorf("status: %d, %s", code, out)
	}
	p.stop()
	p = startRun(t, file)
	await(t, p.stderr, "the disk to be full", func() bool { return strings.Contains(p.stderr.String(), "full (13)") })

	ended := strings.Contains(p.stderr.String(), "pipeline ended") // there is not even room to say who reads
	if ended {
		if code := <-p.ended; code != exitFailed || !strings.Contains(p.stderr.String(), "hint: make room on the disk") {
			t.Errorf("exit code %d: %s", code, p.stderr)
		}
	}

	mountDisk(t, disk, syscall.MS_REMOUNT, "64m")
	if ended {
		p = startRun(t, file)
	}
	p.settles(deliveries)
	p.stop()
	if n := count("order_audit"); n != records {
		t.Errorf("%d rows, want %d", n, records)
	}
	if n := count("pawl_quarantine"); n > 0 {
		t.Errorf("%d records are set aside", n)
	}
	if n := count("pawl_decision"); n != records {
		t.Errorf("%d decisions, want %d", n, records)
	}
}
