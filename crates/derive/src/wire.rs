//! `#[derive(Wire)]`.

use proc_macro2::{Group, Literal, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{Data, DeriveInput, Error, Fields, Ident, Member, Result};

use crate::input::{Options, attributes, bounded, bounded_whole, is_concrete};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Options { root, serde, .. } = Options::of(input)?;
    let name = &input.ident;
    let codec = quote!(#root::codec);
    let attributes = attributes(input);
    let generics = if serde {
        let (_, args, _) = input.generics.split_for_impl();
        bounded_whole(input, quote!(#codec::AsSerde: #codec::Codec<#name #args>))?
    } else {
        bounded(input, quote!(#codec::Wire))?
    };
    let (params, args, bounds) = generics.split_for_impl();
    let wire = |by, layout| {
        quote! {
            #attributes
            impl #params #codec::Wire for #name #args #bounds {
                type By = #by;

                #layout
            }
        }
    };
    if serde {
        return Ok(wire(quote!(#codec::AsSerde), quote!()));
    }
    let by = codec_of(input, &codec);
    let Bodies {
        encode,
        decode,
        layout,
    } = bodies(input, &codec)?;
    let wire = wire(
        by,
        quote! {
            fn layout(pgas_out: &mut #codec::Layout) {
                #layout
            }
        },
    );
    let itself = quote!(#name #args);
    let [params, bounds] = [params.to_token_stream(), bounds.to_token_stream()];
    let [params, bounds] = [params, bounds].map(|tokens| named(tokens, &itself));
    Ok(quote! {
        #wire

        #attributes
        impl #params #codec::Codec<#name #args> for #codec::Derived #bounds {
            type Array<const PGAS_LENGTH: ::core::primitive::usize> = #codec::Each<Self>;

            #[inline]
            fn encode(pgas_value: &#name #args, pgas_out: &mut #codec::Encoder) -> #codec::Done {
                #encode
            }

            #[inline]
            fn decode(pgas_input: &mut #codec::Decoder<'_>) -> #codec::Done<#name #args> {
                #decode
            }
        }
    })
}

/// The codec of a type that is not serde's. It is determined where the concrete type is known.
fn codec_of(input: &DeriveInput, codec: &TokenStream) -> TokenStream {
    let name = &input.ident;
    if is_concrete(input) {
        quote! {
            <#codec::Choose<{
                use #codec::NotPod as _;
                #codec::IsPod::<#name>::ANSWER
            }> as #codec::Chosen>::By
        }
    } else {
        quote!(#codec::Derived)
    }
}

/// The bodies of the codec's functions.
struct Bodies {
    encode: TokenStream,
    decode: TokenStream,
    layout: TokenStream,
}

fn bodies(input: &DeriveInput, codec: &TokenStream) -> Result<Bodies> {
    let (name, text) = (&input.ident, input.ident.unraw().to_string());
    let (_, args, _) = input.generics.split_for_impl();
    let itself = quote!(#name #args);
    let part = |fields: &Fields| Part::of(fields, codec, &itself);
    match &input.data {
        Data::Struct(data) => {
            let Part {
                pattern,
                put,
                get,
                layout,
            } = Part::of_struct(input, &data.fields, codec, &itself)?;
            Ok(Bodies {
                encode: quote!(let #name #pattern = pgas_value; #put),
                decode: quote!(::core::result::Result::Ok(#name #get)),
                layout: quote!(#codec::layout_of(#text, #layout, pgas_out)),
            })
        }
        Data::Enum(data) => {
            let (mut puts, mut gets, mut layouts) = (Vec::new(), Vec::new(), Vec::new());
            for (i, variant) in data.variants.iter().enumerate() {
                let (number, ident) = (Literal::usize_unsuffixed(i), &variant.ident);
                let Part {
                    pattern,
                    put,
                    get,
                    layout,
                } = part(&variant.fields);
                puts.push(quote!(#name::#ident #pattern => { pgas_out.put_count(#number); #put }));
                gets.push(quote!(#number => ::core::result::Result::Ok(#name::#ident #get)));
                let text = ident.unraw().to_string();
                let next = if i == 0 { "" } else { ", " };
                layouts.push(
                    quote!(pgas_out.say(#next); #codec::layout_of(#text, #layout, pgas_out);),
                );
            }
            // A reference to an enum without variants is uninhabited, but the compiler does not
            // know that.
            let value = match data.variants.len() {
                0 => quote!(*pgas_value),
                _ => quote!(pgas_value),
            };
            let no_variant = quote!(#codec::no_variant::<#itself>(pgas_number));
            Ok(Bodies {
                encode: quote!(match #value { #(#puts)* }),
                decode: quote! {
                    match pgas_input.get_count::<#itself>()? {
                        #(#gets,)*
                        pgas_number => ::core::result::Result::Err(#no_variant),
                    }
                },
                layout: quote!(pgas_out.say(#text); pgas_out.say(" ["); #(#layouts)* pgas_out.say("]");),
            })
        }
        Data::Union(union) => {
            let text = "a union does not say which of its members it holds";
            Err(Error::new(union.union_token.span, text))
        }
    }
}

/// Whether the members of a struct may lie at any address.
fn is_packed(input: &DeriveInput) -> Result<bool> {
    let mut is_packed = false;
    for attr in input.attrs.iter().filter(|it| it.path().is_ident("repr")) {
        attr.parse_nested_meta(|meta| {
            is_packed |= meta.path.is_ident("packed");
            // The number of `packed(2)` or `align(8)`.
            if meta.input.peek(syn::token::Paren) {
                meta.input.parse::<Group>()?;
            }
            Ok(())
        })?;
    }
    Ok(is_packed)
}

/// The members of a struct or of a variant.
struct Part {
    /// The pattern that takes them apart.
    pattern: TokenStream,
    /// The code that encodes them and returns the result.
    put: TokenStream,
    /// The code that decodes them, after the name of the struct or variant.
    get: TokenStream,
    /// Names and layouts, as pairs.
    layout: TokenStream,
}

/// The names of a pod's members, and the functions that describe their types, as pairs. A member is
/// byte-copyable, and perhaps nothing else. An attribute sees members, too, that a `cfg` removes.
pub(crate) fn members_of_pod(fields: &Fields, codec: &TokenStream) -> TokenStream {
    let members = fields.iter().zip(fields.members()).map(|(field, member)| {
        let (text, ty) = (text_of(&member), &field.ty);
        let cfgs = field
            .attrs
            .iter()
            .filter(|attr| attr.path().is_ident("cfg"));
        quote!(#(#cfgs)* (#text, {
            use #codec::PlainMember as _;
            #codec::MemberOf::<#ty>::part
        }))
    });
    quote!(&[#(#members),*])
}

/// A member's name; empty for one of a tuple.
fn text_of(member: &Member) -> String {
    match member {
        Member::Named(name) => name.unraw().to_string(),
        Member::Unnamed(_) => String::new(),
    }
}

impl Part {
    /// Nobody may refer to a member of a packed struct, so each one is copied.
    fn of_struct(
        input: &DeriveInput,
        fields: &Fields,
        codec: &TokenStream,
        itself: &TokenStream,
    ) -> Result<Self> {
        let mut part = Self::of(fields, codec, itself);
        if is_packed(input)? {
            let types = fields.iter().map(|field| field.ty.to_token_stream());
            let types = types.map(|ty| named(ty, itself));
            let members = fields.members();
            part.pattern = quote!({ .. });
            part.put = quote! {
                #(pgas_out.put::<#types>(&{ pgas_value.#members })?;)*
                ::core::result::Result::Ok(())
            };
        }
        Ok(part)
    }

    fn of(fields: &Fields, codec: &TokenStream, itself: &TokenStream) -> Self {
        let members: Vec<Member> = fields.members().collect();
        let n = members.len();
        let names: Vec<Ident> = (0..n).map(|i| format_ident!("pgas_member_{i}")).collect();
        let types = fields.iter().map(|field| field.ty.to_token_stream());
        let types: Vec<_> = types.map(|ty| named(ty, itself)).collect();
        let texts = members.iter().map(text_of);
        Self {
            pattern: quote!({ #(#members: #names,)* }),
            put: quote!(#(pgas_out.put::<#types>(#names)?;)* ::core::result::Result::Ok(())),
            get: quote!({ #(#members: pgas_input.get::<#types>()?,)* }),
            layout: quote!(&[#((#texts, #codec::Layout::part::<#types>)),*]),
        }
    }
}

/// Replaces `Self` by the type's name: within the functions `Self` is the codec.
fn named(ty: TokenStream, itself: &TokenStream) -> TokenStream {
    let tokens = ty.into_iter().map(|token| match token {
        TokenTree::Ident(ident) if ident == "Self" => itself.clone(),
        TokenTree::Group(group) => {
            let within = named(group.stream(), itself);
            TokenTree::Group(Group::new(group.delimiter(), within)).into()
        }
        token => token.into(),
    });
    tokens.collect()
}
