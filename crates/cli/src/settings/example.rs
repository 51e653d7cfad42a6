//! The example configuration, which explains every key.

/// Printed by `meshlock node --example-config`. Keys that have a default are commented out and show it.
pub(crate) const EXAMPLE: &str = r#"# Configuration of one site of a Meshlock cluster. Start the site with: meshlock node --config FILE
# Relative paths start at the directory of this file. Durations are written as '500ms', '5s', '2m' or '1h'.
# A key that is commented out shows its default, or an example where the comment names another default.

# The name of the cluster: the same at all its sites, and never changed. Sites of clusters with different names never
# connect to each other.
#cluster = "meshlock"

# The name of this site. The flag --site overrides it, so that all sites can share one file.
site = "db-1"

# The sites with which the cluster starts, in the same order at all of them. The first seven are the first voters: they agree on
# which sites are members. The list never changes, also if the voters do. Other sites may join and leave; a site that is not in
# the list joins through those that are. Without this list the site is a cluster of its own.
sites = [
    { name = "db-1", address = "db-1.example:7400" },
    { name = "db-2", address = "db-2.example:7400" },
    { name = "db-3", address = "db-3.example:7400" },
]

# Instead of `sites`: where to look for sites of a running cluster, which tell the rest. "HOST:PORT" is one site; "dns:NAME:PORT" a site
# at every address of the name; "dns+srv:NAME" those that its SRV records list. Names are looked up again and again. A site that has
# been a member before does not wait for an answer. Default: none.
#join = ["db-1.example:7400", "dns:sites.example:7400", "dns+srv:_meshlock._tcp.example"]

# Instead of `sites`: how many sites the cluster starts with, if their names differ only in the number at their end, counted from 0, as the
# pods of a StatefulSet (db-0, db-1, db-2). `advertise` says where each of them is. Default: none.
#bootstrap_expect = 3

# The address on which this site listens for other sites. Default: its address in the list of sites.
#listen = "0.0.0.0:7400"

# The address at which other sites reach this site. Default: its address in the list of sites, or the one it listens on. {site} stands for
# the site's name and {ordinal} for the number at its end, so that all sites can share one file: "{site}.meshlock:7400".
#advertise = "db-1.example:7400"

# The directory for the durable state of this site. No other site may use it, and it must never be copied or emptied while
# the site exists. Default: XDG_STATE_HOME/meshlock/SITE; if that variable is not set, /var/lib/meshlock/SITE for root and
# ~/.local/state/meshlock/SITE for other users.
#data = "/var/lib/meshlock/db-1"

# The Unix socket for clients on this machine. Default: XDG_RUNTIME_DIR/meshlock/SITE.sock; if that variable is not set,
# /run/user/UID/meshlock/SITE.sock, or /tmp/meshlock-UID/SITE.sock.
#socket = "/run/meshlock/db-1.sock"

# Which users of this machine can open the socket, as the permissions of its file: "0600" for the user that runs the node,
# "0660" for its group as well, "0666" for everyone. Rules do not bind root and the user that runs the node; every other user
# is the principal 'uid:' and its number, and may do what [[access]] gives it.
#socket_mode = "0600"

# The address of the API for programs in other languages and for clients of etcd and Consul: gRPC and HTTP/JSON on one port.
# It is protected by the certificates of [tls]; without certificates it serves this machine only. Default: no API.
#api = "127.0.0.1:2379"

# The address for clients on other machines (meshlock run --node HOST:PORT). They need certificates of the same authority,
# made by `meshlock ca issue NAME --client`; with tls = "off" anyone who can reach the port is accepted. Default: none.
#clients = "0.0.0.0:7401"

# The session of a client on another machine ends when nothing has been received from it for this long; then others can get
# its locks. The client measures the same time and ends its command earlier. The session of a client on this machine ends
# with its connection.
#session_ttl = "5s"

# How long a site that is told to stop (SIGTERM) waits for its clients to release their locks. Then it tells them that the
# locks are lost, and leaves. The wait never exceeds a lease, because a site that leaves does not renew its lease.
#shutdown_grace = "5s"

# The audit log, which records who was granted or denied a lock and who took one away: a file with one JSON object per line,
# or "log" for the node's log. Default: the node's log, without grants and ends of sessions.
#audit = "/var/log/meshlock/audit.jsonl"

# The size at which the file is rotated, in bytes, and how many older files are kept (audit.jsonl.1, audit.jsonl.2, ...).
# (With logrotate: move the file before it is that long, then send SIGHUP.)
#audit_max_bytes = 67108864
#audit_files = 4

# Whether the site grants and changes nothing while the file cannot be written, because the disk is full or too slow.
# Otherwise lines are lost then, and a line in the file says how many.
#audit_required = false

# How many times in a row a lock is handed on among clients of this site while clients of other sites wait for it. With 16, up
# to 17 clients of this site hold it one after the other.
#local_turns = 16

# How long a client that does not want to wait (`meshlock run --try`) waits for the other sites to say who holds the lock. If
# they have not answered then, the lock is not available. Default: it follows the round-trip times, between 1 s and 5 s.
#try_within = "1s"

# Whether the site's thread stays awake for 50 µs after each input, once two have come within 500 µs, and lets all other threads
# run first meanwhile. Where a lock is handed over all the time and cores are idle, that takes less time; where clients keep all
# cores busy, it slows them down.
#busy_poll = false

