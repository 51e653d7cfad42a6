package meshlock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"
)

// ready answers whether the node is ready at once, whatever the others do.
func ready(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/readyz" {
		return false
	}
	fmt.Fprint(w, "{}")
	return true
}

// unready says that the node is not ready, and answers everything else.
func unready(w http.ResponseWriter, r *http.Request) bool {
	return r.URL.Path == "/readyz" && leaves(w, r)
}

// silent does not say whether the node is ready until the client gives up, and answers everything else.
func silent(gaveUp chan<- struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/readyz" {
			return false
		}
		hangs(w, r)
		gaveUp <- struct{}{}
		return true
	}
}

func TestAPlaceThatAnswersIsPreferredToOneThatDoesNot(t *testing.T) {
	before := runtime.NumGoroutine()
	cluster := newCluster(time.Minute)
	first, second := cluster.node(t), cluster.node(t)
	gaveUp := make(chan struct{}, 9)
	first.behave(silent(gaveUp))
	second.behave(ready)
	client := clientOf(t, first, second)
	held := lock(t, client)
	if len(first.requests()) > 0 || len(second.requests()) != 2 {
		t.Fatal(first.requests(), second.requests())
	}
	// The question is cancelled, and asked once.
	<-gaveUp
	lock(t, client).Release(within(t))
	if first.wasAsked() != 1 || second.wasAsked() != 1 {
		t.Fatal(first.wasAsked(), second.wasAsked())
	}
	held.Release(within(t))
	client.Close()
	first.Server.Close()
	second.Server.Close()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAPlaceThatIsNotReadyIsPassedOverAndTheNextOneTakenWhenItFails(t *testing.T) {
	cluster := newCluster(time.Minute)
	first, second, third := cluster.node(t), cluster.node(t), cluster.node(t)
	gaveUp := make(chan struct{}, 9)
	first.behave(unready)
	second.behave(ready)
	third.behave(silent(gaveUp))
	client := clientOf(t, first, second, third)
	lock(t, client).Release(within(t))
	if len(first.requests()) > 0 || len(third.requests()) > 0 {
		t.Fatal(first.requests(), third.requests())
	}
	first.behave(ready)
	lock(t, client).Release(within(t))
	if first.wasAsked() != 1 || len(first.requests()) > 0 {
		t.Fatal("while the preferred one is well, nothing is asked", first.wasAsked(), first.requests())
	}
	// The preferred one fails, and the next one serves. Then all are asked anew, and now the first is ready.
	second.behave(leaves)
	lock(t, client).Release(within(t))
	if first.wasAsked() != 1 || len(first.requests()) > 0 || len(third.requests()) == 0 {
		t.Fatal(first.wasAsked(), first.requests(), third.requests())
	}
	lock(t, client).Release(within(t))
	if first.wasAsked() != 2 || len(first.requests()) == 0 {
		t.Fatal(first.wasAsked(), first.requests())
	}
}

func TestASinglePlaceIsNotAsked(t *testing.T) {
	only := newCluster(time.Minute).node(t)
	client := clientOf(t, only)
	lock(t, client).Release(within(t))
	only.behave(leaves)
	if _, err := client.TryLock(within(t), "jobs"); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	if only.wasAsked() != 0 {
		t.Fatal("it was asked")
	}
}

func TestManyCallsAskEachPlaceOnce(t *testing.T) {
	cluster := newCluster(time.Minute)
	first, second := cluster.node(t), cluster.node(t)
	client := clientOf(t, first, second)
	var all sync.WaitGroup
	for call := 0; call < 8; call++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if held, err := client.Lock(within(t), "jobs"); err == nil {
				_ = held.Release(context.Background())
			}
		}()
	}
	all.Wait()
	if first.wasAsked() != 1 || second.wasAsked() > 1 {
		t.Fatal(first.wasAsked(), second.wasAsked())
	}
}

func TestACallThatIsGivenUpWhilePlacesAreAskedEnds(t *testing.T) {
	cluster := newCluster(time.Minute)
	first, second := cluster.node(t), cluster.node(t)
	ctx, cancel := context.WithCancel(context.Background())
	first.behave(func(w http.ResponseWriter, r *http.Request) bool {
		cancel()
		return hangs(w, r)
	})
	second.behave(hangs)
	client := clientOf(t, first, second)
	if _, err := client.Lock(ctx, "jobs"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(first.requests())+len(second.requests()) > 0 {
		t.Fatal(first.requests(), second.requests())
	}
}

func TestTheRaceDecidesAsThePageSays(t *testing.T) {
	const asked = 7 * time.Second
	after := func(millis int) time.Duration { return asked + time.Duration(millis)*time.Millisecond }
	check := func(r *race, until int, order ...int) {
		t.Helper()
		when, waits := r.waitsUntil()
		if waits != (until >= 0) || (waits && when != after(until)) || !reflect.DeepEqual(r.order(), order) {
			t.Fatal(when, waits, r.order())
		}
	}
	// The first of the list is taken as soon as it serves.
	first := newRace(3, asked)
	check(first, 1000, 0, 1, 2)
	first.onAnswer(0, true, after(300))
	check(first, -1, 0, 1, 2)
	// A place that answers much later comes later.
	later := newRace(3, asked)
	later.onAnswer(2, true, after(5))
	check(later, 15, 2, 0, 1)
	later.onAnswer(0, true, after(16))
	check(later, 15, 2, 0, 1)
	// Among places that are equally near the list decides.
	near := newRace(3, asked)
	near.onAnswer(2, true, after(5))
	near.onAnswer(1, true, after(15))
	check(near, 15, 1, 2, 0)
	near.onAnswer(0, false, after(15))
	check(near, -1, 1, 2, 0)
	// Places that fail come last, and if all do nothing is waited for.
	none := newRace(3, asked)
	none.onAnswer(0, false, after(1))
	none.onAnswer(1, false, after(1))
	check(none, 1000, 2, 0, 1)
	none.onAnswer(2, false, after(1))
	check(none, -1, 0, 1, 2)
}
