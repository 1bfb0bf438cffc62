//! The input of the macros: the type's attributes and parameters.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Generics, LitInt, Path, Result, Token,
    TypeParamBound, parse_quote,
};

/// The content of `#[pgas(...)]`.
pub(crate) struct Options {
    /// The path of the library.
    pub(crate) root: Path,
    /// Whether serde encodes the type.
    pub(crate) serde: bool,
    /// The bytes of an encoding that a slot holds.
    pub(crate) inline: Option<LitInt>,
}

impl Options {
    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let mut options = Self {
            root: parse_quote!(::pgas),
            serde: false,
            inline: None,
        };
        for attr in input
            .attrs
            .iter()
            .filter(|attr| attr.path().is_ident("pgas"))
        {
            attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    options.root = meta.value()?.call(Path::parse_mod_style)?;
                } else if meta.path.is_ident("serde") {
                    options.serde = true;
                } else if meta.path.is_ident("inline") {
                    options.inline = Some(meta.value()?.parse()?);
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

/// The attributes of an implementation. That it names deprecated items is no use of them.
pub(crate) fn attributes(input: &DeriveInput) -> TokenStream {
    let mut attrs: Vec<&Attribute> = input.attrs.iter().collect();
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
    let mut all = attrs.into_iter();
    let allowed = if all.any(|attr| attr.path().is_ident("deprecated")) {
        quote!(#[allow(deprecated)])
    } else {
        TokenStream::new()
    };
    quote!(#[automatically_derived] #allowed)
}

/// Whether the type has no parameters.
pub(crate) fn is_concrete(input: &DeriveInput) -> bool {
    input.generics.params.is_empty()
}
