package meshlock

import (
	"sync"
	"sync/atomic"
	"time"
)

// skipped is the time by which tests move the clock forward.
var skipped int64

// now returns the time since some fixed moment, including time in which the machine was suspended.
func now() time.Duration { return machineTime() + time.Duration(atomic.LoadInt64(&skipped)) }

var (
	started  = time.Now()
	clockMu  sync.Mutex
	furthest time.Duration
)

// sinceStart returns the time since this program has started, by the monotonic or the wall clock, whichever has gone further. Monotonic
// clocks stand still on some systems while the machine is suspended. It never goes back.
func sinceStart() time.Duration {
	at := time.Now()
	monotonic, wall := at.Sub(started), at.Round(0).Sub(started.Round(0))
	clockMu.Lock()
	defer clockMu.Unlock()
	for _, passed := range []time.Duration{monotonic, wall} {
		if passed > furthest {
			furthest = passed
		}
	}
	return furthest
}
