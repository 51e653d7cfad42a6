package meshlock

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxAnswer is the largest answer that is read, in bytes.
	maxAnswer = 4 << 20
	// connectWithin is how long a connection may take to open.
	connectWithin = 2 * time.Second
	// answerWithin is how long a short answer may take.
	answerWithin = 5 * time.Second
)

// places are the addresses of the nodes' APIs. All sessions of a client share them.
type places struct {
	urls  []string
	token string
	http  *http.Client
	// asking holds a value while a goroutine asks which place is the nearest.
	asking chan struct{}

	mu sync.Mutex
	// order has the indices of the places as they are preferred; known says whether it was asked for since the first of it failed.
	order []int
	known bool
}

// newPlaces parses addresses that are separated by commas.
func newPlaces(list string, token string, config *tls.Config) (*places, error) {
	for _, letter := range token {
		if letter <= ' ' || letter > '~' {
			return nil, fmt.Errorf("meshlock: a token is printable ASCII without spaces; `meshlock token new NAME` makes one")
		}
	}
	var urls []string
	for _, text := range strings.Split(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if !strings.Contains(text, "//") {
			text = "http://" + text
		}
		parsed, err := url.Parse(text)
		if err != nil || parsed.Hostname() == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") ||
			strings.Trim(parsed.Path, "/") != "" || parsed.User != nil || parsed.RawQuery != "" {
			return nil, fmt.Errorf("meshlock: %q is not the address of a node's API, such as http://127.0.0.1:2379", text)
		}
		port := parsed.Port()
		if port == "" {
			port = "2379"
		}
		urls = append(urls, parsed.Scheme+"://"+net.JoinHostPort(parsed.Hostname(), port))
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("meshlock: no address of a node's API is given, such as http://127.0.0.1:2379")
	}
	dialer := &net.Dialer{Timeout: connectWithin, KeepAlive: 5 * time.Second}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: answerWithin,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     30 * time.Second,
	}
	client := &http.Client{
		Transport: transport,
		// The token is for these places only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	order := newRace(len(urls), 0).order()
	// A single place is not asked.
	return &places{urls: urls, token: token, http: client, asking: make(chan struct{}, 1), order: order, known: len(urls) == 1}, nil
}

// ask sends one request to one place, and reads the answer into `into`.
func (p *places) ask(ctx context.Context, at int, method, path string, body, into any) *Error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return &Error{Code: "bad_request", Message: err.Error()}
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, p.urls[at]+path, content)
	if err != nil {
		return &Error{Code: "bad_request", Message: err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	answer, err := p.http.Do(request)
	if err != nil {
		return &Error{Code: "unreachable", Message: fmt.Sprintf("no node answers at %s: %v", p.urls[at], err)}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return &Error{Code: "unreachable", Message: fmt.Sprintf("the answer of %s was cut off: %v", p.urls[at], err)}
	}
	if answer.StatusCode != http.StatusOK {
		return errorOf(p.urls[at], answer, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &Error{Code: "not_understood", Message: fmt.Sprintf("%s does not answer as a node: %v", p.urls[at], err)}
	}
	return nil
}

// errorOf reads the error that an answer describes.
func errorOf(place string, answer *http.Response, text []byte) *Error {
	var said struct{ Code, Message string }
	if json.Unmarshal(text, &said) != nil || said.Code == "" {
		said.Code, said.Message = "not_understood", fmt.Sprintf("%s answers with status %d", place, answer.StatusCode)
		if answer.StatusCode == http.StatusServiceUnavailable {
			said.Code = "unavailable"
		}
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	return &Error{Code: said.Code, Message: said.Message, RetryAfter: seconds}
}

// askAny asks every place once, the nearest first, until one can answer.
func (p *places) askAny(ctx context.Context, method, path string, body, into any) (at int, err *Error) {
	for _, at = range p.nearest(ctx) {
		limited, cancel := context.WithTimeout(ctx, answerWithin)
		err = p.ask(limited, at, method, path, body, into)
		cancel()
		if err == nil || !mayWorkElsewhere(err) || ctx.Err() != nil {
			return at, err
		}
		p.failed(at, err)
	}
	return at, err
}

// backoff returns how long to wait after this many failures in a row: longer each time up to a limit, and random, so that clients do not
// come back all at once.
func backoff(failures int, limit time.Duration) time.Duration {
	if failures > 10 {
		failures = 10
	}
	longest := 25 * time.Millisecond << failures
	if longest > limit {
		longest = limit
	}
	if longest <= 1 {
		return longest
	}
	jitterMu.Lock()
	defer jitterMu.Unlock()
	return longest/2 + time.Duration(jitter.Int63n(int64(longest/2)+1))
}

// jitter differs between programs, which Go's common source did not before Go 1.20.
var (
	jitterMu sync.Mutex
	jitter   = rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())<<32))
)

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, span time.Duration) {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
