//! Tables, free addresses, and the error for wrong arguments.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use comfy_table::{ContentArrangement, Table, TableComponent, presets};

/// A mistake in the arguments: the message names the thing and says what is expected.
#[derive(Debug)]
pub(crate) struct InvalidArgument(String);

impl InvalidArgument {
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        InvalidArgument(why.to_string())
    }
}

impl fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidArgument {}

/// Returns an empty table with these column heads.
pub(crate) fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.remove_style(TableComponent::HorizontalLines).remove_style(TableComponent::MiddleIntersections);
    table.set_header(heads.to_vec());
    table
}

/// Returns loopback addresses that are free now.
pub(crate) fn free_addresses(count: usize) -> io::Result<Vec<String>> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
}
