package meshlock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// protected returns the address of a node whose API is protected by TLS, and the files of a client that may acquire locks there.
func protected(t *testing.T) (api, authority, certificate, key string) {
	t.Helper()
	api, dir := os.Getenv("MESHLOCK_TLS_API"), os.Getenv("MESHLOCK_TLS_FILES")
	if api == "" {
		t.Skip("MESHLOCK_TLS_API names no node")
	}
	return api, filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}

func lockOverTLS(t *testing.T, api, authority, certificate, key string) (*Held, error) {
	t.Helper()
	options := Options{RetryFor: time.Millisecond}
	if authority != "" {
		config, err := TLSFromFiles(authority, certificate, key)
		must(t, err)
		options.TLS = config
	}
	client, err := New(api, options)
	must(t, err)
	t.Cleanup(client.Close)
	return client.TryLock(within(t), "go/tls")
}

func TestALockIsTakenOverTLSWithACertificate(t *testing.T) {
	api, authority, certificate, key := protected(t)
	held, err := lockOverTLS(t, api, authority, certificate, key)
	must(t, err)
	if err := held.Err(); err != nil {
		t.Fatal(err)
	}
	must(t, held.Release(within(t)))
}

func TestWhoShowsNoCertificateIsRefused(t *testing.T) {
	api, authority, _, _ := protected(t)
	_, err := lockOverTLS(t, api, authority, "", "")
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "certificate required") {
		t.Fatal(err)
	}
}

func TestANodeOfAnotherAuthorityIsNotTrusted(t *testing.T) {
	api, _, _, _ := protected(t)
	_, err := lockOverTLS(t, api, "", "", "")
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "certificate") {
		t.Fatal(err)
	}
}

func TestAFileThatIsNoCertificateIsNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must(t, os.WriteFile(empty, nil, 0o600))
	for _, wrong := range []string{empty, empty + ".absent"} {
		if _, err := TLSFromFiles(wrong, "", ""); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Fatal(err)
		}
	}
}
