// Package pairs locks and unlocks with etcd's client for Go at three endpoints. This test is ours.
package pairs

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/clientv3/concurrency"
	"go.etcd.io/etcd/integration"
)

const pairs = 30

// TestThirtyPairsOfLockAndUnlockAtThreeEndpoints has a client whose calls go to all sites in turn: the lease is granted at one, and
// locked, watched, unlocked and revoked at others.
func TestThirtyPairsOfLockAndUnlockAtThreeEndpoints(t *testing.T) {
	sites := integration.NewClusterV3(t, &integration.ClusterConfig{Size: 1})
	defer sites.Terminate(t)
	client := sites.Client(0)
	if len(client.Endpoints()) != 3 {
		t.Fatal(client.Endpoints())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	succeeded, fence := 0, int64(0)
	for turn := 0; turn < pairs; turn++ {
		session, err := concurrency.NewSession(client, concurrency.WithContext(ctx))
		if err != nil {
			t.Errorf("turn %d: no session: %v", turn, err)
			continue
		}
		mutex := concurrency.NewMutex(session, "jobs")
		if err := mutex.Lock(ctx); err != nil {
			t.Errorf("turn %d: not locked: %v", turn, err)
			continue
		}
		if next := mutex.Header().Revision; next <= fence {
			t.Errorf("turn %d: the fence %d after %d", turn, next, fence)
		} else {
			fence = next
		}
		if err := mutex.Unlock(ctx); err != nil {
			t.Errorf("turn %d: not unlocked: %v", turn, err)
			continue
		}
		if err := session.Close(); err != nil {
			t.Errorf("turn %d: not closed: %v", turn, err)
			continue
		}
		succeeded++
	}
	if succeeded != pairs {
		t.Fatalf("%d of %d pairs succeeded", succeeded, pairs)
	}
}
