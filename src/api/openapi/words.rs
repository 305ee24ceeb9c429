//! What the file of a resource says about its routes in the description of the interface.

use playgate_types::JsonType;

#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// The operations, by the labels of the route table, and the bodies of their requests, in the notation of
    /// `description_files.rs`.
    pub text: &'static str,
    /// The types of answers that descriptions name.
    pub types: &'static [JsonType],
}

/// The words of a file: the types of answers, `=>`, and the text. A name comes first if a file has several.
macro_rules! words {
    ($($answer:ty),* => $text:literal) => {
        $crate::openapi::words::words! { WORDS: $($answer),* => $text }
    };
    ($name:ident: $($answer:ty),* => $text:literal) => {
        pub(crate) const $name: $crate::openapi::words::Words = $crate::openapi::words::Words {
            types: &[$(<$answer as ::playgate_types::Described>::TYPE),*],
            text: $text,
        };
    };
}
pub(crate) use words;

// The routes of the descriptions themselves.
words! { OPS_WORDS: => r##"
[operations.ops_openapi]
summary = "API description"
text = "OpenAPI 3.1 document of this interface."
kept = true
returns."200" = { text = "The document.", type = "object", example = '{"openapi": "3.1.0"}' }

[operations.ops_docs]
summary = "API description as a page"
text = "Loads nothing, and has all its text without scripts. A script adds a search and examples in several languages."
kept = true
returns."200" = { text = "The page.", media = ["text/html; charset=utf-8"], example = "<!doctype html>\n<html lang=\"en\">\n<title>Playgate administration interface</title>\n" }
"## }

words! { PUBLIC_WORDS: => r##"
[operations.openapi]
summary = "API description"
text = "OpenAPI 3.1 document of this interface."
kept = true
returns."200" = { text = "The document.", type = "object", example = '{"openapi": "3.1.0"}' }

[operations.docs]
summary = "API description as a page"
text = "Loads nothing, and has all its text without scripts. A script adds a search and examples in several languages."
kept = true
returns."200" = { text = "The page.", media = ["text/html; charset=utf-8"], example = "<!doctype html>\n<html lang=\"en\">\n<title>Playgate partner interface</title>\n" }
"## }
