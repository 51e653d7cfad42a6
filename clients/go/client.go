package meshlock

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Options says how a client shows who it is, and how patient it is. The zero value is fine for a node of this machine.
type Options struct {
	// Token is shown to the nodes (`meshlock token new NAME` makes one).
	Token string
	// TLS has the certificates, for places that begin with https.
	TLS *tls.Config
	// Label names this program to operators. By default it is the program's name and process id.
	Label string
	// TTL is how long the nodes keep a lock for a client that they do not hear of: after a crash it is free then. 10 s by default. It
	// should be twice the lease of the sites, so that a lock can outlive the failure of a site.
	TTL time.Duration
	// RetryFor is for how long a call goes on when no place can serve it. 30 s by default.
	RetryFor time.Duration
}

// Client takes locks. Goroutines may share one.
type Client struct {
	places  *places
	options Options
}

// New returns a client of the nodes whose APIs have these addresses, separated by commas, such as "http://a:2379,http://b:2379". It uses
// the nearest that answers, and connects when it is needed.
func New(list string, options Options) (*Client, error) {
	places, err := newPlaces(list, options.Token, options.TLS)
	if err != nil {
		return nil, err
	}
	if options.Label == "" {
		options.Label = fmt.Sprintf("%s, process %d", filepath.Base(os.Args[0]), os.Getpid())
	}
	if options.TTL == 0 {
		options.TTL = 10 * time.Second
	}
	if options.RetryFor == 0 {
		options.RetryFor = 30 * time.Second
	}
	return &Client{places: places, options: options}, nil
}

// Close closes the connections that are not in use. Locks that are held stay held.
func (c *Client) Close() { c.places.http.CloseIdleConnections() }

// Lock waits for a lock, for as long as the context allows. If the context ends first, nothing is left of the request.
func (c *Client) Lock(ctx context.Context, name string) (*Held, error) {
	return c.acquire(ctx, request{name: name, label: c.options.Label})
}

// LockWithin waits for a lock for at most `wait`. The error is ErrTimedOut if others had the lock until then, and ErrUnavailable or
// ErrUnreachable if nobody could say who has it.
func (c *Client) LockWithin(ctx context.Context, name string, wait time.Duration) (*Held, error) {
	return c.acquire(ctx, request{name: name, label: c.options.Label, wait: &wait})
}

// TryLock takes a lock if nobody has it. The error is ErrBusy if somebody has.
func (c *Client) TryLock(ctx context.Context, name string) (*Held, error) {
	return c.acquire(ctx, request{name: name, label: c.options.Label, try: true})
}

// Elect waits until this program leads, under the name `candidate`. It leads until it releases or loses what is returned.
func (c *Client) Elect(ctx context.Context, election, candidate string) (*Held, error) {
	return c.acquire(ctx, request{name: election, label: candidate})
}

// Semaphore is a lock that several may hold at once.
type Semaphore struct {
	client  *Client
	name    string
	permits int
}

// Semaphore returns the semaphore of this name. All its users must name the same number of permits.
func (c *Client) Semaphore(name string, permits int) *Semaphore {
	return &Semaphore{client: c, name: name, permits: permits}
}

// Acquire waits for a permit, for as long as the context allows.
func (s *Semaphore) Acquire(ctx context.Context) (*Held, error) {
	return s.client.acquire(ctx, request{name: s.name, label: s.client.options.Label, permits: s.permits})
}

// TryAcquire takes a permit if one is free. The error is ErrBusy if none is.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Held, error) {
	return s.client.acquire(ctx, request{name: s.name, label: s.client.options.Label, permits: s.permits, try: true})
}

// Holder is somebody who holds a lock.
type Holder struct {
	// Who is what the holder has proved, and its label.
	Who string
	// Site is where it got the lock.
	Site string
	// Fence is the fence of its grant.
	Fence int64
}

// Holders returns who holds a lock. For an election this is who leads.
func (c *Client) Holders(ctx context.Context, name string) ([]Holder, error) {
	var said struct {
		Holders []struct{ Who, Site, Fence string }
	}
	if _, err := c.places.askAny(ctx, "GET", lockPath(name, ""), nil, &said); err != nil {
		return nil, orContext(ctx, err)
	}
	holders := make([]Holder, 0, len(said.Holders))
	for _, each := range said.Holders {
		fence, err := strconv.ParseInt(each.Fence, 10, 64)
		if err != nil {
			return nil, &Error{Code: "not_understood", Message: fmt.Sprintf("%q is not a fence", each.Fence)}
		}
		holders = append(holders, Holder{Who: each.Who, Site: each.Site, Fence: fence})
	}
	return holders, nil
}

// Break takes a lock away from its holders. For operators.
func (c *Client) Break(ctx context.Context, name string) error {
	if _, err := c.places.askAny(ctx, "POST", lockPath(name, "/break"), nil, nil); err != nil {
		return orContext(ctx, err)
	}
	return nil
}

