package meshlock

import (
	"context"
	"time"
)

// preference is the order in which the places are tried.
func (p *places) preference() (order []int, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.order, p.known
}

// prefer notes the order in which the places are tried from now on.
func (p *places) prefer(order []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order, p.known = order, true
}

// failed notes that a place could not serve. If it was preferred, all are asked anew before the next request that any of them may answer.
func (p *places) failed(place int, err *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.order[0] == place && mayWorkElsewhere(err) && len(p.urls) > 1 {
		p.known = false
	}
}

// after returns the place that is tried after this one.
func (p *places) after(place int) int {
	order, _ := p.preference()
	for i, each := range order {
		if each == place {
			return order[(i+1)%len(order)]
		}
	}
	return order[0]
}

// nearest returns the places in the order in which they are preferred. If that is not known, it asks all of them at once, for one
// goroutine at a time.
func (p *places) nearest(ctx context.Context) []int {
	order, known := p.preference()
	if known {
		return order
	}
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return order
	}
	if order, known = p.preference(); known {
		return order
	}
	if order = p.askAll(ctx); ctx.Err() == nil {
		p.prefer(order)
	}
	return order
}

// askAll asks all places at once whether they serve, and returns them in the order in which they are preferred. When that is known, the
// other requests are cancelled.
func (p *places) askAll(ctx context.Context) []int {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		place  int
		serves bool
		at     time.Duration
	}
	answers, race := make(chan answer), newRace(len(p.urls), now())
	for place := range p.urls {
		place := place
		go func() {
			err := p.ask(ctx, place, "GET", "/readyz", nil, nil)
			answers <- answer{place, err == nil, now()}
		}()
	}
	pending := len(p.urls)
	defer func() {
		cancel()
		for ; pending > 0; pending-- {
			<-answers
		}
	}()
	for {
		until, waits := race.waitsUntil()
		if !waits {
			return race.order()
		}
		timer := time.NewTimer(until - now())
		select {
		case said := <-answers:
			timer.Stop()
			race.onAnswer(said.place, said.serves, said.at)
			pending--
		case <-timer.C:
			return race.order()
		case <-ctx.Done():
			timer.Stop()
			return race.order()
		}
	}
}
