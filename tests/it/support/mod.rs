//! Modules that several test files use.
//!
//! | module | owns |
//! | --- | --- |
//! | `server` | the whole service in this process, with a manual clock |
//! | `gate_only` | the same with a gate that knows one partner, one user and one operator |
//! | `appliance` | the built binary as a process |
//! | `playback_fixture`, `schedule_fixture` | a server with a catalogue, a guide and viewers |
//! | `synthetic_guide` | guides of any size |
//! | `raw_http` | a client that sends exactly the given bytes |
//! | `audience`, `attackers` | viewers who play and count errors; clients that hold connections |
//! | `openapi_conformance` | compares each response of a test with its description |
//! | `journal_completeness` | finds each answer of a test exactly once in the request journal |
//! | `process` | waits for processes with a deadline; kills those that a test leaves behind |
//! | `stop_on_drop` | ends the threads of a scope when one of them panics |
//! | `metrics` | reads `/metrics` of a server |
//! | `tcp_proxy` | a network between two processes that becomes silent or slow |
//! | `until` | waits for what another thread or process does |
//! | `demo` | a running `playgate demo` |
//! | `lab_report` | reads the reports of the lab |
//! | `certificates`, `external_tools` | keys and certificates by openssl; programs of Debian packages |

pub mod appliance;
pub mod attackers;
pub mod audience;
pub mod certificates;
pub mod demo;
pub mod event_sink;
pub mod external_tools;
pub mod gate_only;
pub mod journal_completeness;
pub mod lab_report;
pub mod license_server;
pub mod metrics;
pub mod openapi_conformance;
pub mod playback_fixture;
pub mod process;
pub mod raw_http;
pub mod schedule_fixture;
pub mod server;
pub mod stop_on_drop;
pub mod synthetic_guide;
pub mod tcp_proxy;
pub mod until;
