package meshlock

import (
	"context"
	"errors"
	"time"
)

// Held is a lock, or a permit of a semaphore, that this program holds until it releases or loses it.
type Held struct {
	session *session
	name    string
	fence   int64
	slot    *int
}

// Name returns the name of the lock.
func (h *Held) Name() string { return h.name }

// Fence is larger than that of every earlier holder. Hand it to whatever the lock protects, and let that refuse smaller ones.
func (h *Held) Fence() int64 { return h.fence }

// Slot returns the number of the permit, where permits are numbered.
func (h *Held) Slot() (slot int, numbered bool) {
	if h.slot == nil {
		return 0, false
	}
	return *h.slot, true
}

// Lost is closed when the lock is lost, or may be lost because no node has confirmed it in time, or has been released. Err says which.
func (h *Held) Lost() <-chan struct{} { return h.session.ctx.Done() }

// IsLost says whether the lock is held no more. It looks at the clock, so it is right also at once after this program or its machine was
// stopped for a while.
func (h *Held) IsLost() bool { return h.Err() != nil }

// Err returns why the lock is held no more: an error that is ErrLost or ErrReleased; nil while it is held.
func (h *Held) Err() error {
	s := h.session
	if s.left() <= 0 {
		s.end(lost("this program was stopped for longer than the lock was safe"))
	}
	if why := s.reason(); why != nil {
		return why
	}
	return nil
}

// SafeFor returns for how long nobody else can have the lock, whatever happens; 0 if it is lost or released.
func (h *Held) SafeFor() time.Duration {
	if h.IsLost() {
		return 0
	}
	return larger(h.session.left(), 0)
}

// Context returns a context that ends when the lock is lost or released, or when `parent` ends. Call the function when it is not needed any
// more.
func (h *Held) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-h.Lost():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Release gives the lock back. Returns an error that is ErrLost if it was lost before, and another one if no node could be told: then
// the nodes free the lock when its time is over. To release twice is no error.
func (h *Held) Release(ctx context.Context) error {
	if err := h.Err(); errors.Is(err, ErrReleased) {
		return nil
	} else if err != nil {
		return err
	}
	if !h.session.end(released) {
		return h.Release(ctx)
	}
	<-h.session.kept
	limited, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := h.session.delete(limited); err != nil && err.Code != "no_session" && err.Code != "session_over" {
		return orContext(ctx, err)
	}
	return nil
}

// released is why a session is over that this program has ended.
var released = &Error{Code: "released", Message: "the lock was released by this program"}
