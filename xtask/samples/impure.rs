//! Everything that a pure crate must not use, once: clippy must report each of these lines. No crate contains this file; the
//! tests of xtask give it to clippy with the configuration of the pure crates.

/// The types.
pub fn types() {
    let _: Option<std::collections::HashMap<u8, u8>> = None;
    let _: Option<std::collections::HashSet<u8>> = None;
    let _: Option<rustc_hash::FxHashMap<u8, u8>> = None;
    let _: Option<rustc_hash::FxHashSet<u8>> = None;
    let _: Option<std::hash::RandomState> = None;
    let _: Option<std::hash::DefaultHasher> = None;
    let _: Option<std::time::Instant> = None;
    let _: Option<std::time::SystemTime> = None;
    let _: Option<std::sync::Mutex<u8>> = None;
    let _: Option<std::sync::RwLock<u8>> = None;
    let _: Option<std::sync::LazyLock<u8>> = None;
    let _: Option<std::sync::OnceLock<u8>> = None;
    let _: Option<std::sync::Barrier> = None;
    let _: Option<std::sync::Condvar> = None;
    let _: Option<std::sync::Once> = None;
    let _: Option<std::sync::mpsc::Receiver<u8>> = None;
    let _: Option<std::sync::mpsc::Sender<u8>> = None;
    let _: Option<std::sync::mpsc::SyncSender<u8>> = None;
    let _: Option<std::sync::atomic::AtomicBool> = None;
    let _: Option<std::sync::atomic::AtomicI8> = None;
    let _: Option<std::sync::atomic::AtomicI16> = None;
    let _: Option<std::sync::atomic::AtomicI32> = None;
    let _: Option<std::sync::atomic::AtomicI64> = None;
    let _: Option<std::sync::atomic::AtomicIsize> = None;
    let _: Option<std::sync::atomic::AtomicU8> = None;
    let _: Option<std::sync::atomic::AtomicU16> = None;
    let _: Option<std::sync::atomic::AtomicU32> = None;
    let _: Option<std::sync::atomic::AtomicU64> = None;
    let _: Option<std::sync::atomic::AtomicUsize> = None;
    let _: Option<std::sync::atomic::AtomicPtr<u8>> = None;
    let _: Option<std::cell::RefCell<u8>> = None;
    let _: Option<std::thread::Builder> = None;
    let _: Option<std::thread::JoinHandle<u8>> = None;
    let _: Option<std::thread::Thread> = None;
    let _: Option<std::fs::DirBuilder> = None;
    let _: Option<std::fs::File> = None;
    let _: Option<std::fs::OpenOptions> = None;
    let _: Option<std::process::Child> = None;
    let _: Option<std::process::Command> = None;
    let _: Option<std::net::TcpListener> = None;
    let _: Option<std::net::TcpStream> = None;
    let _: Option<std::net::UdpSocket> = None;
    let _: Option<std::os::unix::net::UnixDatagram> = None;
    let _: Option<std::os::unix::net::UnixListener> = None;
    let _: Option<std::os::unix::net::UnixStream> = None;
}

