// Package integration takes the place of the package with which etcd's tests start their members: it starts sites of Meshlock.
//
// A cluster always has three sites, whatever size a test asks for: the one member of a cluster of size 1 stands for all three, and of
// two members the second stands for two sites, so that the cluster has lost its majority when that one is stopped. The calls of a
// client go to all sites in turn (etcd's client does so with the endpoints that it is given), unless the test stops members: then
// each client keeps to the sites of its member, as with etcd.
package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/etcdserver/api/v3lock/v3lockpb"
	pb "go.etcd.io/etcd/etcdserver/etcdserverpb"
)

// What etcd's tests expect of the package that this one replaces.
const (
	RequestWaitTimeout = 4 * time.Second
	ThroughProxy       = false

	tickDuration  = 10 * time.Millisecond
	electionTicks = 10
	sitesOfAll    = 3
)

// stopsMembers names the tests that stop, restart or cut off a member.
var stopsMembers = map[string]bool{
	"TestLeaseKeepAliveCloseAfterDisconnectRevoke": true,
	"TestLeaseKeepAliveHandleFailure":              true,
	"TestLeaseRenewLostQuorum":                     true,
	"TestLeaseWithRequireLeader":                   true,
	"TestV3LeaseCheckpoint":                        true,
	"TestV3LeaseFailover":                          true,
	"TestV3LeaseFailureOverlap":                    true,
	"TestV3LeaseNegativeID":                        true,
	"TestV3LeasePrmote":                            true,
	"TestV3LeaseRequireLeader":                     true,
}

// ClusterConfig is what tests ask for; only the size means something here.
type ClusterConfig struct {
	Size                    int
	SnapshotCount           uint64
	EnableLeaseCheckpoint   bool
	LeaseCheckpointInterval time.Duration
	LeaseCheckpointPersist  bool
}

type cluster struct {
	Members []*member

	test      testing.TB
	process   *exec.Cmd
	orders    io.WriteCloser
	answers   *bufio.Reader
	addresses []string
	// clients are those of the members, without those that a test has taken.
	clients []*clientv3.Client
	// turn counts the calls of RandClient.
	turn int
}

type member struct {
	cluster *cluster
	sites   []int
	stopped bool
}

// ClusterV3 is a cluster with a client for each of its members.
type ClusterV3 struct{ *cluster }

type grpcAPI struct {
	Cluster     pb.ClusterClient
	KV          pb.KVClient
	Lease       pb.LeaseClient
	Watch       pb.WatchClient
	Maintenance pb.MaintenanceClient
	Auth        pb.AuthClient
	Lock        v3lockpb.LockClient
	Election    v3electionpb.ElectionClient
}

func toGRPC(client *clientv3.Client) grpcAPI {
	connection := client.ActiveConnection()
	return grpcAPI{
		pb.NewClusterClient(connection),
		pb.NewKVClient(connection),
		pb.NewLeaseClient(connection),
		pb.NewWatchClient(connection),
		pb.NewMaintenanceClient(connection),
		pb.NewAuthClient(connection),
		v3lockpb.NewLockClient(connection),
		v3electionpb.NewElectionClient(connection),
	}
}

func fail(test testing.TB, err error) {
	if err == nil {
		return
	}
	if test == nil {
		panic(err)
	}
	test.Fatal(err)
}

