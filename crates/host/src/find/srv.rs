//! Asks the machine's name servers for `SRV` records: over UDP, and over TCP if the answer does not fit.
//!
//! Why not a crate: the smallest that are kept well resolve everything, with caches, DNSSEC and a dozen more crates behind them. This needs one
//! kind of question, whose bytes `meshlock_wire::dns` reads within bounds.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use meshlock_wire::dns::{DnsError, SrvTarget, read_srv, srv_query};

/// The file that names the machine's name servers.
const RESOLVERS: &str = "/etc/resolv.conf";

/// Environment variable with the address of a name server to use instead, for tests.
const RESOLVER_VARIABLE: &str = "MESHLOCK_RESOLVER";

/// Maximum number of name servers that are asked, as the C library does.
const MAX_SERVERS: usize = 3;

/// How long one server may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Maximum length of the file that names the servers.
const MAX_FILE: u64 = 64 << 10;

const PORT: u16 = 53;

/// Returns the places that the `SRV` records of `name` list; the error says what was tried.
pub(super) async fn look_up(name: &str) -> Result<Vec<SrvTarget>, String> {
    let mut errors = Vec::new();
    for server in servers().await? {
        let query = srv_query(fastrand::u16(..), name).map_err(|error| error.to_string())?;
        match timeout(ANSWER_WITHIN, ask(server, &query)).await {
            Ok(Ok(targets)) => return Ok(targets),
            Ok(Err(error)) => errors.push(format!("{server}: {error}")),
            Err(_) => errors.push(format!("{server}: no answer within {} s", ANSWER_WITHIN.as_secs())),
        }
    }
    Err(format!("{name} cannot be looked up: {}", errors.join("; ")))
}

/// Why a server has told nothing.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Dns(#[from] DnsError),
}

async fn ask(server: SocketAddr, query: &[u8]) -> Result<Vec<SrvTarget>, AskError> {
    match over_udp(server, query).await {
        Err(AskError::Dns(DnsError::Truncated)) => over_tcp(server, query).await,
        answered => answered,
    }
}

async fn over_udp(server: SocketAddr, query: &[u8]) -> Result<Vec<SrvTarget>, AskError> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    // Only what this server sends is received.
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut bytes = vec![0; 4096];
    loop {
        let length = socket.recv(&mut bytes).await?;
        match read_srv(query, &bytes[..length]) {
            // An answer to an earlier question, or of somebody who guesses.
            Err(DnsError::OtherQuestion | DnsError::Malformed) => {}
            read => return Ok(read?),
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &[u8]) -> Result<Vec<SrvTarget>, AskError> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).unwrap_or(u16::MAX).to_be_bytes();
    stream.write_all(&[&length, query].concat()).await?;
    let length = usize::from(stream.read_u16().await?);
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await?;
    Ok(read_srv(query, &answer)?)
}

/// Returns the name servers of this machine.
async fn servers() -> Result<Vec<SocketAddr>, String> {
    if let Ok(said) = std::env::var(RESOLVER_VARIABLE) {
        let server = said
            .parse()
            .map_err(|_| format!("{RESOLVER_VARIABLE}: '{said}' is not an address with a port"))?;
        return Ok(vec![server]);
    }
    // On a thread where a slow disk does no harm.
    let read = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        io::Read::read_to_string(&mut io::Read::take(std::fs::File::open(RESOLVERS)?, MAX_FILE), &mut text)?;
        Ok::<_, io::Error>(text)
    });
    let text = read.await.map_err(|error| error.to_string())?;
    let text = text.map_err(|error| format!("{RESOLVERS}: cannot be read: {error}"))?;
    let servers = servers_in(&text);
    if servers.is_empty() { Err(format!("{RESOLVERS} names no name server")) } else { Ok(servers) }
}

fn servers_in(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        let address: IpAddr = words.next().filter(|_| is_server)?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    };
    text.lines().filter_map(server).take(MAX_SERVERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshlock_testing::async_test;
    use meshlock_wire::dns::SrvTarget;

    #[test]
    fn the_first_three_name_servers_of_the_file_are_asked() {
        let text = "# comment\nsearch example\nnameserver 10.0.0.1\nnameserver ::1\nnameserver what\n\
                    nameserver 10.0.0.2\nnameserver 10.0.0.3\n";
        let addresses: Vec<String> = servers_in(text).iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["10.0.0.1:53", "[::1]:53", "10.0.0.2:53"]);
    }

    #[test]
    fn an_answer_that_does_not_fit_is_asked_for_over_tcp_and_false_ones_are_ignored() {
        async_test(async {
            let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = tcp.local_addr().unwrap();
            let udp = UdpSocket::bind(server).await.unwrap();
            let query = srv_query(7, "_meshlock._tcp.example").unwrap();
            let target = SrvTarget { priority: 1, weight: 1, port: 7400, host: "localhost".to_owned() };
            let answer = answer(&query, &target);
            let serve = async {
                let mut bytes = [0; 512];
                let (length, from) = udp.recv_from(&mut bytes).await.unwrap();
                let mut cut = bytes[..length].to_vec();
                udp.send_to(b"nonsense", from).await.unwrap();
                cut[2] |= 0x82;
                udp.send_to(&cut, from).await.unwrap();
                let (mut stream, _) = tcp.accept().await.unwrap();
                let length = usize::from(stream.read_u16().await.unwrap());
                stream.read_exact(&mut bytes[..length]).await.unwrap();
                stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            };
            let (asked, ()) = tokio::join!(ask(server, &query), serve);
            assert_eq!(asked.unwrap(), [target]);
        });
    }

    /// Returns the answer of a name server with one place.
    fn answer(query: &[u8], target: &SrvTarget) -> Vec<u8> {
        let mut bytes = query.to_vec();
        bytes[2] |= 0x80;
        bytes[7] = 1;
        bytes.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60, 0, 17]);
        bytes.extend([target.priority, target.weight, target.port].map(u16::to_be_bytes).concat());
        bytes.push(9);
        bytes.extend(target.host.bytes());
        bytes.push(0);
        bytes
    }
}
