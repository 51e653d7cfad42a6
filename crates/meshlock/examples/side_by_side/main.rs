//! The five examples that all clients share, and which docs/clients.md shows side by side.
//!
//! ```sh
//! MESHLOCK_NODE=db-1:7401,db-2:7401,db-3:7401 cargo run -p meshlock --example side_by_side counter DIR 10 0
//! ```
//!
//! takes ten turns of one of them, with its files in DIR, as a client of the nodes at these addresses (what their configurations have under
//! `clients`, without TLS) or with these sockets; the last number is that of the first job of `once`.

#![allow(clippy::print_stdout, reason = "examples say what they do")]

mod counter;
mod database;
mod leader;
mod once;
mod pool;
mod watch;

use std::path::Path;
use std::time::Duration;

use meshlock::{AcquireError, Client, Endpoint};

pub(crate) type Turn<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// How often a turn is tried again because its lock was lost, or because no node could serve it.
const ATTEMPTS: u32 = 100;

/// The pause before a turn is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// The lock was lost in a turn: it is taken again.
#[derive(Debug, thiserror::Error)]
#[error("the lock was lost")]
struct LostInTurn;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Turn {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    run(&arguments).await
}

/// Takes the turns that the command line says.
pub(crate) async fn run(arguments: &[String]) -> Turn {
    let [name, dir, turns, first] = arguments else {
        return Err("usage: side_by_side counter|leader|pool|once|database DIR TURNS FIRST".into());
    };
    let (turns, first): (u32, u32) = (turns.parse()?, first.parse()?);
    let nodes = std::env::var("MESHLOCK_NODE")?;
    let nodes: Vec<Endpoint> = nodes.split(',').map(endpoint).collect::<Turn<_>>()?;
    let client = Client::connect(nodes).await?;
    for turn in first..first + turns {
        let mut attempt = 1;
        while let Err(error) = one(name, &client, Path::new(dir), turn).await {
            if attempt == ATTEMPTS || !may_succeed_later(&*error) {
                return Err(error);
            }
            attempt += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Returns the node with this socket, or at this address.
fn endpoint(text: &str) -> Turn<Endpoint> {
    if text.contains('/') { Ok(Endpoint::socket(text)) } else { Ok(Endpoint::tcp_plaintext(text)?) }
}

async fn one(name: &str, client: &Client, dir: &Path, turn: u32) -> Turn {
    match name {
        "counter" => counter::turn(client, dir).await,
        "leader" => leader::turn(client).await,
        "pool" => pool::turn(client).await,
        "once" => once::turn(client, dir, turn).await,
        "database" => database::turn(client, dir).await,
        _ => Err(format!("there is no example {name}").into()),
    }
}

/// Whether a turn failed because of the nodes and not because of this program.
fn may_succeed_later(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<LostInTurn>() || error.is::<AcquireError>()
}
