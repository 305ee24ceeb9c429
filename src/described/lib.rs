//! Derives `playgate_types::Described`: what the description of the interfaces says about a JSON body.
//!
//! - The doc comment of a field is its published text; the one of the type is not published.
//! - Names, and which members may be absent, are what the attributes of serde say. One that this macro does not know is an error,
//!   so that description and body cannot differ.
//! - The published name of a type is its own, without `Body` at the end.
//! - `#[described(EXPRESSION)]` at a field is its JSON type, if that is not the one of its Rust type.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Lit, LitStr, Meta};

#[proc_macro_derive(Described, attributes(described))]
pub fn derive_described(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    object(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn object(input: &DeriveInput) -> Result<Tokens, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(input, "only a struct is an object"));
    };
    let rules = SerdeRules::read(&input.attrs)?;
    let type_name = input.ident.to_string();
    let published = type_name.strip_suffix("Body").unwrap_or(&type_name);
    let members: Result<Vec<_>, _> = data.fields.iter().map(|f| member(f, &rules)).collect();
    let members = members?;
    let (name, (generics, arguments, bounds)) = (&input.ident, input.generics.split_for_impl());
    Ok(quote! {
        impl #generics ::playgate_types::Described for #name #arguments #bounds {
            const TYPE: ::playgate_types::JsonType =
                ::playgate_types::JsonType::Object(&::playgate_types::ObjectType {
                    name: #published,
                    members: &[#(#members),*],
                });
        }
    })
}

fn member(field: &Field, of_type: &SerdeRules) -> Result<Tokens, Error> {
    let rules = SerdeRules::read(&field.attrs)?;
    let (Some(of_field), rust_type) = (&field.ident, &field.ty) else {
        return Err(Error::new_spanned(field, "a member has a name"));
    };
    // A raw identifier, such as `r#type`, is the name without its prefix.
    let of_field = of_field.to_string().trim_start_matches("r#").to_owned();
    let name = match (rules.rename, of_type.camel_case) {
        (Some(name), _) => name,
        (None, true) => camel_case(&of_field),
        (None, false) => of_field,
    };
    let json_type = match of_name(&field.attrs, "described").next() {
        Some(attribute) => attribute.parse_args::<Expr>()?.into_token_stream(),
        None => quote!(<#rust_type as ::playgate_types::Described>::TYPE),
    };
    let (optional, flattened, text) = (rules.optional, rules.flattened, text(&field.attrs)?);
    if text.is_empty() && !flattened {
        let why = "a member needs a doc comment, which is its published text";
        return Err(Error::new_spanned(field, why));
    }
    Ok(quote! {
        ::playgate_types::Member {
            name: #name,
            json_type: #json_type,
            optional: #optional,
            flattened: #flattened,
            text: #text,
        }
    })
}

fn of_name<'a>(attributes: &'a [Attribute], name: &str) -> impl Iterator<Item = &'a Attribute> {
    attributes
        .iter()
        .filter(move |attribute| attribute.path().is_ident(name))
}

/// Joins the lines of a doc comment; an empty line begins a paragraph.
fn text(attributes: &[Attribute]) -> Result<String, Error> {
    let mut text = String::new();
    for attribute in of_name(attributes, "doc") {
        let Meta::NameValue(doc) = &attribute.meta else {
            return Err(Error::new_spanned(attribute, "must be text"));
        };
        let Expr::Lit(ExprLit {
            lit: Lit::Str(line),
            ..
        }) = &doc.value
        else {
            return Err(Error::new_spanned(attribute, "must be text"));
        };
        match line.value().trim() {
            "" => text.push_str("\n\n"),
            line if text.is_empty() || text.ends_with('\n') => text.push_str(line),
            line => text.extend([" ", line]),
        }
    }
    Ok(text)
}

/// What the attributes of serde say about the JSON form.
#[derive(Default)]
struct SerdeRules {
    rename: Option<String>,
    camel_case: bool,
    flattened: bool,
    optional: bool,
}

impl SerdeRules {
    fn read(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut rules = Self::default();
        for attribute in of_name(attributes, "serde") {
            attribute.parse_nested_meta(|meta| rules.add(&meta))?;
        }
        Ok(rules)
    }

    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> Result<(), Error> {
        let value = || Ok::<_, Error>(meta.value()?.parse::<LitStr>()?.value());
        let name = meta.path.get_ident().map(ToString::to_string);
        match name.unwrap_or_default().as_str() {
            "rename" => self.rename = Some(value()?),
            "rename_all" if value()? == "camelCase" => self.camel_case = true,
            "flatten" => self.flattened = true,
            "skip_serializing_if" => {
                value()?;
                self.optional = true;
            }
            // The member is appended to what serde writes.
            "borrow" | "skip_serializing" => {}
            _ => return Err(meta.error("`Described` does not know this attribute")),
        }
        Ok(())
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name + letters.as_str()
    })
}
