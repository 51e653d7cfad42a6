package meshlock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// cluster stands for nodes that share their sessions.
type cluster struct {
	nodes    []*node
	mu       sync.Mutex
	sessions map[string][]string
	last     int
	safeMs   int64
	deleted  chan string
}

// node is one of them, whose behaviour a test chooses.
type node struct {
	*httptest.Server
	cluster *cluster
	mu      sync.Mutex
	answer  func(w http.ResponseWriter, r *http.Request) bool
	seen    []string
	// asked is how often the node was asked whether it is ready.
	asked int
}

func newCluster(safe time.Duration) *cluster {
	return &cluster{sessions: map[string][]string{}, safeMs: safe.Milliseconds(), deleted: make(chan string, 100)}
}

func (c *cluster) node(t *testing.T) *node {
	n := &node{cluster: c}
	c.nodes = append(c.nodes, n)
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Server.Close)
	return n
}

// behave sets what the node does instead of answering properly, if it returns true; nil for a node that is well.
func (n *node) behave(answer func(w http.ResponseWriter, r *http.Request) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

// isWell says whether the node answers properly.
func (n *node) isWell() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.answer == nil
}

// wasAsked returns how often the node was asked whether it is ready.
func (n *node) wasAsked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// isReady answers whether the node is ready. If one before it is well, that one shall be the nearest, however fast both are: this one's
// answer does not come.
func (n *node) isReady(w http.ResponseWriter, r *http.Request) {
	for _, before := range n.cluster.nodes {
		if before == n {
			break
		}
		if before.isWell() {
			hangs(w, r)
			return
		}
	}
	fmt.Fprint(w, "{}")
}

// requests returns what the node was asked beside whether it is ready, as "METHOD PATH".
func (n *node) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.seen...)
}

func refuse(w http.ResponseWriter, status int, code string) bool {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"code":%q,"message":"the node says %s"}`, code, code)
	return true
}

func leaves(w http.ResponseWriter, _ *http.Request) bool {
	return refuse(w, http.StatusServiceUnavailable, "unavailable")
}

// hangs waits until the client gives up.
func hangs(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	isQuestion := r.URL.Path == "/readyz"
	if isQuestion {
		n.asked++
	} else {
		n.seen = append(n.seen, r.Method+" "+r.URL.Path)
	}
	answer := n.answer
	n.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	if isQuestion {
		n.isReady(w, r)
		return
	}
	n.cluster.serve(w, r)
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	say := func(id string) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"session": id, "left_ms": 2 * c.safeMs, "safe_ms": c.safeMs, "locks": c.sessions[id],
		})
	}
	switch {
	case r.URL.Path == "/v1/sessions":
		c.last++
		id := fmt.Sprint("s", c.last)
		c.sessions[id] = nil
		say(id)
	case parts[1] == "sessions":
		id := parts[2]
		if _, known := c.sessions[id]; !known {
			refuse(w, http.StatusNotFound, "no_session")
		} else if r.Method == "DELETE" {
			delete(c.sessions, id)
			c.deleted <- id
			fmt.Fprint(w, "{}")
		} else {
			say(id)
		}
	case parts[len(parts)-1] == "acquire":
		var asked struct{ Session string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		c.sessions[asked.Session] = []string{parts[2]}
		// Larger than what a float64 can hold.
		fmt.Fprintf(w, `{"lock":%q,"session":%q,"fence":"9007199254740993","slot":0,"safe_ms":%d}`, parts[2], asked.Session, c.safeMs)
	}
}

func clientOf(t *testing.T, nodes ...*node) *Client {
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL)
	}
	client, err := New(strings.Join(urls, ","), Options{RetryFor: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
