//! `#[derive(Object)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt as _;
use syn::{Data, DeriveInput, Member, Result};

use crate::input::{Options, attributes, bounded, is_concrete};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Options { root, inline, .. } = Options::of(input)?;
    let name = &input.ident;
    let (codec, object) = (quote!(#root::codec), quote!(#root::object));
    let bound = quote!(#codec::Wire + ::core::marker::Send + ::core::marker::Sync);
    let generics = bounded(input, bound)?;
    let (params, args, bounds) = generics.split_for_impl();
    let inline = match inline {
        Some(n) => quote!(#n),
        None if is_concrete(input) => quote!({ #object::inline_bytes::<#name>() }),
        None => quote!(60),
    };
    let repr = if is_concrete(input) {
        quote! {
            <#object::Choose<#inline, {
                use #codec::NotPod as _;
                #codec::IsPod::<#name>::ANSWER
            }> as #object::Chosen>::Repr
        }
    } else {
        quote!(#object::Encoded<#inline>)
    };
    let (text, attributes) = (text(input), attributes(input));
    Ok(quote! {
        #attributes
        impl #params #object::Object for #name #args #bounds {
            type Repr = #repr;

            fn saved_as() -> ::std::borrow::Cow<'static, ::core::primitive::str> {
                #object::saved_as::<Self>(#text)
            }
        }
    })
}

/// The type's name and, for a struct, the names of its members.
fn text(input: &DeriveInput) -> String {
    let name = input.ident.to_string();
    let Data::Struct(data) = &input.data else {
        return name;
    };
    let members = data.fields.members().map(|member| match member {
        Member::Named(name) => name.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    });
    let members = members.collect::<Vec<_>>().join(", ");
    format!("{name} {{{members}}}")
}
