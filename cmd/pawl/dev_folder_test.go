//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two in one folder would share a database and take each other's partitions. Who is killed holds nothing: neither the folder, nor
// by consumers that live on.
func TestAFolderIsPlayedInByOneProcess(t *testing.T) {
	t.Parallel()
	pawl := copyOfPawl(t)
	dir := filepath.Join(t.TempDir(), "played")
	var said tail
	first := exec.Command(pawl, "dev", "--dir", dir, "--seed", "7")
	first.Stderr = &said
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	defer first.Process.Kill()
	await(t, &said, "a consumer to be killed", func() bool { return strings.Contains(said.String(), "killed ") })

	for _, args := range [][]string{{"--for", "1s"}, {"--for", "1s", "--fresh"}} {
		var out bytes.Buffer
		second := exec.Command(pawl, append([]string{"dev", "--dir", dir}, args...)...)
		second.Stderr = &out
		var exit *exec.ExitError
		if err := second.Run(); !errors.As(err, &exit) || exit.ExitCode() != exitRefused {
			t.Errorf("a second one with %v: %v", args, err)
		}
		if want := fmt.Sprintf("another pawl dev plays in it, process %d", first.Process.Pid); !strings.Contains(out.String(), want) {
			t.Errorf("it said %q, not %q", out.String(), want)
		}
	}

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.Wait()
	if out, err := exec.Command(pawl, "dev", "--dir", dir, "--for", "1s").CombinedOutput(); err != nil {
		t.Errorf("after it was killed: %v: %s", err, out)
	}

	for _, command := range []string{"dev-consumer", "dev-naive"} {
		endsWithParent(t, exec.Command(pawl, command), "PAWL_DEV_FILES="+filepath.Join(dir, "played"),
			"PAWL_DEV_DB="+filepath.Join(dir, "pawl.db"), "PAWL_DEV_NAIVE="+filepath.Join(dir, "naive.jsonl"))
	}
}

// endsWithParent holds the other end of stdin, as dev does, and lets go of it. The broker that the child works for does not answer.
func endsWithParent(t *testing.T, child *exec.Cmd, env ...string) {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	child.Env = append(append(os.Environ(), "PAWL_STORE=", "PAWL_DEV_KAFKA="+silent.Addr().String()), env...)
	life, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		child.Wait()
	}()
	if _, err := silent.Accept(); err != nil { // it is at work
		t.Error(err)
	}
	life.Close()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Errorf("%v lives on", child.Args)
		child.Process.Kill()
		<-ended
	}
}

// What is to be tried next can be pasted, whatever folders and streams are called.
func TestAWordIsOneToAShell(t *testing.T) {
	for _, word := range []string{"case-7-00001", "sqlite:.pawl-dev/pawl.db", "o'brien's", "my folder/x", "$(id) `id` \"x\" ; *", "", "~", "#x", "é"} {
		out, err := exec.Command("sh", "-c", "printf %s/ "+shellWord(word)).Output()
		if err != nil || string(out) != word+"/" {
			t.Errorf("%q as %s is %q to a shell (%v)", word, shellWord(word), out, err)
		}
	}
	if got := shellWord("sqlite:.pawl-dev/pawl.db"); strings.Contains(got, "'") {
		t.Errorf("%s needs no quotes", got)
	}
}

// copyOfPawl is this test as the command, which starts itself again.
func copyOfPawl(t *testing.T) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(t.TempDir(), "pawl")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
