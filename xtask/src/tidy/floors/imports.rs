//! The imports between the files of a crate: `use` items, and paths within code and macros.
//! Re-exports are followed, so that a use of an item counts as an import from the file that defines
//! it.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro};

use super::tree::{Id, Tree, imported, is_reexport};
use crate::tidy::sizes::is_test;

/// The first import of one file from another one.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) line: usize,
}

/// The imports of a crate: pairs of modules with files of their own.
pub(super) type Imports = BTreeMap<(Id, Id), Place>;

pub(super) fn of(tree: &Tree<'_>) -> Imports {
    let mut imports = Imports::new();
    for (id, module) in tree.modules.iter().enumerate() {
        for (path, items) in &module.contents {
            let mut reader = Reader {
                tree,
                module: id,
                path,
                imports: &mut imports,
            };
            for item in *items {
                // An inline module is read by itself.
                if !matches!(item, Item::Mod(_)) {
                    reader.visit_item(item);
                }
            }
        }
    }
    imports
}

struct Reader<'a, 't> {
    tree: &'a Tree<'t>,
    module: Id,
    path: &'a str,
    imports: &'a mut Imports,
}

impl Reader<'_, '_> {
    fn add(&mut self, path: &[String], line: usize) {
        let Some(definer) = self.tree.definer(self.module, path) else {
            return;
        };
        let modules = &self.tree.modules;
        let (from, to) = (modules[self.module].file, modules[definer].file);
        if from != to {
            self.imports.entry((from, to)).or_insert_with(|| Place {
                path: self.path.to_owned(),
                line,
            });
        }
    }

    /// Paths among the tokens of a macro, which have no syntax yet.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        path.clear();
                    }
                    colons = 0;
                    path.push(name.to_string());
                    self.add(&path, name.span().start().line);
                }
                other => {
                    path.clear();
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_, '_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_reexport(item) {
            for (_, path) in imported(&item.tree) {
                self.add(&path, item.span().start().line);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if path.leading_colon.is_none() {
            self.add(&segments, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.visit_path(&item.path);
        self.tokens(item.tokens.clone());
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
