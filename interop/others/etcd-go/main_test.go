// Starts the sites for the tests of etcd's package concurrency, whose clients take all endpoints.
package concurrency_test

import (
	"os"
	"testing"

	"go.etcd.io/etcd/integration"
)

var endpoints []string

func TestMain(m *testing.M) {
	sites := integration.NewClusterV3(nil, &integration.ClusterConfig{Size: 1})
	endpoints = sites.Client(0).Endpoints()
	code := m.Run()
	sites.Terminate(nil)
	os.Exit(code)
}
