//! `#[derive(Object)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt as _;
use syn::{Data, DeriveInput, Result};

use crate::input::{Options, attributes, bounded, bounded_whole, is_concrete};
use crate::wire::members_of_pod;

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Options {
        root,
        inline,
        serde,
    } = Options::of(input)?;
    let name = &input.ident;
    let (codec, object) = (quote!(#root::codec), quote!(#root::object));
    let bound = quote!(#codec::Wire + ::core::marker::Send + ::core::marker::Sync);
    let generics = if serde {
        let (_, args, _) = input.generics.split_for_impl();
        bounded_whole(input, quote!(#name #args: #bound))?
    } else {
        bounded(input, bound)?
    };
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
    let attributes = attributes(input);
    let text = input.ident.unraw().to_string();
    // Other types than structs are encoded, and so described by their codec.
    let members = match &input.data {
        Data::Struct(data) if is_concrete(input) => members_of_pod(&data.fields, &codec),
        _ => quote!(&[]),
    };
    Ok(quote! {
        #attributes
        impl #params #object::Object for #name #args #bounds {
            type Repr = #repr;

            fn saved_as() -> ::std::borrow::Cow<'static, ::core::primitive::str> {
                #object::saved_as::<Self>(#text, #members)
            }
        }
    })
}
