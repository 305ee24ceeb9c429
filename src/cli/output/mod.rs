//! What a command says: data on standard output, notes and questions on standard error, its failure and exit code.

mod colour;
mod confirm;
mod error_mapping;
mod failure;
pub(crate) mod members;
mod stream;
mod table;

pub(crate) use colour::{Tone, tinted};
pub(crate) use confirm::{can_ask, confirm_removal, confirmed};
pub(crate) use failure::{ADOPT, CommandResult, EXIT_CODES, Exit, Failure};
pub(crate) use stream::{
    DataWriter, Reader, bytes, done, json, line, print_note, progress, result, stream_line, watched,
};
pub(crate) use table::{
    Column, cell, columns, first, instant, joined, list, record, shortened, text, use_zone, zone,
};
