//! `client.toml`: which node the commands of a user or of a machine use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use meshlock_cluster::address::Address;
use serde::Deserialize;

use crate::output::{UsageError, read_text};

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// The contents of a file. Relative paths start at the directory of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ClientFile {
    /// The address of the node, or several of one cluster, as `--node` takes them.
    pub(super) node: Option<NodeAddresses>,
    /// The socket of the node, as `--socket` takes it.
    pub(super) socket: Option<PathBuf>,
    /// The directory of the client's certificate, as `--certificate` takes it.
    pub(super) certificate: Option<PathBuf>,
    /// `"off"` for a node that runs without TLS, as `--plain` says.
    pub(super) tls: Option<TlsOff>,
}

/// The value of the key `node`: addresses in one text, separated by commas, or a list of texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "OneOrMore")]
pub(super) struct NodeAddresses(Vec<Address>);

/// The value of the key `node` as it is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl NodeAddresses {
    /// Returns the addresses, at least one.
    pub(super) fn addresses(&self) -> &[Address] {
        &self.0
    }
}

impl TryFrom<OneOrMore> for NodeAddresses {
    type Error = String;

    fn try_from(written: OneOrMore) -> Result<Self, String> {
        let texts = match written {
            OneOrMore::One(text) => vec![text],
            OneOrMore::More(texts) => texts,
        };
        let addresses: Result<Vec<_>, String> =
            texts.iter().map(|text| super::node_addresses(text)).collect();
        let addresses = addresses.map_err(|why| format!("node: {why}"))?.concat();
        if addresses.is_empty() {
            return Err("node: names no address; write for example node = \"db-1.example:7401\"".to_owned());
        }
        Ok(NodeAddresses(addresses))
    }
}

/// The only value of the key `tls`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TlsOff {
    Off,
}

/// Reads a file. Returns `None` if there is none. A file that cannot be read or is wrong is an error: without it a command could use
/// another node than the one that the file names.
pub(super) fn read(path: &Path) -> Result<Option<ClientFile>, UsageError> {
    let text = match File::open(path).and_then(|file| read_text(file, MAX_BYTES)) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(UsageError::new(format!("{}: cannot be read: {error}", path.display()))),
    };
    let wrong = |why: &str| UsageError::new(format!("{}: {why}", path.display()));
    let mut file: ClientFile = toml::from_str(&text).map_err(|error| wrong(error.message()))?;
    if file.node.is_some() && file.socket.is_some() {
        return Err(wrong("names both a node and a socket; keep one of them"));
    }
    if file.node.is_none() && file.tls.is_some() {
        return Err(wrong("tls is about the connection to a node; name it: node = \"HOST:PORT\""));
    }
    let resolve = |named: PathBuf| path.parent().map_or(named.clone(), |dir| dir.join(&named));
    file.socket = file.socket.map(resolve);
    file.certificate = file.certificate.map(resolve);
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<ClientFile>, UsageError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.toml");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn a_file_names_a_node_and_what_is_needed_to_use_it() {
        let file = parsed("node = 'db-1.example:7401'\ncertificate = 'client'").unwrap().unwrap();
        assert_eq!(file.node.unwrap().addresses(), ["db-1.example:7401".parse::<Address>().unwrap()]);
        assert!(file.certificate.unwrap().is_absolute());
        assert!(read(Path::new("/nonexistent/client.toml")).unwrap().is_none());
    }

    #[test]
    fn a_file_names_several_nodes_as_one_text_or_as_a_list() {
        for text in ["node = 'a:1, b:2'", "node = ['a:1', 'b:2']"] {
            let file = parsed(text).unwrap().unwrap();
            let addresses: Vec<String> =
                file.node.unwrap().addresses().iter().map(ToString::to_string).collect();
            assert_eq!(addresses, ["a:1", "b:2"], "{text}");
        }
    }

    #[test]
    fn a_file_that_is_wrong_is_an_error_and_not_ignored() {
        for (text, says) in [
            ("nod = 'a:1'", "unknown field `nod`"),
            ("node = 'a:1'\nsocket = 'b'", "names both a node and a socket"),
            ("tls = 'off'", "tls is about the connection"),
            ("tls = 'on'", "unknown variant `on`"),
            ("node = ", "client.toml: "),
            ("node = []", "names no address"),
            ("node = 'a:1,'", "node: "),
            ("node = ['a:1', 'b']", "'b' is not of the form HOST:PORT"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
