//! Mechanisms: how a thread learns of I/O on many sockets. Adding one is one file and one row.

/// A row of [`MECHANISMS`].
#[derive(Debug)]
pub struct MechanismRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
}

/// Every mechanism there is.
pub const MECHANISMS: &[MechanismRow] = &[
    MechanismRow { name: "select", about: "select(2): bitmaps scanned on both sides at every wait" },
    MechanismRow { name: "poll", about: "poll(2): an array scanned on both sides at every wait" },
    MechanismRow { name: "epoll", about: "epoll(7), level-triggered: the kernel keeps the interest list" },
];

/// The row of that name.
pub fn find(name: &str) -> Option<&'static MechanismRow> {
    MECHANISMS.iter().find(|row| row.name == name)
}