# Who changes the voters, the same at all sites. "fixed": only operators (`meshlock site promote`). "auto": the leader, too. It keeps as
# many voters as the number of members allows (1, 3, 5 or 7), gives a site that has lost its disk its vote back, and lets a member
# take the place of a voter that is gone for long. It never makes them fewer by itself: a majority of the voters must always be up.
#voters = "auto"

# With voters = "auto": for how long a voter must be gone before a member takes its place. A machine that restarts comes back with all
# it knows, so give more time than that takes.
#replace_voter_after = "10m"

# With voters = "auto": for how long a site must have been a member before it becomes a voter without being asked, and a leader must have
# led before it changes the voters.
#promote_voter_after = "30s"

# Which sites may join as long as the cluster has no access document, the same at all sites with which it is founded. "open": every site
# with a certificate, until the first `meshlock site add`. "closed": only the sites of the list, and those that are added. It has no effect
# once there is a document: then `meshlock access set admission` changes it.
#admission = "open"

# A fence that is to be passed when the cluster is founded, if that is known: the highest that a lost cluster may have given, such as
# the fence_floor of a backup. The wall clock gives a floor as well, and the higher of the two counts. It has no effect later.
#fence_floor = 0

# Who is refused although a certificate or token is valid: "client/NAME", "site/NAME", or "serial/HEX" for one certificate. Their
# connections are ended. A site must be removed from the cluster as well (`meshlock site remove`). Read again on SIGHUP. Default: nobody.
#revoked = ["client/laptop-7", "serial/0a1b2c3d"]

# The one-time token with which this site joins its cluster for the first time, as `meshlock site add NAME --token` prints it. Once the site is
# a member it is not needed any more. Default: none.
#join_token = "meshlock_0a1b2c"

# TLS between sites: the files that `meshlock ca issue SITE` wrote. They are read again on SIGHUP, and by themselves some seconds
# after they have changed; `ca` may contain several authorities, while one replaces another. To run without TLS on a trusted network, remove this
# table and write, above the first table of this file: tls = "off"
[tls]
ca = "site-db-1/ca.pem"
cert = "site-db-1/cert.pem"
key = "site-db-1/key.pem"

# The lease of a site: if a site is cut off, its clients lose their locks when its lease expires. The same at all sites.
[lease]
# The length of a lease. Others can get the locks of a site that is cut off after this long and a little more.
#length = "5s"
# How long before the end of the lease clients are told to stop.
#margin = "500ms"
# How often the lease is renewed.
#renew_every = "1s"
# By how many millionths the clock of one machine may run faster than that of another.
#drift_ppm = 1000

# The algorithm of locks that no rule names. This table and [[rules]] are read only when the cluster starts for the first
# time; change them later with `meshlock rules`. `meshlock algorithms` lists the algorithms.
[default_rule]
algorithm = "naimi-trehel"
#permits = 1
#per_site = 1

# Rules for locks, by name or by a prefix followed by '*': the algorithm, how many clients may hold such a lock at once
# (permits, 1 to 1024), and how many of them at one site (per_site, at most 128). Clients must ask with the same number of permits;
# a semaphore that its users agree on needs no rule.
[[rules]]
pattern = "pool/*"
algorithm = "bulgannawar-vaidya"
permits = 3
#per_site = 3

# Who may do what over `api`, `clients` and, for other users, `socket`. Rules only allow; what no rule allows is denied. On SIGHUP a site reads [[access]]
# and [[tokens]] again.
# principal: the name of a certificate (`meshlock ca issue NAME --client`) or of a token; a prefix of names followed by '*';
#   '*' for everyone who has a certificate or token; 'local' for programs of this machine that have neither, who may do
#   everything until a rule names 'local'; 'anyone' for programs of other machines that have neither.
#   Other users who open the node's socket (see socket_mode) are 'uid:' and the number of the user, such as 'uid:1000'; 'uid:*'
#   is all of them. Rules do not bind root and the user that runs the node.
# verbs: acquire; watch (see who holds a lock and who waits for it); break; and, with locks = "*", admin (rules, sites).
[[access]]
principal = "ci-*"
locks = "deploy/*"
verbs = ["acquire", "watch"]

# Tokens that clients send as `Authorization: Bearer TOKEN`. `meshlock token new NAME` makes one and prints this entry.
[[tokens]]
name = "ci-1"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
# When the token ends, in UTC: a date means its beginning, 2030-01-31T12:00:00Z a moment. Default: never.
#expires = 2030-01-31

# Limits of this site for all clients of `api` together.
[limits]
#connections = 4096
#sessions = 10000
# Locks that are held or waited for.
#locks = 50000
# Clients that wait for the same lock.
#waiters = 1000
# Locks whose holders are watched: the cluster is asked about each of them twice a second.
#watched_locks = 64
# The largest request, in bytes.
#request_bytes = 65536
# A client that does not read what it is sent for this long is disconnected.
#slow_reader = "30s"
# Bytes that the site keeps for clients of `api` and `clients`: requests that have not arrived whole, and answers that were not read. A client
# whose connection would need more is disconnected.
#buffered_bytes = 268435456

# Limits for each client: each principal is one client, and so are all programs of this machine without certificate or token
# together. All but `sessions` and `watched_locks` also apply to clients of `clients`, over both together; there each connection is a
# session.
[limits.each]
#connections = 2048
#sessions = 5000
#locks = 25000
#waiters = 500
#watched_locks = 32
# Open watches, also several of one lock.
#watches = 1000
#buffered_bytes = 33554432
# Requests per second.
#rate = 5000
# Requests at once after a pause.
#burst = 10000
"#;