/// The functions and methods.
pub fn methods() {
    let _ = std::collections::HashMap::<u8, u8>::drain;
    let _ = std::collections::HashMap::<u8, u8>::iter;
    let _ = std::collections::HashMap::<u8, u8>::iter_mut;
    let _ = std::collections::HashMap::<u8, u8>::keys;
    let _ = std::collections::HashMap::<u8, u8>::values;
    let _ = std::collections::HashMap::<u8, u8>::values_mut;
    let _ = std::collections::HashMap::<u8, u8>::into_keys;
    let _ = std::collections::HashMap::<u8, u8>::into_values;
    let _ = std::collections::HashMap::<u8, u8>::retain::<fn(&u8, &mut u8) -> bool>;
    let _ = std::collections::HashMap::<u8, u8>::extract_if::<fn(&u8, &mut u8) -> bool>;
    let _ = std::collections::HashSet::<u8>::difference;
    let _ = std::collections::HashSet::<u8>::drain;
    let _ = std::collections::HashSet::<u8>::intersection;
    let _ = std::collections::HashSet::<u8>::iter;
    let _ = std::collections::HashSet::<u8>::symmetric_difference;
    let _ = std::collections::HashSet::<u8>::union;
    let _ = std::collections::HashSet::<u8>::retain::<fn(&u8) -> bool>;
    let _ = std::collections::HashSet::<u8>::extract_if::<fn(&u8) -> bool>;
    let _ = std::time::Instant::elapsed;
    let _ = std::time::SystemTime::elapsed;
    let _ = std::time::Instant::now;
    let _ = std::time::SystemTime::now;
    let _ = std::thread::sleep;
    let _ = std::thread::park_timeout;
    let _ = std::thread::available_parallelism;
    let _ = std::thread::current;
    let _ = std::thread::park;
    let _ = std::thread::yield_now;
    let _ = std::thread::scope::<'_, fn(&std::thread::Scope<'_, '_>), ()>;
    let _ = std::thread::spawn::<fn(), ()>;
    let _ = std::thread::Builder::new;
    let _ = std::sync::mpsc::channel::<u8>;
    let _ = std::sync::mpsc::sync_channel::<u8>;
    let _ = std::env::args;
    let _ = std::env::args_os;
    let _ = std::env::current_dir;
    let _ = std::env::current_exe;
    let _ = std::env::home_dir;
    let _ = std::env::temp_dir;
    let _ = std::env::vars;
    let _ = std::env::vars_os;
    let _ = std::env::var::<&str>;
    let _ = std::env::var_os::<&str>;
    let _ = std::env::set_current_dir::<&str>;
    let _ = std::fs::canonicalize::<&str>;
    let _ = std::fs::create_dir::<&str>;
    let _ = std::fs::create_dir_all::<&str>;
    let _ = std::fs::exists::<&str>;
    let _ = std::fs::metadata::<&str>;
    let _ = std::fs::read::<&str>;
    let _ = std::fs::read_dir::<&str>;
    let _ = std::fs::read_link::<&str>;
    let _ = std::fs::read_to_string::<&str>;
    let _ = std::fs::remove_dir::<&str>;
    let _ = std::fs::remove_dir_all::<&str>;
    let _ = std::fs::remove_file::<&str>;
    let _ = std::fs::symlink_metadata::<&str>;
    let _ = std::fs::set_permissions::<&str>;
    let _ = std::fs::copy::<&str, &str>;
    let _ = std::fs::hard_link::<&str, &str>;
    #[allow(deprecated, reason = "it can still be called")]
    let _ = std::fs::soft_link::<&str, &str>;
    let _ = std::os::unix::fs::symlink::<&str, &str>;
    let _ = std::fs::rename::<&str, &str>;
    let _ = std::fs::write::<&str, &str>;
    let _ = std::fs::File::create::<&str>;
    let _ = std::fs::File::create_new::<&str>;
    let _ = std::fs::File::open::<&str>;
    let _ = std::fs::File::options;
    let _ = std::fs::OpenOptions::new;
    let _ = std::fs::OpenOptions::open::<&str>;
    let _ = std::fs::DirBuilder::new;
    let _ = std::path::Path::canonicalize;
    let _ = std::path::Path::exists;
    let _ = std::path::Path::is_dir;
    let _ = std::path::Path::is_file;
    let _ = std::path::Path::is_symlink;
    let _ = std::path::Path::metadata;
    let _ = std::path::Path::read_dir;
    let _ = std::path::Path::read_link;
    let _ = std::path::Path::symlink_metadata;
    let _ = std::path::Path::try_exists;
    let _ = std::process::abort;
    let _ = std::process::exit;
    let _ = std::process::id;
    let _ = std::process::Command::new::<&str>;
    let _ = std::io::pipe;
    let _ = std::io::stderr;
    let _ = std::io::stdin;
    let _ = std::io::stdout;
    let _ = std::net::TcpListener::bind::<&str>;
    let _ = std::net::TcpStream::connect::<&str>;
    let _ = std::net::UdpSocket::bind::<&str>;
    let _ = <str as std::net::ToSocketAddrs>::to_socket_addrs;
    let _ = std::os::unix::net::UnixListener::bind::<&str>;
    let _ = std::os::unix::net::UnixStream::connect::<&str>;
    let _ = std::os::unix::net::UnixDatagram::bind::<&str>;
}

/// A loop over a hash map, which is deterministic only if its hasher is.
pub fn loops<S>(map: &std::collections::HashMap<u8, u8, S>) {
    for _ in map {}
}
