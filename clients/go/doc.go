// Package meshlock takes locks and semaphores of a Meshlock cluster, through the HTTP API of its nodes. It needs nothing but Go's
// standard library.
//
//	client, err := meshlock.New("http://a:2379,http://b:2379,http://c:2379", meshlock.Options{})
//	held, err := client.Lock(ctx, "orders")
//	defer held.Release(ctx)
//	write(held.Fence()) // larger than the fence of every earlier holder
//	<-held.Lost()       // stop working when this is closed
//
// # How long a lock is held
//
// Every lock has a session of its own, which a goroutine keeps alive until the lock is released or lost. The nodes say with every
// answer for how long nobody else can have the lock, whatever happens to them. The client counts this time from when it *sent* the
// request. If no node confirms the lock before it is over, the lock is lost: [Held.Lost] is closed at the latest when that time ends,
// and [Held.IsLost] says so from then on. A lock that is lost stays lost.
//
// A client with several places uses one of them, and another one when that does not answer, says that it is leaving, or cannot serve.
// It shows the same session there for as long as the lock is safe.
//
// # Suspended machines
//
// On Linux the time in which the machine was suspended counts. On other systems, whose monotonic clocks stand still meanwhile, the
// client takes the larger of the times that have passed by the monotonic clock and by the wall clock: if somebody sets the wall clock
// forward, locks may be lost needlessly. Timers may fire late after a suspension: [Held.Lost] is closed within a quarter of the safe
// time after waking. [Held.IsLost] looks at the clock and is right at once: ask it before a step that cannot be undone.
package meshlock
