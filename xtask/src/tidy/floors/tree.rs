//! The modules of a crate: their files, their contents, and the resolution of paths.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMacro, ItemMod, ItemUse, Meta, UseTree, Visibility};

use crate::tidy::sizes::is_test;
use crate::tidy::source::Source;

/// A module, by its place in [`Tree::modules`].
pub(super) type Id = usize;

/// The crate's root.
pub(super) const ROOT: Id = 0;

/// One module with a file of its own, or one inside of another module's file.
pub(super) struct Module<'a> {
    /// Its path within the crate, without `crate`.
    path: Vec<String>,
    /// The module whose file holds it: itself, unless it is an inline module.
    pub(super) file: Id,
    parent: Id,
    children: BTreeMap<String, Id>,
    /// The names that its `use` items bring in, each with the path that it stands for.
    imports: BTreeMap<String, Vec<String>>,
    /// Its items, and those of a twin that other systems compile.
    pub(super) contents: Vec<(&'a str, &'a [Item])>,
}

/// The modules of one crate, tests left out.
pub(super) struct Tree<'a> {
    pub(super) modules: Vec<Module<'a>>,
}

impl<'a> Tree<'a> {
    /// Reads the modules of the crate whose root is the file `root`.
    pub(super) fn of(root: &str, sources: &'a [Source]) -> Self {
        let mut tree = Self {
            modules: vec![Module::new(Vec::new(), ROOT, ROOT)],
        };
        tree.read_file(ROOT, root, sources);
        tree
    }

    fn read_file(&mut self, id: Id, path: &str, sources: &'a [Source]) {
        if let Some(source) = sources.iter().find(|source| source.path == path) {
            self.read_items(id, &source.path, &source.syntax.items, sources);
        }
    }

    fn read_items(&mut self, id: Id, path: &'a str, items: &'a [Item], sources: &'a [Source]) {
        self.modules[id].contents.push((path, items));
        for item in items {
            match item {
                Item::Mod(item) if !is_test(&item.attrs) => {
                    self.read_module(id, path, item, sources);
                }
                Item::Mod(_) => {}
                Item::Macro(item)
                    if item
                        .attrs
                        .iter()
                        .any(|attr| attr.path().is_ident("macro_export")) =>
                {
                    self.export(id, item);
                }
                item => self.modules[id].visit_item(item),
            }
        }
    }

    /// An exported macro is named as an item of the root, and belongs to the module that defines
    /// it.
    fn export(&mut self, id: Id, item: &ItemMacro) {
        let Some(name) = item.ident.as_ref().map(ToString::to_string) else {
            return;
        };
        let root = "crate".to_owned();
        let path = self.modules[id].path.iter().cloned();
        let path = [root].into_iter().chain(path).chain([name.clone()]);
        let path = path.collect();
        self.modules[ROOT].imports.insert(name, path);
    }

    fn read_module(&mut self, id: Id, path: &'a str, item: &'a ItemMod, sources: &'a [Source]) {
        let child = self.child(id, &item.ident.to_string(), item.content.is_some());
        match &item.content {
            Some((_, items)) => self.read_items(child, path, items, sources),
            None => {
                for file in files_of(path, item) {
                    self.read_file(child, &file, sources);
                }
            }
        }
    }

    /// The child `name` of a module, made if it is not there yet.
    fn child(&mut self, parent: Id, name: &str, is_inline: bool) -> Id {
        if let Some(&child) = self.modules[parent].children.get(name) {
            return child;
        }
        let id = self.modules.len();
        let mut path = self.modules[parent].path.clone();
        path.push(name.to_owned());
        let file = if is_inline {
            self.modules[parent].file
        } else {
            id
        };
        self.modules.push(Module::new(path, file, parent));
        self.modules[parent].children.insert(name.to_owned(), id);
        id
    }

    /// The modules of the root.
    pub(super) fn tops(&self) -> impl Iterator<Item = &str> {
        self.modules[ROOT].children.keys().map(String::as_str)
    }

    /// The module of the root that holds this one; nothing for the root.
    pub(super) fn top_of(&self, id: Id) -> Option<&str> {
        self.modules[id].path.first().map(String::as_str)
    }

    /// The name of a module in findings.
    pub(super) fn name_of(&self, id: Id) -> String {
        match self.modules[id].path.as_slice() {
            [] => "the root".to_owned(),
            path => path.join("::"),
        }
    }

    /// The module that defines what `path` names in module `from`. Nothing if that is a module, or
    /// not of this crate.
    pub(super) fn definer(&self, from: Id, path: &[String]) -> Option<Id> {
        self.follow(from, path, MAX_REEXPORTS)
    }

