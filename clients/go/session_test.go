package meshlock

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// limit is how long a test waits for what must come.
const limit = 60 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func lock(t *testing.T, client *Client) *Held {
	t.Helper()
	held, err := client.Lock(within(t), "jobs")
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func untilLost(t *testing.T, held *Held) {
	t.Helper()
	select {
	case <-held.Lost():
	case <-within(t).Done():
		t.Fatal("the lock is not lost")
	}
}

func TestAFenceIsExactBeyondWhatAFloatHolds(t *testing.T) {
	held := lock(t, clientOf(t, newCluster(time.Minute).node(t)))
	if held.Fence() != 9007199254740993 {
		t.Fatal(held.Fence())
	}
	if slot, numbered := held.Slot(); slot != 0 || !numbered {
		t.Fatal(slot, numbered)
	}
	if err := held.Release(within(t)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(held.Err(), ErrReleased) || held.Release(within(t)) != nil || held.SafeFor() != 0 {
		t.Fatal(held.Err())
	}
}

func TestASessionGoesOnAtAnotherPlace(t *testing.T) {
	for name, trouble := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"leaving": leaves,
		"hanging": hangs,
		"elsewhere": func(w http.ResponseWriter, _ *http.Request) bool {
			return refuse(w, http.StatusPreconditionFailed, "other_site")
		},
		"no node": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(4 * time.Second)
			first, second := cluster.node(t), cluster.node(t)
			held := lock(t, clientOf(t, first, second))
			first.behave(trouble)
			renewed := func() bool {
				return strings.Contains(strings.Join(second.requests(), " "), "/v1/sessions/s1/keep-alive")
			}
			eventually(t, "the second node is asked for the same session", renewed)
			eventually(t, "the lock is safe for longer", func() bool { return held.SafeFor() > 3*time.Second })
			if held.IsLost() {
				t.Fatal(held.Err())
			}
			if err := held.Release(within(t)); err != nil {
				t.Fatal(err)
			}
			if id := <-cluster.deleted; id != "s1" {
				t.Fatal(id)
			}
		})
	}
}

func TestANodeThatIsGoneIsPassedOver(t *testing.T) {
	cluster := newCluster(4 * time.Second)
	first, second := cluster.node(t), cluster.node(t)
	client := clientOf(t, first, second)
	held := lock(t, client)
	first.behave(hangs)
	first.CloseClientConnections()
	first.Listener.Close()
	eventually(t, "the second node is asked", func() bool { return len(second.requests()) > 0 })
	again := lock(t, client)
	if held.IsLost() || again.IsLost() {
		t.Fatal(held.Err(), again.Err())
	}
}

func TestALockThatNobodyConfirmsIsLostBeforeItsTimeIsOver(t *testing.T) {
	cluster := newCluster(600 * time.Millisecond)
	nodes := []*node{cluster.node(t), cluster.node(t)}
	held := lock(t, clientOf(t, nodes...))
	nodes[0].behave(hangs)
	nodes[1].behave(leaves)
	untilLost(t, held)
	if !errors.Is(held.Err(), ErrLost) || !held.IsLost() {
		t.Fatal(held.Err())
	}
	if !strings.Contains(held.Err().Error(), "no node has confirmed the lock in time") {
		t.Fatal(held.Err())
	}
	// It stays lost, also when the nodes are well again.
	nodes[0].behave(nil)
	nodes[1].behave(nil)
	<-held.session.kept
	if !held.IsLost() || !errors.Is(held.Release(within(t)), ErrLost) {
		t.Fatal("it came back")
	}
}

func TestAnAnswerThatComesAfterTheTimeRevivesNothing(t *testing.T) {
	cluster := newCluster(4 * time.Second)
	first := cluster.node(t)
	held := lock(t, clientOf(t, first))
	defer atomic.StoreInt64(&skipped, 0)
	first.behave(func(_ http.ResponseWriter, r *http.Request) bool {
		// As if the machine had been suspended while the answer was on its way.
		atomic.StoreInt64(&skipped, int64(time.Hour))
		return false
	})
	untilLost(t, held)
	if !held.IsLost() {
		t.Fatal("it is held")
	}
	if id := <-cluster.deleted; id != "s1" {
		t.Fatal("others need not wait", id)
	}
}

func TestTheSafeTimeIsCountedFromWhenTheRequestWasSent(t *testing.T) {
	first := newCluster(time.Minute).node(t)
	held := lock(t, clientOf(t, first))
	defer atomic.StoreInt64(&skipped, 0)
	first.behave(func(http.ResponseWriter, *http.Request) bool {
		// The answer is on its way for half of the time.
		atomic.StoreInt64(&skipped, int64(30*time.Second))
		return false
	})
	if why := held.session.confirm(); why != nil {
		t.Fatal(why)
	}
	if safe := held.SafeFor(); safe <= 0 || safe > 30*time.Second {
		t.Fatal(safe)
	}
}

