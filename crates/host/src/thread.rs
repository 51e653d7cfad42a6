//! The node's own thread, with the runtime that its tasks live on. The runtime is made and ends there: elsewhere it could end
//! within another runtime, which is not allowed.

use std::io;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};

/// What the thread does until it ends.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread that waits for its work.
pub(super) struct Idle {
    pub(super) tasks: Handle,
    work: Sender<Work>,
    thread: JoinHandle<()>,
}

impl Idle {
    pub(super) fn start(name: String) -> io::Result<Self> {
        let (says, hears) = channel();
        let (work, works) = channel::<Work>();
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = says.send(Ok(runtime.handle().clone()));
                if let Ok(work) = works.recv() {
                    runtime.block_on(work);
                }
            }
            Err(error) => drop(says.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        let tasks = hears.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Idle { tasks, work, thread })
    }

    /// Gives it its work.
    pub(super) fn work(self, work: Work) -> JoinHandle<()> {
        // It is there: it ends only after its work, or without this sender.
        let _ = self.work.send(work);
        self.thread
    }
}
