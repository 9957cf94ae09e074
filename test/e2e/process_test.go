//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a child: this binary in another role.
type process struct {
	name string
	app  string // its name for PostgreSQL
	cmd  *exec.Cmd
	in   io.Closer     // closed by the end of this process at the latest, which ends the child
	done chan struct{} // closed when it has ended and its output has been read

	mu      sync.Mutex
	notes   []note
	log     []string      // the last lines of its standard error
	told    chan struct{} // closed and replaced at each note
	killed  bool          // SIGKILL came from here
	unsound string        // what it must never print: a data race, a panic
	keep    bool          // all of its log from now on
}

// logLines is how much of a child's log is kept, for the message of a failure.
const logLines = 60

// spawn starts a child in a process group of its own. It is killed when the test ends, if it has not ended.
func spawn(t *testing.T, name, role string, config any, faults string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.Command(self), done: make(chan struct{}), told: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, configVariable+"="+string(text), faultVariable+"="+faults,
		"GORACE=atexit_sleep_ms=0", "GOTRACEBACK=all")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	errs, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var read sync.WaitGroup
	read.Go(func() { p.readNotes(out) })
	read.Go(func() { p.readLog(errs) })
	go func() {
		read.Wait()
		p.cmd.Wait() // what it says is in ProcessState
		in.Close()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if s := p.soundness(); s != "" {
			t.Errorf("%s: %s", p, s)
		}
	})
	return p, nil
}

func (p *process) readNotes(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n note
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			n = note{What: "unreadable", Err: lines.Text()}
		}
		p.mu.Lock()
		p.notes = append(p.notes, n)
		close(p.told)
		p.told = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *process) readLog(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		if p.unsound == "" && (strings.Contains(line, "DATA RACE") || strings.HasPrefix(line, "panic: ")) {
			p.unsound, p.keep = line, true
		}
		if len(p.log) >= logLines && !p.keep {
			p.log = p.log[1:]
		}
		p.log = append(p.log, line)
		p.mu.Unlock()
	}
}

func (p *process) String() string { return fmt.Sprintf("%s (process %d)", p.name, p.cmd.Process.Pid) }

// soundness is what is wrong with the child itself, however it ended.
func (p *process) soundness() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unsound == "" {
		return ""
	}
	return p.unsound + "\n" + strings.Join(p.log, "\n")
}

// signal goes to the whole process group, and to nobody once the child has been reaped.
func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.done:
		return
	default:
	}
	if s == syscall.SIGKILL {
		p.mu.Lock()
		p.killed = true
		p.mu.Unlock()
	}
	syscall.Kill(-p.cmd.Process.Pid, s) // it may have ended this moment
}

// kill kills the child and waits until it is gone. It reports whether it was alive until then.
func (p *process) kill() bool {
	p.signal(syscall.SIGKILL)
	<-p.done
	s := p.status()
	return s.Signaled() && s.Signal() == syscall.SIGKILL
}

// status is how the child ended. Call it when done is closed.
func (p *process) status() syscall.WaitStatus {
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// killedItself reports whether the child died of a SIGKILL that did not come from here.
func (p *process) killedItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status().Signaled() && p.status().Signal() == syscall.SIGKILL && !p.killed
}

// stop asks the child to end in good order and waits for it.
func (p *process) stop() error {
	p.signal(syscall.SIGTERM)
	if err := p.ended(patience); err != nil {
		return err
	}
	if s := p.status(); !s.Exited() || s.ExitStatus() != 0 {
		return fmt.Errorf("%s ended with %v\n%s", p, p.cmd.ProcessState, p.tail())
	}
	return nil
}

func (p *process) ended(within time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-time.After(within):
		return fmt.Errorf("%s has not ended within %s\n%s", p, within, p.dump())
	}
}

var errGone = errors.New("the process has ended")

// wait waits for a note among those from index from on, and returns the index after it.
func (p *process) wait(what string, from int, within time.Duration, ok func(note) bool) (int, error) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for i := from; ; {
		p.mu.Lock()
		for ; i < len(p.notes); i++ {
			if ok(p.notes[i]) {
				p.mu.Unlock()
				return i + 1, nil
			}
		}
		told := p.told
		p.mu.Unlock()
		select {
		case <-told:
			continue
		default:
		}
		select {
		case <-told:
		case <-p.done:
			p.mu.Lock()
			more := i < len(p.notes)
			p.mu.Unlock()
			if !more {
				return i, fmt.Errorf("%s: waited for %s: %w: %v\n%s", p, what, errGone, p.cmd.ProcessState, p.tail())
			}
		case <-deadline.C:
			return i, fmt.Errorf("%s: no %s within %s\n%s", p, what, within, p.dump())
		}
	}
}

// said returns how many notes there are so far.
func (p *process) said() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.notes)
}

// settles waits for n batches more.
func (p *process) settles(n int) error {
	from := p.said()
	for range n {
		var err error
		if from, err = p.wait("settled batch", from, patience, func(n note) bool { return n.What == "settled" }); err != nil {
			return err
		}
	}
	return nil
}

// frozen reports whether the child is stopped by a signal. Not every machine has both, /proc and ps.
func (p *process) frozen() (bool, error) {
	pid := fmt.Sprint(p.cmd.Process.Pid)
	if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil {
		_, state, _ := strings.Cut(string(stat), ") ") // behind the program's name
		return strings.HasPrefix(state, "T"), nil
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	if err != nil {
		return false, fmt.Errorf("ps: %w", err)
	}
	return strings.HasPrefix(strings.TrimSpace(string(out)), "T"), nil
}

// tail is the end of what the child said.
func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, n := range p.notes[max(len(p.notes)-15, 0):] {
		fmt.Fprintf(&b, "  %s: note %+v\n", p.name, n)
	}
	for _, l := range p.log {
		fmt.Fprintf(&b, "  %s: %s\n", p.name, l)
	}
	return b.String()
}

// dump is the tail of a child that hangs, with all its goroutines: it is killed for that.
func (p *process) dump() string {
	p.mu.Lock()
	p.log = append(p.log, "--- asked for its goroutines")
	p.keep = true
	p.mu.Unlock()
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGQUIT)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
	}
	return p.tail()
}
