package meshlock

import (
	"context"
	"sync"
	"time"
)

// shortestPeriod keeps a node that promises almost nothing from being asked without a pause.
const shortestPeriod = 20 * time.Millisecond

// session is what the nodes know of one lock of this client. A goroutine keeps it alive from its opening to its end.
type session struct {
	places *places
	id     string
	// ctx ends when the session is lost or ended by this program.
	ctx  context.Context
	stop context.CancelFunc
	// kept is closed when the goroutine has ended.
	kept chan struct{}

	mu sync.Mutex
	// place is where the session was confirmed last.
	place int
	// lock is the name of the lock once it is granted; empty before.
	lock string
	// safeUntil is when the time ends in which nobody else can have the lock; aliveUntil is when the session ends.
	safeUntil, aliveUntil time.Duration
	// period is how long to wait between two confirmations.
	period time.Duration
	// confirmed says whether a node has confirmed the session after its opening.
	confirmed bool
	// why is the reason of the end; nil before.
	why *Error
}

// sessionAnswer is what a node says of a session.
type sessionAnswer struct {
	Session string   `json:"session"`
	LeftMs  int64    `json:"left_ms"`
	SafeMs  int64    `json:"safe_ms"`
	Locks   []string `json:"locks"`
}

// openSession opens a session at one of the places and begins to keep it alive.
func openSession(ctx context.Context, places *places, ttl time.Duration, label string) (*session, *Error) {
	var said sessionAnswer
	body := map[string]any{"ttl_ms": ttl.Milliseconds(), "label": label}
	sent := now()
	at, err := places.askAny(ctx, "POST", "/v1/sessions", body, &said)
	if err != nil {
		return nil, err
	}
	s := &session{places: places, id: said.Session, place: at, kept: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.count(sent, said.SafeMs, said.LeftMs)
	go s.keep()
	return s, nil
}

func (s *session) path(what string) string { return "/v1/sessions/" + s.id + what }

// count extends the times by an answer to a request that was sent at `sent`. The caller has the mutex, or the only reference.
func (s *session) count(sent time.Duration, safeMs, leftMs int64) {
	safe, left := time.Duration(safeMs)*time.Millisecond, time.Duration(leftMs)*time.Millisecond
	s.safeUntil, s.aliveUntil = larger(s.safeUntil, sent+safe), larger(s.aliveUntil, sent+left)
	s.period = left / 4
	if safe > 0 {
		s.period = smaller(s.period, safe/4)
	}
	s.period = larger(s.period, shortestPeriod)
}

// until returns when the session must have been confirmed again. The caller has the mutex.
func (s *session) until() time.Duration {
	if s.lock == "" {
		return s.aliveUntil
	}
	return s.safeUntil
}

// keep confirms the session regularly until it is over. What this program has not released itself, because it was lost or never granted, is
// then ended at the nodes, so that others need not wait for it.
func (s *session) keep() {
	defer close(s.kept)
	for s.ctx.Err() == nil {
		s.mu.Lock()
		wait := smaller(s.period, s.until()-now())
		s.mu.Unlock()
		sleep(s.ctx, wait)
		if why := s.confirm(); why != nil {
			s.end(why)
		}
	}
	if s.reason() != released {
		ctx, cancel := context.WithTimeout(context.Background(), connectWithin)
		defer cancel()
		_ = s.delete(ctx)
	}
}

// confirm renews the session at its place, or at another one if that fails, until its time is over. Returns why the session is lost.
func (s *session) confirm() *Error {
	why := lost("this program was stopped for longer than the lock was safe")
	for failures := 0; s.ctx.Err() == nil; failures++ {
		s.mu.Lock()
		at, left, step := s.place, s.until()-now(), s.period
		s.mu.Unlock()
		if left <= 0 {
			return why
		}
		if rounds := failures / len(s.places.urls); rounds > 0 && failures%len(s.places.urls) == 0 {
			sleep(s.ctx, smaller(backoff(rounds, step), left))
			left = smaller(left, s.left())
		}
		err := s.renew(at, smaller(step, left))
		if err == nil {
			return nil
		}
		if !mayWorkElsewhere(err) {
			return lost("%s", err.Message)
		}
		why = lost("no node has confirmed the lock in time: %s", err.Message)
		if s.ctx.Err() == nil {
			s.places.failed(at, err)
		}
		s.mu.Lock()
		s.place = s.places.after(at)
		s.mu.Unlock()
	}
	return nil
}

// renew asks one place to confirm the session.
func (s *session) renew(at int, within time.Duration) *Error {
	ctx, cancel := context.WithTimeout(s.ctx, within)
	defer cancel()
	var said sessionAnswer
	s.mu.Lock()
	// An answer to a question from before the grant need not know the lock.
	lock := s.lock
	s.mu.Unlock()
	sent := now()
	if err := s.places.ask(ctx, at, "POST", s.path("/keep-alive"), nil, &said); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A lost lock stays lost, also if the node does not know it yet.
	if now() >= s.until() {
		return lost("the node's answer came too late")
	}
	if lock != "" && !contains(said.Locks, lock) {
		return lost("the session does not hold the lock any more")
	}
	s.count(sent, said.SafeMs, said.LeftMs)
	s.confirmed = true
	return nil
}

// left returns for how long the session is still good.
func (s *session) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until() - now()
}

// end notes why the session is over. The first reason counts. Returns whether this was the first.
func (s *session) end(why *Error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return false
	}
	s.why = why
	s.stop()
	return true
}

// delete ends the session at the nodes, at whichever place can do it.
func (s *session) delete(ctx context.Context) *Error {
	s.mu.Lock()
	at := s.place
	s.mu.Unlock()
	var err *Error
	for range s.places.urls {
		limited, cancel := context.WithTimeout(ctx, answerWithin)
		err = s.places.ask(limited, at, "DELETE", s.path(""), nil, nil)
		cancel()
		at = s.places.after(at)
		if err == nil {
			return nil
		}
		if !mayWorkElsewhere(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

func contains(all []string, one string) bool {
	for _, each := range all {
		if each == one {
			return true
		}
	}
	return false
}

func smaller(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func larger(a, b time.Duration) time.Duration {
	if a > b {
		return a
	}
	return b
}
