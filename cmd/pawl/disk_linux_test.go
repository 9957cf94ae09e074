package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/internal/kafkatest"
)

// ownProcess tells a test that it is in a process of its own.
const ownProcess = "PAWL_TEST_OWN_PROCESS"

// inOwnProcess runs the test once more, in a process of its own that may mount, where the system lets anybody have one, and
// reports whether this is that process.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownProcess) != "" {
		return true
	}
	run := func(how *syscall.SysProcAttr) ([]byte, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), ownProcess+"=yes")
		cmd.SysProcAttr = how
		return cmd.CombinedOutput()
	}
	out, err := run(&syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	})
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		out, err = run(nil)
	}
	t.Logf("in a process of its own:\n%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Error(err)
	}
	return false
}

// smallDisk returns a folder on a disk that is soon full, and what makes it larger. Where nothing can be mounted, it is the files of
// this process that may not grow: SQLite calls that an error of the disk.
func smallDisk(t *testing.T) (dir string, grow func()) {
	t.Helper()
	const small, large = 2 << 20, 64 << 20
	dir = t.TempDir()
	mount := func(flags uintptr, size int) error {
		return syscall.Mount("none", dir, "tmpfs", flags, fmt.Sprint("size=", size))
	}
	err := mount(0, small)
	if err == nil {
		t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
		return dir, func() {
			if err := mount(syscall.MS_REMOUNT, large); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("no disk can be mounted here (%v): files may not grow beyond %d bytes instead", err, small)
	signal.Ignore(syscall.SIGXFSZ)
	limit := func(size uint64) {
		var l syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
		l.Cur = size
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	limit(small)
	return dir, func() { limit(large) }
}

// On a disk that is full nothing is lost and nothing is set aside: what was settled stays, what was not is tried again, and
// takes effect once there is room.
func TestAFullDiskLosesNothing(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	disk, grow := smallDisk(t)
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
	full := func() bool {
		said := p.stderr.String()
		return strings.Contains(said, "full (13)") || strings.Contains(said, "disk I/O error")
	}
	await(t, p.stderr, "the disk to be full", full)
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
	await(t, p.stderr, "the disk to be full", full)

	ended := strings.Contains(p.stderr.String(), "pipeline ended") // there is not even room to say who reads
	if ended {
		if code := <-p.ended; code != exitFailed || !strings.Contains(p.stderr.String(), "make room") {
			t.Errorf("exit code %d: %s", code, p.stderr)
		}
	}

	grow()
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
