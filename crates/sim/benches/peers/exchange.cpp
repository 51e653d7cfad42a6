// The ten-site exchange of Ricart and Agrawala in SimGrid: exchange ENTRIES timers|mailboxes
//
// Every site asks again as soon as it has left; a message takes one unit of time, a critical section 0.0002. One event is a
// message that is delivered or a process that leaves. Prints the events and the CPU seconds they took.
//
// `mailboxes` is written with actors and mailboxes: one S4U actor a site, and a mailbox each, over the network model in which
// every message takes one second. `timers` goes below that, to the kernel's timers with a callback for each message: no
// actors, no network, the least that SimGrid can do for an event.

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace sg4 = simgrid::s4u;
using simgrid::kernel::timer::Timer;

constexpr int SITES = 10;
constexpr double DELAY = 1.0;
constexpr double INSIDE = 0.0002;

struct Message {
  int from;
  bool is_reply;
  long clock;
};

static long entries_left;
static long events;
static int inside;

/// The algorithm, over any `Transport` with send(from, to, message) and stay(site).
template <class Transport> struct Site {
  Transport& transport;
  int number;
  long clock = 0;
  long asked = 0;
  int missing = 0;
  std::vector<int> deferred;

  Site(Transport& transport, int number) : transport(transport), number(number) {}

  void request() {
    asked = ++clock;
    missing = SITES - 1;
    for (int peer = 0; peer < SITES; peer++)
      if (peer != number)
        transport.send(peer, Message{number, false, asked});
  }

  void receive(const Message& message) {
    events++;
    if (message.is_reply) {
      if (--missing == 0)
        enter();
      return;
    }
    clock = std::max(clock, message.clock);
    // Under saturation everyone always waits or is inside.
    if (std::make_pair(message.clock, message.from) < std::make_pair(asked, number))
      transport.send(message.from, Message{number, true, 0});
    else
      deferred.push_back(message.from);
  }

  void enter() {
    if (++inside != 1)
      abort();
    entries_left--;
    transport.stay(*this);
  }

  void leave() {
    events++;
    inside--;
    for (int peer : deferred)
      transport.send(peer, Message{number, true, 0});
    deferred.clear();
    request();
  }
};

struct Timers {
  std::deque<Site<Timers>> sites;

  void send(int to, Message message) {
    Site<Timers>* site = &sites[to];
    Timer::set(sg4::Engine::get_clock() + DELAY, [site, message] { site->receive(message); });
  }

  void stay(Site<Timers>& site) {
    // With no entry left nothing is scheduled any more, and the run drains.
    if (entries_left > 0)
      Timer::set(sg4::Engine::get_clock() + INSIDE, [&site] { site.leave(); });
  }

  void start() {
    sg4::create_full_zone("world")->seal();
    for (int number = 0; number < SITES; number++)
      sites.emplace_back(*this, number);
    for (auto& site : sites)
      site.request();
  }
};

struct Mailboxes {
  std::vector<sg4::Mailbox*> boxes;

  void send(int to, Message message) { boxes[to]->put_init(new Message(message), 1)->detach(); }

  void stay(Site<Mailboxes>& site) {
    if (entries_left == 0)
      sg4::Actor::kill_all();
    // What arrives meanwhile waits in the mailbox; it could only be deferred anyway.
    sg4::this_actor::sleep_for(INSIDE);
    site.leave();
  }

  void serve(int number) {
    Site<Mailboxes> site(*this, number);
    site.request();
    while (entries_left > 0) {
      auto message = boxes[number]->get_unique<Message>();
      site.receive(*message);
    }
  }

  void start() {
    auto* zone = sg4::create_full_zone("world");
    std::vector<sg4::Host*> hosts;
    for (int number = 0; number < SITES; number++) {
      hosts.push_back(zone->create_host("site" + std::to_string(number), 1e9));
      boxes.push_back(sg4::Mailbox::by_name(std::to_string(number)));
    }
    zone->seal();
    for (int number = 0; number < SITES; number++) {
      auto actor = sg4::Actor::create("site", hosts[number], [this, number] { serve(number); });
      boxes[number]->set_receiver(actor);
    }
  }
};

static double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class Transport> static void measure(sg4::Engine& engine) {
  Transport transport;
  transport.start();
  double start = cpu_seconds();
  engine.run();
  printf("%ld %f\n", events, cpu_seconds() - start);
}

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  sg4::Engine::set_config("network/model:Constant");
  if (argc != 3) {
    fprintf(stderr, "usage: exchange ENTRIES timers|mailboxes\n");
    return 64;
  }
  entries_left = atol(argv[1]);
  if (strcmp(argv[2], "timers") == 0)
    measure<Timers>(engine);
  else
    measure<Mailboxes>(engine);
}
