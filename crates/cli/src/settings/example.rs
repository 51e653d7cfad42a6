//! The configuration file that explains every key.

/// Printed by `meshlock node --example-config`. Keys that have a default stand with it, commented out.
pub(crate) const EXAMPLE: &str = r#"# A site of a Meshlock cluster. Start it with: meshlock node --config FILE
# Paths count from where this file is. Lengths of time: '500ms', '5s', '2m', '1h'.

# The name of the cluster, the same at all its sites, for ever. Sites of clusters with different names never mix.
#cluster = "meshlock"

# The name of this site. The flag --site overrides it, so that all sites can share one file.
site = "db-1"

# The sites that the cluster begins with, in the same order at all of them. The first seven vote on who takes part, and never
# change; others may come and go. A site that is not in the list joins through those that are.
# Without this list the site is a cluster of its own.
sites = [
    { name = "db-1", address = "db-1.example:7400" },
    { name = "db-2", address = "db-2.example:7400" },
    { name = "db-3", address = "db-3.example:7400" },
]

# Where this site listens for the others. Default: its address in the list of sites.
#listen = "0.0.0.0:7400"

# Where the others reach this site. Default: its address in the list of sites, or where it listens.
#advertise = "db-1.example:7400"

# Where this site keeps what it must not forget: a directory of its own, never copied or emptied while the site exists.
# Default: XDG_STATE_HOME/meshlock/SITE; where that is not set, /var/lib/meshlock/SITE for root and
# ~/.local/state/meshlock/SITE for others.
#data = "/var/lib/meshlock/db-1"

# Where clients on this machine reach it. Default: XDG_RUNTIME_DIR/meshlock/SITE.sock, or /tmp/meshlock-UID/SITE.sock.
#socket = "/run/meshlock/db-1.sock"

# Where programs of other languages, and clients of etcd, reach it: gRPC and HTTP/JSON on one port, protected by the certificates
# of [tls], or without protection for programs of this machine only. Not served if nothing is said.
#api = "127.0.0.1:2379"

# Where clients on other machines reach it (meshlock run --node HOST:PORT). They show certificates of the same authority, made by
# `meshlock ca issue NAME --client`; with tls = "off" whoever reaches the port is let in. Default: nowhere.
#clients = "0.0.0.0:7401"

# After how long without a word from such a client its session ends, and others may have what it held. The client, which
# counts for itself, has ended its command before. A client of this machine is gone when its connection is.
#session_ttl = "5s"

# How long a site that is told to stop (SIGTERM) waits for its clients to give back what they hold. Then they are told that
# they have lost it, and the site leaves without them. It is never longer than a lease, which a site that leaves does not renew.
#shutdown_grace = "5s"

# Where it is written down who was granted, denied or took what: a file of one JSON object a line (for logrotate: send SIGHUP
# after moving it away), or "log" for the log. Default: the log, without grants and ends of sessions.
#audit = "/var/log/meshlock/audit.jsonl"

# How often in a row clients of this site get a lock before those of other sites do, if both wait.
#local_turns = 16

# How connections between sites are protected: files of `meshlock ca issue SITE`. To trust the network instead, remove this
# table and write, above the first table: tls = "off"
[tls]
ca = "site-db-1/ca.pem"
cert = "site-db-1/cert.pem"
key = "site-db-1/key.pem"

# A site that is cut off loses what its clients hold when its lease ends. The same at all sites.
[lease]
# How long a lease is: what it held is free for others after this long and a little more.
#length = "5s"
# How long before its end clients are told to stop.
#margin = "500ms"
# How often it is renewed.
#renew_every = "1s"
# By how many millionths one machine's clock may run faster than another's.
#drift_ppm = 1000

# What the cluster's locks run, at its first start; later `meshlock rules` changes it, and this is not looked at any more.
# `meshlock algorithms` lists what there is.
[default_rule]
algorithm = "naimi-trehel"
#permits = 1
#per_site = 1

# Locks by name, or by how their names begin: how many may hold one at once, and how many of these at one site.
[[rules]]
pattern = "pool/*"
algorithm = "bulgannawar-vaidya"
permits = 3
#per_site = 3

# Who may do what over `api` and `clients`. Rules only give; what none gives is denied. SIGHUP makes a site read rules and tokens anew.
# principal: the name of a certificate (`meshlock ca issue NAME --client`) or of a token, the beginning of names and '*', '*' for all
# that have one; 'local' for programs of this machine without either, who may do everything until a rule names them; 'anyone' for
# whoever comes from elsewhere and shows nothing. The node's socket is not bound by rules: only who runs the node can open it.
# verbs: acquire, watch (who holds a lock and waits for it), break, and, with locks = "*", admin (rules, sites).
[[access]]
principal = "ci-*"
locks = "deploy/*"
verbs = ["acquire", "watch"]

# Tokens, for `Authorization: Bearer TOKEN`: `meshlock token new NAME` makes one and prints what to write here.
[[tokens]]
name = "ci-1"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

# How much clients may have of this site over `api`.
[limits]
#connections = 4096
#sessions = 10000
# Locks that are held or waited for.
#locks = 50000
# Who may wait for one lock.
#waiters = 1000
# Locks whose holders are watched: the cluster is asked about each of them twice a second.
#watched_locks = 64
#request_bytes = 65536
# Who does not read what it is sent for so long is cut off.
#slow_reader = "30s"

# How much of it one client may have (one principal; all programs of this machine that show nothing are one). Connections and
# pace also count for `clients`.
[limits.each]
#connections = 2048
#sessions = 5000
#locks = 25000
#waiters = 500
#watched_locks = 32
# Requests a second, and at once after a pause.
#rate = 5000
#burst = 10000
"#;