    fn follow(&self, from: Id, path: &[String], depth: usize) -> Option<Id> {
        let (first, rest) = path.split_first()?;
        let here = &self.modules[from];
        match first.as_str() {
            "crate" => self.descend(ROOT, rest, depth),
            "self" => self.descend(from, rest, depth),
            "super" if rest.first().is_some_and(|next| next == "super") => {
                self.follow(here.parent, rest, depth)
            }
            "super" => self.descend(here.parent, rest, depth),
            name => match here.children.get(name) {
                Some(&child) => self.descend(child, rest, depth),
                None => self.through_import(from, path, depth)?,
            },
        }
    }

    /// Resolves `path`, whose first segment is a name in module `at`.
    fn descend(&self, at: Id, path: &[String], depth: usize) -> Option<Id> {
        let (first, rest) = path.split_first()?;
        if let Some(&child) = self.modules[at].children.get(first) {
            return self.descend(child, rest, depth);
        }
        self.through_import(at, path, depth).unwrap_or(Some(at))
    }

    /// Resolves `path` if its first segment is imported in module `at`.
    fn through_import(&self, at: Id, path: &[String], depth: usize) -> Option<Option<Id>> {
        let (first, rest) = path.split_first()?;
        let target = self.modules[at].imports.get(first)?;
        if depth == 0 || target.as_slice() == [first.clone()] {
            return Some(Some(at));
        }
        let whole: Vec<String> = target.iter().chain(rest).cloned().collect();
        Some(self.follow(at, &whole, depth - 1))
    }
}

/// More re-exports than this on the way to an item are a circle of them.
const MAX_REEXPORTS: usize = 16;

impl Module<'_> {
    fn new(path: Vec<String>, file: Id, parent: Id) -> Self {
        Self {
            path,
            file,
            parent,
            children: BTreeMap::new(),
            imports: BTreeMap::new(),
            contents: Vec::new(),
        }
    }
}

/// An import within one function counts as an import of its module.
impl<'ast> Visit<'ast> for Module<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            self.imports.extend(imported(&item.tree));
        }
    }
}

/// Whether others may name what this `use` brings in, through the module that it stands in.
pub(super) fn is_reexport(item: &ItemUse) -> bool {
    !matches!(item.vis, Visibility::Inherited)
}

/// The names that a tree of imports brings in, with their paths.
pub(super) fn imported(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    collect(tree, &mut Vec::new(), &mut found);
    found
}

fn collect(tree: &UseTree, prefix: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let mut add = |name: String, last: &str| {
        let mut path = prefix.clone();
        if last != "self" {
            path.push(last.to_owned());
        }
        found.push((name, path));
    };
    match tree {
        UseTree::Name(name) => {
            let last = name.ident.to_string();
            let shown = match prefix.last() {
                Some(module) if last == "self" => module.clone(),
                _ => last.clone(),
            };
            add(shown, &last);
        }
        UseTree::Rename(name) => add(name.rename.to_string(), &name.ident.to_string()),
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            collect(&path.tree, prefix, found);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                collect(tree, prefix, found);
            }
        }
        UseTree::Glob(_) => {}
    }
}

/// The files that may hold the module which `item` declares in file `path`: the one that attributes
/// name, and the usual ones.
fn files_of(path: &str, item: &ItemMod) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let name = item.ident.to_string();
    let inside = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    let mut files = vec![
        format!("{inside}/{name}.rs"),
        format!("{inside}/{name}/mod.rs"),
    ];
    for named in item.attrs.iter().filter_map(named_file) {
        files.push(format!("{folder}/{named}"));
    }
    files
}

/// The file of an attribute `path = "..."`, also within `cfg_attr`.
fn named_file(attr: &Attribute) -> Option<String> {
    match &attr.meta {
        Meta::NameValue(meta) if meta.path.is_ident("path") => match &meta.value {
            syn::Expr::Lit(lit) => match &lit.lit {
                syn::Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        Meta::List(list) if list.path.is_ident("cfg_attr") => path_among(list.tokens.clone()),
        _ => None,
    }
}

fn path_among(tokens: TokenStream) -> Option<String> {
    let mut tokens = tokens.into_iter();
    tokens.find(|token| matches!(token, TokenTree::Ident(name) if name == "path"))?;
    match tokens.nth(1)? {
        TokenTree::Literal(text) => Some(text.to_string().trim_matches('"').to_owned()),
        _ => None,
    }
}
