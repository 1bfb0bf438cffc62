//! `#[pod]`.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Error, Path, Result, Token};

use crate::input::{Options, attributes};
use crate::{object, wire};

pub(crate) fn expand(args: TokenStream, item: &DeriveInput) -> Result<TokenStream> {
    if let Some(token) = args.into_iter().next() {
        let text = "`pod` takes nothing; say `#[pgas(...)]` on the type";
        return Err(Error::new(token.span(), text));
    }
    let Data::Struct(data) = &item.data else {
        let text = "only a struct is byte-copyable: not all bytes are a variant of an enum";
        return Err(Error::new_spanned(&item.ident, text));
    };
    if let Some(param) = item.generics.params.first() {
        let text = "a byte-copyable type has no parameters";
        return Err(Error::new_spanned(param, text));
    }
    let Options {
        root,
        serde,
        inline,
    } = Options::of(item)?;
    if serde || inline.is_some() {
        let text = "a byte-copyable type is not encoded, so `serde` and `inline` have no effect";
        return Err(Error::new_spanned(&item.ident, text));
    }
    let derived = derived(item)?;
    let missing = |name: &str| !derived.iter().any(|path| is_named(path, name));
    let mut attrs = TokenStream::new();
    for name in ["Clone", "Copy"] {
        if missing(name) {
            let name = syn::Ident::new(name, proc_macro2::Span::call_site());
            attrs.extend(quote!(#[derive(::core::prelude::v1::#name)]));
        }
    }
    if !item.attrs.iter().any(|attr| attr.path().is_ident("repr")) {
        attrs.extend(quote!(#[repr(C)]));
    }
    // Attributes of derives that are removed must be removed, too.
    let mut plain = item.clone();
    plain.attrs.retain(|attr| !attr.path().is_ident("pgas"));
    let zerocopy = quote!(#root::zerocopy);
    let path = zerocopy.to_string().replace(' ', "");
    let path = path.trim_start_matches(':');
    let (name, codec) = (&item.ident, quote!(#root::codec));
    let text = name.unraw().to_string();
    let members = wire::members_of_pod(&data.fields, &codec);
    let object = object::derive(item)?;
    let attributes = attributes(item);
    let plain = plain.to_token_stream();
    Ok(quote! {
        #attrs
        #[derive(#zerocopy::FromBytes, #zerocopy::IntoBytes, #zerocopy::Immutable)]
        #[zerocopy(crate = #path)]
        #plain

        #attributes
        impl #codec::Wire for #name {
            type By = #codec::AsBytes;

            fn layout(pgas_out: &mut #codec::Layout) {
                #codec::layout_of(#text, #members, pgas_out);
            }
        }

        #object
    })
}

/// The traits that the type derives itself.
fn derived(item: &DeriveInput) -> Result<Vec<Path>> {
    let mut paths = Vec::new();
    for attr in item
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("derive"))
    {
        let list = Punctuated::<Path, Token![,]>::parse_terminated;
        paths.extend(attr.parse_args_with(list)?);
    }
    Ok(paths)
}

fn is_named(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|last| last.ident == name)
}
