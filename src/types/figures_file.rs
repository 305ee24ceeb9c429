//! The quality figures of one hour, as members of a fleet send them to each other.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiguresFile {
    /// Hours since 1970.
    pub hour: i64,
    /// When the member that made it changed it, in nanoseconds since 1970.
    pub changed: i64,
    pub content: Vec<u8>,
}
