package meshlock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests need a running node, whose API has the address MESHLOCK_API.
func real(t *testing.T) *Client {
	t.Helper()
	api := os.Getenv("MESHLOCK_API")
	if api == "" {
		t.Skip("MESHLOCK_API names no node")
	}
	client, err := New(api, Options{Label: "the tests of Go"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestALockExcludesOthersAndIsFreeAfterwards(t *testing.T) {
	client, ctx := real(t), within(t)
	first, err := client.Lock(ctx, "go/one")
	must(t, err)
	if _, err := client.TryLock(ctx, "go/one"); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if _, err := client.LockWithin(ctx, "go/one", 50*time.Millisecond); !errors.Is(err, ErrTimedOut) {
		t.Fatal(err)
	}
	must(t, first.Release(ctx))
	second, err := client.TryLock(ctx, "go/one")
	must(t, err)
	if second.Fence() <= first.Fence() {
		t.Fatal(second.Fence(), first.Fence())
	}
	must(t, second.Release(ctx))
}

func TestGoroutinesCountUnderALockAndLoseNothing(t *testing.T) {
	client, ctx := real(t), within(t)
	count, inside := 0, 0
	var all sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := 0; turn < 10; turn++ {
				held, err := client.Lock(ctx, "go/counter")
				if err != nil {
					t.Error(err)
					return
				}
				inside++
				if inside != 1 {
					t.Error("two are inside")
				}
				count++
				inside--
				if err := held.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	if count != 40 {
		t.Fatal(count)
	}
}

func TestASemaphoreLetsAsManyInAsItHasPermits(t *testing.T) {
	client, ctx := real(t), within(t)
	pool := client.Semaphore("go/pool", 2)
	first, err := pool.Acquire(ctx)
	must(t, err)
	second, err := pool.Acquire(ctx)
	must(t, err)
	a, _ := first.Slot()
	b, _ := second.Slot()
	if a+b != 1 {
		t.Fatal(a, b)
	}
	if _, err := pool.TryAcquire(ctx); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	var refused *Error
	if _, err := client.Semaphore("go/pool", 3).Acquire(ctx); !errors.As(err, &refused) || refused.Code != "permits" {
		t.Fatal(err)
	}
	must(t, first.Release(ctx))
	must(t, second.Release(ctx))
}

func TestALeaderIsKnownByItsName(t *testing.T) {
	client, ctx := real(t), within(t)
	leader, err := client.Elect(ctx, "go/leader", "alice")
	must(t, err)
	holders, err := client.Holders(ctx, "go/leader")
	must(t, err)
	if len(holders) != 1 || !strings.Contains(holders[0].Who, "alice") || holders[0].Fence != leader.Fence() {
		t.Fatal(holders)
	}
	must(t, leader.Release(ctx))
	holders, err = client.Holders(ctx, "go/leader")
	must(t, err)
	if len(holders) != 0 {
		t.Fatal(holders)
	}
}

func TestALockThatIsBrokenIsLost(t *testing.T) {
	client, ctx := real(t), within(t)
	held, err := client.Lock(ctx, "go/broken")
	must(t, err)
	work, cancel := held.Context(ctx)
	defer cancel()
	must(t, client.Break(ctx, "go/broken"))
	untilLost(t, held)
	<-work.Done()
	if !errors.Is(held.Err(), ErrLost) {
		t.Fatal(held.Err())
	}
}

func TestALockIsKeptForLongerThanItsSession(t *testing.T) {
	api := real(t)
	client, err := New(strings.Join(api.places.urls, ","), Options{TTL: 500 * time.Millisecond})
	must(t, err)
	held, err := client.Lock(within(t), "go/kept")
	must(t, err)
	held.session.mu.Lock()
	begun := held.session.aliveUntil
	held.session.mu.Unlock()
	eventually(t, "three times the session's time has passed", func() bool {
		held.session.mu.Lock()
		defer held.session.mu.Unlock()
		return held.session.why != nil || held.session.aliveUntil-begun > 1500*time.Millisecond
	})
	must(t, held.Err())
	must(t, held.Release(within(t)))
}

func TestAnUnknownTokenIsRefusedAndNotShown(t *testing.T) {
	api := real(t)
	client, err := New(strings.Join(api.places.urls, ","), Options{Token: "secret-guess"})
	must(t, err)
	var refused *Error
	if _, err := client.Lock(within(t), "go/token"); !errors.As(err, &refused) || refused.Code != "unauthenticated" ||
		strings.Contains(err.Error(), "secret") {
		t.Fatal(err)
	}
}

// TestHolder is not a test, but the program that the next one stops.
func TestHolder(t *testing.T) {
	if os.Getenv("MESHLOCK_HOLDER") == "" {
		t.Skip("it is a part of another test")
	}
	client := real(t)
	client.options.TTL = 2 * time.Second
	held, err := client.Lock(within(t), "go/stopped")
	must(t, err)
	fmt.Println("inside", held.IsLost())
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	must(t, err)
	fmt.Println("lost", held.IsLost())
}

func TestAProgramThatIsStoppedKnowsItWhenItGoesOn(t *testing.T) {
	client, ctx := real(t), within(t)
	program := exec.Command(os.Args[0], "-test.run=^TestHolder$")
	program.Env = append(os.Environ(), "MESHLOCK_HOLDER=1")
	in, err := program.StdinPipe()
	must(t, err)
	out, err := program.StdoutPipe()
	must(t, err)
	must(t, program.Start())
	defer program.Wait()
	defer program.Process.Kill()
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "inside false" {
		t.Fatal(lines.Text())
	}
	must(t, program.Process.Signal(syscall.SIGSTOP))
	// It does not keep its session alive now.
	next, err := client.Lock(ctx, "go/stopped")
	must(t, err)
	_, err = fmt.Fprintln(in, "go on")
	must(t, err)
	must(t, program.Process.Signal(syscall.SIGCONT))
	if !lines.Scan() || lines.Text() != "lost true" {
		t.Fatal(lines.Text())
	}
	must(t, next.Release(ctx))
}
