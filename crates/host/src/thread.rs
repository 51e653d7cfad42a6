//! The node's own thread, with the runtime that its tasks run on. The runtime is created and dropped on this thread: elsewhere it could
//! be dropped inside another runtime, which Tokio does not allow.

use std::io;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};

/// What the thread does until it ends.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread that waits for its work.
pub(super) struct IdleThread {
    pub(super) tasks: Handle,
    work: Sender<Work>,
    thread: JoinHandle<()>,
}

impl IdleThread {
    pub(super) fn start(name: String) -> io::Result<Self> {
        let (started, is_started) = channel();
        let (work, works) = channel::<Work>();
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = started.send(Ok(runtime.handle().clone()));
                if let Ok(work) = works.recv() {
                    runtime.block_on(work);
                }
            }
            Err(error) => drop(started.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        let tasks = is_started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(IdleThread { tasks, work, thread })
    }

    /// Gives the thread its work.
    pub(super) fn work(self, work: Work) -> JoinHandle<()> {
        // The thread still runs: it ends only after its work, or when this sender is dropped.
        let _ = self.work.send(work);
        self.thread
    }
}
