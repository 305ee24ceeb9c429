//! Types of the wire, one file per resource: what a body looks like, and nothing else. They are made
//! from what the domain returns and never enter a table.