func lockPath(name, what string) string { return "/v1/locks/" + url.PathEscape(name) + what }

// orContext returns the context's error if that is why a request failed.
func orContext(ctx context.Context, err *Error) error {
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("meshlock: given up: %w", ended)
	}
	return err
}

// request is what a caller wants.
type request struct {
	name, label string
	permits     int
	try         bool
	// wait is the limit that the caller gave.
	wait *time.Duration
}

// body returns the request's JSON. `until` is when the caller's limit ends.
func (r request) body(session string, until time.Duration) map[string]any {
	body := map[string]any{"session": session}
	if r.permits > 0 {
		body["permits"] = r.permits
	}
	if r.try {
		body["try"] = true
	}
	if r.wait != nil {
		left := larger(until-now(), 0).Milliseconds()
		if left > math.MaxUint32 {
			left = math.MaxUint32
		}
		body["wait_ms"] = left
	}
	return body
}

// acquire gets a lock at whichever place can grant it.
func (c *Client) acquire(ctx context.Context, r request) (*Held, error) {
	if r.permits < 0 {
		return nil, &Error{Code: "bad_request", Message: "the number of permits is negative; give 1 or more"}
	}
	started := now()
	failing := started // since when nothing has worked
	until := time.Duration(math.MaxInt64)
	if r.wait != nil {
		until = started + *r.wait
	}
	for failures := 0; ; failures++ {
		held, s, err := c.acquireOnce(ctx, r, until)
		if err == nil {
			return held, nil
		}
		if s != nil && s.wasConfirmed() {
			// The request was waiting in good order before this.
			failing, failures = now(), 0
		}
		if ctx.Err() != nil {
			return nil, orContext(ctx, err)
		}
		again := mayWorkElsewhere(err) || err.Code == "lost" || err.Code == "no_session" || err.Code == "session_over"
		end := smaller(failing+c.options.RetryFor, until)
		if !again || r.try || now() >= end {
			return nil, err
		}
		pause := backoff(failures, time.Second)
		if asked := time.Duration(err.RetryAfter) * time.Second; asked > pause {
			pause = asked
		}
		sleep(ctx, smaller(pause, end-now()))
	}
}

// acquireOnce opens a session and waits in it for the lock. Returns the session, too, if it got so far.
func (c *Client) acquireOnce(ctx context.Context, r request, until time.Duration) (*Held, *session, *Error) {
	s, err := openSession(ctx, c.places, c.options.TTL, r.label)
	if err != nil {
		return nil, nil, err
	}
	held, err := s.acquire(ctx, r, until)
	if err == nil {
		return held, s, nil
	}
	// The request may have been granted, with an answer that was lost or came after the context had ended: the nodes are told.
	s.end(err)
	<-s.kept
	return nil, s, err
}

// acquire waits for the lock in this session, at its place or at another one.
func (s *session) acquire(ctx context.Context, r request, until time.Duration) (*Held, *Error) {
	// The call ends if the session does.
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.ctx.Done():
			cancel()
		case <-both.Done():
		}
	}()
	var err *Error
	for failures := 0; failures < len(s.places.urls); failures++ {
		s.mu.Lock()
		at := s.place
		s.mu.Unlock()
		var grant struct {
			Fence  string
			Slot   *int
			SafeMs int64 `json:"safe_ms"`
			TTLMs  int64 `json:"ttl_ms"`
		}
		sent := now()
		err = s.places.ask(both, at, "POST", lockPath(r.name, "/acquire"), r.body(s.id, until), &grant)
		if err == nil {
			fence, malformed := strconv.ParseInt(grant.Fence, 10, 64)
			if malformed != nil {
				return nil, &Error{Code: "bad_answer", Message: fmt.Sprintf("%q is not a fence", grant.Fence)}
			}
			return s.granted(&Held{session: s, name: r.name, fence: fence, slot: grant.Slot}, sent, grant.SafeMs)
		}
		if why := s.reason(); why != nil {
			return nil, why
		}
		if !mayWorkElsewhere(err) || both.Err() != nil {
			return nil, err
		}
		s.places.failed(at, err)
		s.mu.Lock()
		if s.place == at {
			s.place = s.places.after(at)
		}
		s.mu.Unlock()
	}
	return nil, err
}

// granted notes that the lock is held. If the answer took so long that little of the safe time is left, it is confirmed first.
func (s *session) granted(held *Held, sent time.Duration, safeMs int64) (*Held, *Error) {
	s.mu.Lock()
	safe := time.Duration(safeMs) * time.Millisecond
	s.safeUntil = larger(s.safeUntil, sent+safe)
	enough := s.safeUntil-now() > safe/2
	s.mu.Unlock()
	if !enough {
		if why := s.confirm(); why != nil {
			return nil, why
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return nil, s.why
	}
	if now() >= s.safeUntil {
		return nil, lost("the grant came too late")
	}
	s.lock = held.name
	return held, nil
}

func (s *session) reason() *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

func (s *session) wasConfirmed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmed
}
