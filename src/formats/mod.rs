//! Files and event texts of others, read into values and written from them: text in, values out.
//!
//! A format knows no request: it takes bytes or values of the domain and the records, and gives the other. Reading
//! XMLTV is part of the EPG import in `domain/schedule/import`.

pub(crate) mod catalog_file;
pub(crate) mod catalog_report;
pub(crate) mod cmcd;
pub(crate) mod decision_step;
pub(crate) mod epg_json;
mod epg_json_details;
pub(crate) mod event_members;
pub(crate) mod har;
pub(crate) mod m3u;
pub(crate) mod player_event;
pub(crate) mod rights;
pub(crate) mod xmltv;
