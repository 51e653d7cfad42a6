//! The lock methods that nodes and clients have in common, with async and without.

use std::time::Duration;

use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Span;

/// Converts a time limit.
pub(crate) fn within(longest: Duration) -> Wait {
    Wait::Within(Span::from_micros(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX)))
}

/// Generates the methods for a type that has `async fn acquire(&self, LockName, Wait, Option<u32>) -> Result<Guard, AcquireError>`.
/// `$setup` are the lines of an example that create `$locks`, a value of the type.
macro_rules! locking_methods {
    ($type:ident, $locks:literal, $setup:literal) => {
        /// Waits for a lock, without a time limit.
        ///
        #[doc = crate::locking::example!($setup, "let guard = ", $locks, ".lock(\"orders\").await?;\nassert_eq!(guard.name(), \"orders\");")]
        pub async fn lock(&self, name: &str) -> Result<Guard, AcquireError> {
            self.acquire(name.parse()?, Wait::Forever, None).await
        }

        /// Takes a lock if it is free, without waiting for a holder to release it.
        ///
        #[doc = crate::locking::example!($setup, "let guard = ", $locks, ".lock(\"orders\").await?;\nlet busy = ", $locks, ".try_lock(\"orders\").await;\nassert!(matches!(busy, Err(meshlock::AcquireError::Busy { .. })));")]
        pub async fn try_lock(&self, name: &str) -> Result<Guard, AcquireError> {
            self.acquire(name.parse()?, Wait::Try, None).await
        }

        /// Waits for a lock, at most for `longest`.
        ///
        #[doc = crate::locking::example!($setup, "use std::time::Duration;\n\nlet guard = ", $locks, ".lock_within(\"orders\", Duration::from_secs(5)).await?;\nlet late = ", $locks, ".lock_within(\"orders\", Duration::from_millis(10)).await;\nassert!(matches!(late, Err(meshlock::AcquireError::TimedOut { .. })));")]
        pub async fn lock_within(&self, name: &str, longest: Duration) -> Result<Guard, AcquireError> {
            self.acquire(name.parse()?, within(longest), None).await
        }

        /// Waits for several locks. They are taken in the order of their names, whatever the order of `names`, so that two callers of
        /// the same locks never wait for each other. A name that is given twice is taken once.
        ///
        #[doc = crate::locking::example!($setup, "let guards = ", $locks, ".lock_all([\"orders\", \"bills\"]).await?;\nassert!(guards.get(\"bills\").is_some());")]
        pub async fn lock_all<'a>(
            &self,
            names: impl IntoIterator<Item = &'a str>,
        ) -> Result<Guards, AcquireError> {
            self.acquire_all(names, Wait::Forever).await
        }

        /// Takes several locks if all of them are free; if one is not, none is taken.
        ///
        #[doc = crate::locking::example!($setup, "let guard = ", $locks, ".lock(\"orders\").await?;\nassert!(", $locks, ".try_lock_all([\"bills\", \"orders\"]).await.is_err());\nassert!(", $locks, ".try_lock(\"bills\").await.is_ok());")]
        pub async fn try_lock_all<'a>(
            &self,
            names: impl IntoIterator<Item = &'a str>,
        ) -> Result<Guards, AcquireError> {
            self.acquire_all(names, Wait::Try).await
        }

        /// Waits for several locks, at most for `longest` for all of them together. After that none is taken.
        ///
        #[doc = crate::locking::example!($setup, "use std::time::Duration;\n\nlet guards = ", $locks, ".lock_all_within([\"orders\", \"bills\"], Duration::from_secs(5)).await?;\nassert_eq!(guards.iter().count(), 2);")]
        pub async fn lock_all_within<'a>(
            &self,
            names: impl IntoIterator<Item = &'a str>,
            longest: Duration,
        ) -> Result<Guards, AcquireError> {
            self.acquire_all(names, within(longest)).await
        }

        #[doc = concat!("Like [`lock`](", stringify!($type), "::lock), without async.\n")]
        #[doc = crate::locking::example!($setup, "let guard = ", $locks, ".lock_blocking(\"orders\")?;")]
        pub fn lock_blocking(&self, name: &str) -> Result<Guard, AcquireError> {
            wait_for(self.lock(name))
        }

        #[doc = concat!("Like [`try_lock`](", stringify!($type), "::try_lock), without async.\n")]
        #[doc = crate::locking::example!($setup, "let guard = ", $locks, ".try_lock_blocking(\"orders\")?;")]
        pub fn try_lock_blocking(&self, name: &str) -> Result<Guard, AcquireError> {
            wait_for(self.try_lock(name))
        }

        #[doc = concat!("Like [`lock_within`](", stringify!($type), "::lock_within), without async.\n")]
        #[doc = crate::locking::example!($setup, "let guard = ", $locks, ".lock_within_blocking(\"orders\", std::time::Duration::from_secs(5))?;")]
        pub fn lock_within_blocking(&self, name: &str, longest: Duration) -> Result<Guard, AcquireError> {
            wait_for(self.lock_within(name, longest))
        }

        #[doc = concat!("Like [`lock_all`](", stringify!($type), "::lock_all), without async.\n")]
        #[doc = crate::locking::example!($setup, "let guards = ", $locks, ".lock_all_blocking([\"orders\", \"bills\"])?;")]
        pub fn lock_all_blocking<'a>(
            &self,
            names: impl IntoIterator<Item = &'a str>,
        ) -> Result<Guards, AcquireError> {
            wait_for(self.lock_all(names))
        }

        #[doc = concat!("Like [`try_lock_all`](", stringify!($type), "::try_lock_all), without async.\n")]
        #[doc = crate::locking::example!($setup, "let guards = ", $locks, ".try_lock_all_blocking([\"orders\", \"bills\"])?;")]
        pub fn try_lock_all_blocking<'a>(
            &self,
            names: impl IntoIterator<Item = &'a str>,
        ) -> Result<Guards, AcquireError> {
            wait_for(self.try_lock_all(names))
        }

        #[doc = concat!("Like [`lock_all_within`](", stringify!($type), "::lock_all_within), without async.\n")]
        #[doc = crate::locking::example!($setup, "let longest = std::time::Duration::from_secs(5);\nlet guards = ", $locks, ".lock_all_within_blocking([\"orders\", \"bills\"], longest)?;")]
        pub fn lock_all_within_blocking<'a>(
            &self,
            names: impl IntoIterator<Item = &'a str>,
            longest: Duration,
        ) -> Result<Guards, AcquireError> {
            wait_for(self.lock_all_within(names, longest))
        }

        /// Returns a lock that `permits` clients may hold at once, from 1 to 1024. Whoever gives another number while the
        /// semaphore is in use, or takes it for a plain lock, gets [`Refusal::Permits`](crate::Refusal::Permits), and so does
        /// whoever gives another number than a rule of the cluster. When its last user has gone, nothing is left of it.
        ///
        #[doc = crate::locking::example!($setup, "let pool = ", $locks, ".semaphore(\"pool\", 2);\nlet (first, second) = (pool.acquire().await?, pool.acquire().await?);\nassert!(pool.try_acquire().await.is_err());")]
        pub fn semaphore(&self, name: &str, permits: u32) -> Semaphore {
            Semaphore::new(PermitSource::$type(self.clone()), name.to_owned(), permits)
        }

        async fn acquire_all<'a>(
            &self,
            names: impl IntoIterator<Item = &'a str>,
            wait: Wait,
        ) -> Result<Guards, AcquireError> {
            let names = names.into_iter().map(str::parse).collect::<Result<BTreeSet<LockName>, _>>()?;
            let since = now();
            let mut guards = Vec::with_capacity(names.len());
            for name in names {
                guards.push(self.acquire(name, wait.after(now().since(since)), None).await?);
            }
            Ok(Guards::new(guards))
        }
    };
}

/// Generates an example for rustdoc: `$setup`, followed by the concatenated parts.
macro_rules! example {
    ($setup:literal, $($part:literal),+) => {
        concat!(
            "```\n# #[tokio::main(flavor = \"current_thread\")]\n\
             # async fn main() -> Result<(), Box<dyn std::error::Error>> {\n",
            $setup, "\n", $($part,)+ "\n# Ok(())\n# }\n```"
        )
    };
}

pub(crate) use {example, locking_methods};
