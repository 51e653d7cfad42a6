//! Guards of several locks that were acquired together.

use crate::blocking::wait_for;
use crate::guard::{Guard, Loss, Lost};

/// Several held locks. Dropping it releases them in the reverse order.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let node = meshlock::Node::local()?;
/// let guards = node.lock_all_blocking(["orders", "bills"])?;
/// let names: Vec<&str> = guards.iter().map(meshlock::Guard::name).collect();
/// assert_eq!(names, ["bills", "orders"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the locks are released when the guards are dropped"]
pub struct Guards(Vec<Guard>);

impl Guards {
    pub(crate) fn new(guards: Vec<Guard>) -> Self {
        Guards(guards)
    }

    /// Returns the guard of this lock, if it is one of them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guards = node.lock_all_blocking(["orders", "bills"])?;
    /// assert!(guards.get("orders").is_some_and(|guard| guard.fence() > 0));
    /// assert!(guards.get("customers").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, name: &str) -> Option<&Guard> {
        self.0.iter().find(|guard| guard.name() == name)
    }

    /// Iterates over the guards, in the order of their names.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guards = node.lock_all_blocking(["orders", "bills"])?;
    /// assert_eq!(guards.iter().count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.0.iter()
    }

    /// Returns whether one of the locks is lost.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guards = node.lock_all_blocking(["orders", "bills"])?;
    /// assert!(!guards.is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.0.iter().any(Guard::is_lost)
    }

    /// Returns the loss of one of the locks, if one is lost: the one that somebody else may hold first.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// let guards = node.lock_all_blocking(["orders", "bills"])?;
    /// assert_eq!(guards.loss(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn loss(&self) -> Option<Loss> {
        self.0.iter().filter_map(Guard::loss).min_by_key(|loss| loss.act_by)
    }

    /// Completes when one of the locks is lost, with the reason; each guard's [`loss`](Guard::loss) says which one it was. It also completes
    /// when the guards are dropped. It borrows nothing. Of no locks at all none can be lost, and it never completes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # async fn work() {}
    /// let guards = node.lock_all(["orders", "bills"]).await?;
    /// tokio::select! {
    ///     loss = guards.lost() => eprintln!("stopping: {}", loss.reason),
    ///     () = work() => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> Lost {
        Lost::first_of(self.0.iter().map(Guard::lost).collect())
    }

    /// Waits until one of the locks is lost: [`lost`](Guards::lost) without async.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// let guards = node.lock_all_blocking(["orders", "bills"])?;
    /// let loss = guards.wait_until_lost(); // on a thread that has nothing else to do
    /// eprintln!("stopping: {}", loss.reason);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_until_lost(&self) -> Loss {
        wait_for(self.lost())
    }

    /// Releases all locks, as dropping does.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guards = node.lock_all_blocking(["orders", "bills"])?;
    /// guards.release();
    /// assert!(node.try_lock_blocking("orders").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(self) {}
}

impl Drop for Guards {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
