"""The ten-site exchange of Ricart and Agrawala in SimPy: python3 exchange.py ENTRIES processes|timeouts

Every site asks again as soon as it has left; a message takes one unit of time, a critical section 0.0002. One event is a
message that is delivered or a process that leaves. Prints the events and the CPU seconds they took.

`processes` is written with processes and stores: a process a site, and a store each for what arrives. `timeouts` goes below
that: a bare timeout with a callback for each message, no processes, the least that SimPy can do for an event.
"""

import sys
import time

import simpy

SITES = 10
DELAY = 1.0
INSIDE = 0.0002


class Exchange:
    def __init__(self, entries):
        self.env = simpy.Environment()
        self.entries_left = entries
        self.events = 0
        self.inside = 0
        self.done = self.env.event()
        self.sites = [Site(self, number) for number in range(SITES)]

    def run(self):
        for site in self.sites:
            site.request()
        self.env.run(until=self.done)


class Site:
    def __init__(self, exchange, number):
        self.exchange = exchange
        self.env = exchange.env
        self.number = number
        self.clock = 0
        self.asked = (0, number)
        self.missing = 0
        self.deferred = []

    def send(self, to, asked):
        """`asked` is the timestamp of a request, or None in a reply."""
        timeout = self.env.timeout(DELAY, (self.number, asked))
        timeout.callbacks.append(self.exchange.sites[to].receive)

    def request(self):
        self.clock += 1
        self.asked = (self.clock, self.number)
        self.missing = SITES - 1
        for peer in range(SITES):
            if peer != self.number:
                self.send(peer, self.asked)

    def receive(self, event):
        self.exchange.events += 1
        sender, asked = event.value
        if asked is None:
            self.missing -= 1
            if self.missing == 0:
                self.enter()
            return
        self.clock = max(self.clock, asked[0])
        # Under saturation everyone always waits or is inside.
        if asked < self.asked:
            self.send(sender, None)
        else:
            self.deferred.append(sender)

    def enter(self):
        exchange = self.exchange
        exchange.inside += 1
        assert exchange.inside == 1
        exchange.entries_left -= 1
        if exchange.entries_left == 0:
            exchange.done.succeed()
        self.env.timeout(INSIDE).callbacks.append(self.leave)

    def leave(self, _event):
        self.exchange.events += 1
        self.exchange.inside -= 1
        deferred, self.deferred = self.deferred, []
        for peer in deferred:
            self.send(peer, None)
        self.request()


class Processes(Exchange):
    """The same with a process a site that takes its messages out of a store."""

    def __init__(self, entries):
        super().__init__(entries)
        self.boxes = [simpy.Store(self.env) for _ in range(SITES)]

    def run(self):
        for number in range(SITES):
            self.env.process(self.serve(number))
        self.env.run(until=self.done)

    def send(self, sender, to, asked):
        put = self.boxes[to].put
        timeout = self.env.timeout(DELAY, (sender, asked))
        timeout.callbacks.append(lambda event: put(event.value))

    def serve(self, me):
        clock = 0
        while True:
            clock += 1
            mine, missing, deferred = (clock, me), SITES - 1, []
            for peer in range(SITES):
                if peer != me:
                    self.send(me, peer, mine)
            while missing > 0:
                sender, asked = yield self.boxes[me].get()
                self.events += 1
                if asked is None:
                    missing -= 1
                    continue
                clock = max(clock, asked[0])
                if asked < mine:
                    self.send(me, sender, None)
                else:
                    deferred.append(sender)
            self.inside += 1
            assert self.inside == 1
            self.entries_left -= 1
            if self.entries_left == 0:
                self.done.succeed()
            # What arrives meanwhile waits in the store; it could only be deferred anyway.
            yield self.env.timeout(INSIDE)
            self.events += 1
            self.inside -= 1
            for peer in deferred:
                self.send(me, peer, None)


if __name__ == "__main__":
    kind = {"processes": Processes, "timeouts": Exchange}[sys.argv[2]]
    exchange = kind(int(sys.argv[1]))
    start = time.process_time()
    exchange.run()
    print(exchange.events, time.process_time() - start)
