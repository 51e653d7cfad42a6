//! Asks a server over HTTP whether it is ready, as load balancers and orchestrators do.

use std::net::SocketAddr;

use anyhow::ensure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Server, until_ready};

/// Waits until each of these addresses answers this path with 200.
pub(crate) async fn until_healthy(
    servers: &mut [Server],
    addresses: &[SocketAddr],
    path: &str,
) -> anyhow::Result<()> {
    for address in addresses {
        until_ready(servers, || check(*address, path)).await?;
    }
    Ok(())
}

async fn check(address: SocketAddr, path: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let status = first_line(&answer);
    ensure!(is_ok(&status), "{path} answers: {status}");
    Ok(())
}

fn first_line(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).lines().next().unwrap_or_default().to_owned()
}

fn is_ok(status: &str) -> bool {
    status.starts_with("HTTP/1.1 ") && status.split(' ').nth(1) == Some("200")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_status_200_is_healthy() {
        assert!(is_ok(&first_line(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")));
        let others: [&[u8]; 4] =
            [b"HTTP/1.1 503 Service Unavailable\r\n\r\n200", b"HTTP/1.1 2000 OK\r\n\r\n", b"200 OK\r\n", b""];
        for other in others {
            assert!(!is_ok(&first_line(other)), "{other:?}");
        }
    }
}
