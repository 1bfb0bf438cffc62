//! The input of the macros: the type's attributes and parameters.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse as _, Parser as _};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Generics, LitInt, Path, Result, Token,
    TypeParamBound, WherePredicate, parse_quote,
};

/// The content of `#[pgas(...)]`.
pub(crate) struct Options {
    /// The path of the library.
    pub(crate) root: Path,
    /// Whether serde encodes the type.
    pub(crate) serde: bool,
    /// The bytes of an encoding that a slot holds.
    pub(crate) inline: Option<usize>,
}

fn is_ours(attr: &Attribute) -> bool {
    attr.path().is_ident("pgas")
}

impl Options {
    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let mut options = Self {
            root: parse_quote!(::pgas),
            serde: false,
            inline: None,
        };
        if let Some(attr) = attributes_within(input)
            .into_iter()
            .find(|attr| is_ours(attr))
        {
            let text = "`#[pgas(...)]` stands on the type, not on its members or variants";
            return Err(Error::new_spanned(attr, text));
        }
        for attr in input.attrs.iter().filter(|attr| is_ours(attr)) {
            attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    options.root = meta.value()?.call(Path::parse_mod_style)?;
                } else if meta.path.is_ident("serde") {
                    options.serde = true;
                } else if meta.path.is_ident("inline") {
                    let n: LitInt = meta.value()?.parse()?;
                    if options.inline.replace(n.base10_parse()?).is_some() {
                        return Err(meta.error("`inline` is said twice"));
                    }
                } else {
                    return Err(meta.error("expected `serde`, `inline = ...` or `crate = ...`"));
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// The type's parameters, with `bounds` on each type parameter. An error if the type borrows.
pub(crate) fn bounded(input: &DeriveInput, bounds: TokenStream) -> Result<Generics> {
    let mut generics = input.generics.clone();
    if let Some(lifetime) = generics.lifetimes().next() {
        let text =
            "the type borrows, and what travels or lives in global memory owns all that it holds";
        return Err(Error::new_spanned(lifetime, text));
    }
    let bounds = Punctuated::<TypeParamBound, Token![+]>::parse_terminated.parse2(bounds)?;
    for param in generics.type_params_mut() {
        param.bounds.extend(bounds.clone());
    }
    Ok(generics)
}

/// As [`bounded`], for a type with its own bound as a whole: `predicate`. That says of the type's
/// parameters what has to be said.
pub(crate) fn bounded_whole(input: &DeriveInput, predicate: TokenStream) -> Result<Generics> {
    let mut generics = bounded(input, quote!('static))?;
    if !is_concrete(input) {
        let predicate = WherePredicate::parse.parse2(predicate)?;
        generics.make_where_clause().predicates.push(predicate);
    }
    Ok(generics)
}

/// The attributes of an implementation. That it names deprecated items is no use of them.
pub(crate) fn attributes(input: &DeriveInput) -> TokenStream {
    let mut all = input.attrs.iter().chain(attributes_within(input));
    let allowed = if all.any(|attr| attr.path().is_ident("deprecated")) {
        quote!(#[allow(deprecated)])
    } else {
        TokenStream::new()
    };
    quote!(#[automatically_derived] #allowed)
}

/// The attributes of the type's members and variants.
fn attributes_within(input: &DeriveInput) -> Vec<&Attribute> {
    let mut attrs: Vec<&Attribute> = Vec::new();
    let mut fields: Vec<&Field> = Vec::new();
    match &input.data {
        Data::Struct(data) => fields.extend(&data.fields),
        Data::Enum(data) => {
            for variant in &data.variants {
                attrs.extend(&variant.attrs);
                fields.extend(&variant.fields);
            }
        }
        Data::Union(_) => {}
    }
    attrs.extend(fields.into_iter().flat_map(|field| &field.attrs));
    attrs
}

/// Whether the type has no parameters.
pub(crate) fn is_concrete(input: &DeriveInput) -> bool {
    input.generics.params.is_empty()
}
