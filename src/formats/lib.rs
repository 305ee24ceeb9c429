//! Files and event texts of others, read into values and written from them: text in, values out.
//!
//! A format knows no request: it takes bytes or values of the domain and the records, and gives the other. Reading
//! XMLTV is part of the EPG import in `domain/schedule/import`.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod catalog_file;
pub mod catalog_report;
pub mod cmcd;
pub mod decision_step;
pub mod epg_json;
mod epg_json_details;
pub mod event_members;
pub mod har;
pub mod m3u;
pub mod player_event;
pub mod rights;
pub mod xmltv;