// NewClusterV3 starts three sites and waits until they are one cluster. Terminate ends them.
func NewClusterV3(test testing.TB, config *ClusterConfig) *ClusterV3 {
	started := &cluster{test: test}
	started.process = exec.Command("python3", filepath.Join(os.Getenv("MESHLOCK_OTHERS"), "sites.py"), fmt.Sprint(sitesOfAll))
	started.process.Stderr = os.Stderr
	orders, err := started.process.StdinPipe()
	fail(test, err)
	answers, err := started.process.StdoutPipe()
	fail(test, err)
	fail(test, started.process.Start())
	started.orders, started.answers = orders, bufio.NewReader(answers)
	line, err := started.answers.ReadBytes('\n')
	fail(test, err)
	var said struct{ Addresses []string }
	fail(test, json.Unmarshal(line, &said))
	started.addresses = said.Addresses
	for at := 0; at < config.Size; at++ {
		started.Members = append(started.Members, &member{cluster: started, sites: []int{at}})
	}
	last := started.Members[config.Size-1]
	for at := config.Size; at < sitesOfAll; at++ {
		last.sites = append(last.sites, at)
	}
	for _, each := range started.Members {
		client, err := NewClientV3(each)
		fail(test, err)
		started.clients = append(started.clients, client)
	}
	return &ClusterV3{started}
}

// NewClientV3 returns a client of all sites, or of those of the member if the test stops members.
func NewClientV3(of *member) (*clientv3.Client, error) {
	var endpoints []string
	if of.cluster.keepsToMembers() {
		for _, site := range of.sites {
			endpoints = append(endpoints, of.cluster.addresses[site])
		}
	} else {
		endpoints = append(endpoints, of.cluster.addresses...)
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second})
}

func (c *cluster) keepsToMembers() bool {
	return c.test != nil && stopsMembers[strings.Split(c.test.Name(), "/")[0]]
}

func (c *cluster) order(what string, sites []int) error {
	line := what
	for _, site := range sites {
		line += fmt.Sprintf(" %d", site)
	}
	if _, err := fmt.Fprintln(c.orders, line); err != nil {
		return err
	}
	_, err := c.answers.ReadString('\n')
	return err
}

// Client returns the client of a member.
func (c *ClusterV3) Client(at int) *clientv3.Client { return c.clients[at] }

// RandClient returns the client of some member: each in turn, so that a test comes out the same every time.
func (c *ClusterV3) RandClient() *clientv3.Client {
	c.turn++
	return c.clients[(c.turn-1)%len(c.clients)]
}

// TakeClient leaves it to the test to close a client.
func (c *ClusterV3) TakeClient(at int) { c.clients[at] = nil }

// Terminate ends the clients and the sites.
func (c *ClusterV3) Terminate(test testing.TB) {
	for _, client := range c.clients {
		if client != nil {
			client.Close()
		}
	}
	c.orders.Close()
	if err := c.process.Wait(); err != nil && test != nil {
		test.Error(err)
	}
}

// WaitLeader returns a running member: Meshlock has no leader that a test could stop.
func (c *cluster) WaitLeader(test testing.TB) int { return c.waitLeader(test, c.Members) }

// waitLeader waits until the clients of the running members are answered, and returns the first of these.
func (c *cluster) waitLeader(test testing.TB, members []*member) int {
	first := -1
	for at, each := range members {
		if each.stopped {
			continue
		}
		if first < 0 {
			first = at
		}
		for own, client := range c.clients {
			if c.Members[own] == each && client != nil {
				WaitClientV3(test, client)
			}
		}
	}
	if first < 0 {
		fail(test, fmt.Errorf("all members are stopped"))
	}
	return first
}

// WaitClientV3 waits until a client is answered.
func WaitClientV3(test testing.TB, client *clientv3.Client) {
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := client.Get(ctx, "/")
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			test.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Stop ends the sites of the member in the ordinary way.
func (m *member) Stop(test testing.TB) {
	fail(test, m.cluster.order("stop", m.sites))
	m.stopped = true
}

// Restart starts the sites of the member again.
func (m *member) Restart(test testing.TB) error {
	m.stopped = false
	return m.cluster.order("start", m.sites)
}

// Pause would cut a member off from the others and not from its clients.
func (m *member) Pause() { m.cluster.test.Skip("the sites' network is not cut here") }

// Resume would end that.
func (m *member) Resume() {}

// eqErrGRPC says whether two errors are the same for a client.
func eqErrGRPC(got error, want error) bool {
	return got != nil && want != nil && got.Error() == want.Error()
}