func TestAnAnswerThatPromisesMoreAfterTheTimeRevivesNothing(t *testing.T) {
	first := newCluster(time.Minute).node(t)
	held := lock(t, clientOf(t, first))
	defer atomic.StoreInt64(&skipped, 0)
	atomic.StoreInt64(&skipped, int64(20*time.Second))
	first.behave(func(http.ResponseWriter, *http.Request) bool {
		// The first promise ends while the answer is on its way, whose own would end later.
		atomic.StoreInt64(&skipped, int64(65*time.Second))
		return false
	})
	if why := held.session.confirm(); why == nil || !held.IsLost() {
		t.Fatal("it came back")
	}
}

func TestAProgramThatWakesUpKnowsAtOnceThatItsTimeIsOver(t *testing.T) {
	held := lock(t, clientOf(t, newCluster(time.Minute).node(t)))
	if held.IsLost() {
		t.Fatal(held.Err())
	}
	atomic.StoreInt64(&skipped, int64(time.Hour))
	is := held.IsLost()
	atomic.StoreInt64(&skipped, 0)
	if !is || !held.IsLost() {
		t.Fatal("it believes that it holds the lock")
	}
	<-held.Lost()
}

func TestASessionThatTheNodesDoNotKnowIsLostAtOnce(t *testing.T) {
	cluster := newCluster(4 * time.Second)
	held := lock(t, clientOf(t, cluster.node(t), cluster.node(t)))
	cluster.mu.Lock()
	delete(cluster.sessions, "s1")
	cluster.mu.Unlock()
	untilLost(t, held)
	if !strings.Contains(held.Err().Error(), "no_session") {
		t.Fatal(held.Err())
	}
}

func TestASessionWithoutTheLockIsLost(t *testing.T) {
	cluster := newCluster(4 * time.Second)
	held := lock(t, clientOf(t, cluster.node(t)))
	cluster.mu.Lock()
	cluster.sessions["s1"] = []string{"another"}
	cluster.mu.Unlock()
	untilLost(t, held)
}

func TestACallThatIsGivenUpLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	cluster := newCluster(time.Minute)
	first := cluster.node(t)
	waits := make(chan struct{}, 1)
	first.behave(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/acquire") {
			return false
		}
		// The server notices the end of the connection once it has read the body.
		_, _ = r.Body.Read(make([]byte, 1000))
		waits <- struct{}{}
		return hangs(w, r)
	})
	client := clientOf(t, first)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-waits
		cancel()
	}()
	if _, err := client.Lock(ctx, "jobs"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if id := <-cluster.deleted; id != "s1" {
		t.Fatal(id)
	}
	client.Close()
	first.Server.Close()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAnOutageIsReportedAsOne(t *testing.T) {
	cluster := newCluster(time.Minute)
	first, second := cluster.node(t), cluster.node(t)
	first.behave(leaves)
	second.behave(leaves)
	client := clientOf(t, first, second)
	if _, err := client.TryLock(within(t), "jobs"); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	if _, err := client.LockWithin(within(t), "jobs", 50*time.Millisecond); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	nobody, _ := New("http://127.0.0.1:1", Options{RetryFor: time.Millisecond})
	if _, err := nobody.Lock(within(t), "jobs"); !errors.Is(err, ErrUnreachable) {
		t.Fatal(err)
	}
	// Everybody comes back.
	go first.behave(nil)
	if err := lock(t, client).Release(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestARedirectionIsNotFollowed(t *testing.T) {
	cluster := newCluster(time.Minute)
	first, other := cluster.node(t), cluster.node(t)
	first.behave(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	client, _ := New(first.URL, Options{Token: "secret", RetryFor: time.Millisecond})
	if _, err := client.Lock(within(t), "jobs"); err == nil || len(other.requests()) > 0 {
		t.Fatal("the token went elsewhere", err)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, nonsense := range []string{"", " , ", "ftp://x", "http://", "http://host/path", "http://u:p@host", "http://a?b"} {
		if _, err := New(nonsense, Options{}); err == nil {
			t.Error(nonsense)
		}
	}
	if _, err := New("a", Options{Token: "two words"}); err == nil {
		t.Error("a token with a space")
	}
	client, err := New(" a , http://b:1, https://[::1]", Options{})
	if err != nil || strings.Join(client.places.urls, " ") != "http://a:2379 http://b:1 https://[::1]:2379" {
		t.Fatal(err, client.places.urls)
	}
}

func TestPausesGrowAndStayBounded(t *testing.T) {
	for failures := 0; failures < 100; failures++ {
		if pause := backoff(failures, time.Second); pause <= 0 || pause > time.Second {
			t.Fatal(failures, pause)
		}
	}
	if backoff(0, time.Second) > 25*time.Millisecond {
		t.Fatal("the first pause is short")
	}
}
