package meshlock

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFromFiles returns the configuration for Options.TLS of files in PEM: the certificate of the authority that the nodes' certificates
// must come from, and this client's certificate with its key (`meshlock ca issue NAME --client` writes all three). A client that shows a
// token gives empty names for its certificate and key.
func TLSFromFiles(authority, certificate, key string) (*tls.Config, error) {
	text, err := os.ReadFile(authority)
	if err != nil {
		return nil, fmt.Errorf("meshlock: the certificate of the authority: %w", err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("meshlock: %s has no certificate in PEM; name the file ca.pem that `meshlock ca init` wrote", authority)
	}
	if certificate == "" && key == "" {
		return config, nil
	}
	own, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("meshlock: the client's certificate %q with the key %q: %w", certificate, key, err)
	}
	config.Certificates = []tls.Certificate{own}
	return config, nil
}
