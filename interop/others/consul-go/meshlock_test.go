// Takes the place of the set-up of Consul's tests: starts three sites of Meshlock, and sends the calls of a client to all of them in
// turn.
package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// sites are running sites; the tests call its methods.
type sites struct {
	Config struct{ NodeName string }

	process *exec.Cmd
	orders  io.Closer
}

// spreads sends each call to the next of several places.
type spreads struct {
	addresses []string
	next      uint64
	transport http.RoundTripper
}

func (s *spreads) RoundTrip(request *http.Request) (*http.Response, error) {
	// A test may have a proxy of its own in between.
	if request.URL.Host != s.addresses[0] {
		return s.transport.RoundTrip(request)
	}
	turn := atomic.AddUint64(&s.next, 1)
	sent := request.Clone(request.Context())
	sent.URL.Host = s.addresses[turn%uint64(len(s.addresses))]
	return s.transport.RoundTrip(sent)
}

func makeClientWithoutConnect(t *testing.T) (*Client, *sites) { return makeClient(t) }

func makeClient(t *testing.T) (*Client, *sites) {
	started := &sites{process: exec.Command("python3", filepath.Join(os.Getenv("MESHLOCK_OTHERS"), "sites.py"), "3")}
	started.process.Stderr = os.Stderr
	orders, err := started.process.StdinPipe()
	must(t, err)
	answers, err := started.process.StdoutPipe()
	must(t, err)
	must(t, started.process.Start())
	started.orders = orders
	line, err := bufio.NewReader(answers).ReadBytes('\n')
	must(t, err)
	var said struct{ Names, Addresses []string }
	must(t, json.Unmarshal(line, &said))
	started.Config.NodeName = said.Names[0]
	config := DefaultConfig()
	config.Address = said.Addresses[0]
	client, err := NewClient(config)
	must(t, err)
	inner := client.config.HttpClient.Transport
	// The first call, which creates the session, goes to the first site: the tests ask for the name of that.
	all := &spreads{addresses: said.Addresses, next: uint64(len(said.Addresses)) - 1, transport: inner}
	client.config.HttpClient = &http.Client{Transport: all}
	return client, started
}

func must(t *testing.T, err error) {
	if err != nil {
		t.Fatal(fmt.Errorf("the sites do not start: %w", err))
	}
}

// Stop ends the sites.
func (s *sites) Stop() {
	s.orders.Close()
	s.process.Wait()
}

// WaitForSerfCheck waits for nothing: the sites take part when they are there.
func (s *sites) WaitForSerfCheck(*testing.T) {}
