//! Integration tests: one binary, one module per resource.

mod tidy;
