//! Every public function, type and trait of the crates that programs use has an example: of its
//! own, or one on the page of its type that shows it by name.
//!
//! A page is that of a type or trait: its docs, and those of all its impls and methods. A method is
//! shown by an example of its page, or of its module's; a type or a free function by one anywhere
//! in its crate, in the README or in the guide, and a type, which programs seldom name, also by
//! what is shown and has it as an argument, a result, a bound or a field. A page that says "See"
//! and has a link to another one has the examples of that one, and one that says "None: " and why
//! has no need of any. Lines that rustdoc hides show nothing, and neither does code that is not
//! compiled.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, ImplItem, ImplItemFn, Item, ItemEnum, ItemFn, ItemImpl, ItemMod, ItemStruct,
    ItemTrait, PathSegment, TraitItem, Type, Visibility,
};

use super::Finding;
use super::docs::docs;
use super::source::Source;

/// The crates that programs use.
///
/// Others have no page that a program's author reads: transports and their parts, of which a
/// program names `init` at most, the programs `pgas-run`, `pgas-report` and the simulator, and the
/// derives, which the traits' pages show.
const CRATES: &[&str] = &[
    "src/",
    "crates/am/src/",
    "crates/backend-smp/src/",
    "crates/containers/src/",
    "crates/core/src/",
];

/// Files and folders of these crates whose items have no example, and why.
const WITHOUT: &[(&str, &str)] = &[
    (
        "crates/am/src/codec/",
        "what derives and containers call; `Wire` and `codec` have the examples for programs",
    ),
    (
        "crates/backend-smp/src/attach.rs",
        "for launchers and the other transports",
    ),
    ("crates/backend-smp/src/doorbell/", "for models"),
    (
        "crates/backend-smp/src/launcher/",
        "the launcher's own parts, for `pgas-run`",
    ),
    (
        "crates/backend-smp/src/member.rs",
        "for the other transports, which have one for each host",
    ),
    ("crates/backend-smp/src/observer.rs", "for `pgas-run top`"),
    (
        "crates/backend-smp/src/segment/",
        "for launchers and the other transports",
    ),
    (
        "crates/containers/src/object/derived.rs",
        "what the derive of `Object` calls",
    ),
    (
        "crates/containers/src/object/encoded.rs",
        "what slots hold, which containers make",
    ),
    (
        "crates/containers/src/object/parts.rs",
        "what slots hold, which containers make",
    ),
    (
        "crates/containers/src/object/repr.rs",
        "a sealed trait, which containers call",
    ),
    ("crates/core/src/backend/call.rs", CONTRACT),
    ("crates/core/src/backend/collectives.rs", CONTRACT),
    ("crates/core/src/backend/message.rs", CONTRACT),
    ("crates/core/src/backend/mod.rs", CONTRACT),
    ("crates/core/src/backend/operand.rs", CONTRACT),
    ("crates/core/src/backend/operation.rs", CONTRACT),
    ("crates/core/src/raw/", "for the shared-memory transport"),
    (
        "crates/core/src/collective/encoded.rs",
        "how collectives move values, which `pgas_am::Wire` says",
    ),
    (
        "crates/core/src/in_place.rs",
        "for message layers: `pgas_am::ActiveMessages::prepare` is what programs call",
    ),
    ("crates/core/src/lookout.rs", "for transports"),
    (
        "crates/core/src/messages.rs",
        "for message layers: `pgas_am::ActiveMessages` is what programs call",
    ),
    (
        "crates/core/src/notice.rs",
        "for transports and layers, which have something to tell",
    ),
    (
        "crates/core/src/process.rs",
        "for transports whose ranks are processes or threads",
    ),
    (
        "crates/core/src/rma/near.rs",
        "for containers, which check bounds once for many accesses",
    ),
    ("crates/core/src/rma/words.rs", "as `near.rs`"),
    ("crates/core/src/stats/board.rs", "for transports"),
    (
        "crates/core/src/stats/json.rs",
        "for `pgas-report`; `PGAS_STATS` is what programs set",
    ),
    (
        "crates/core/src/stats/live.rs",
        "what a rank tells `pgas-run top`",
    ),
    (
        "crates/core/src/stats/report.rs",
        "for `pgas-report`; `PGAS_STATS` is what programs set",
    ),
    (
        "crates/core/src/tasks.rs",
        "for message layers: `pgas_am::LocalCalls::spawn` is what programs call",
    ),
    ("crates/core/src/trace/", "for `pgas-report`"),
];

const CONTRACT: &str =
    "the contract of transports, which programs do not call: `docs/adding-a-backend.md`";

/// The path of this file, for findings about the table.
const HERE: &str = "xtask/src/tidy/examples.rs";

/// What has no example. `guide` has the texts beside the sources whose examples count.
pub(super) fn check(sources: &[Source], guide: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_guide = |path: &str| path.starts_with("docs/guide/") || path == "README.md";
    let guide = guide.iter().filter(|(path, _)| is_guide(path));
    let guide: String = guide.map(|(_, text)| shown(text)).collect();
    for (path, _) in WITHOUT {
        if !sources.iter().any(|source| source.path.starts_with(path)) {
            let message = format!("a table names {path}, which does not exist");
            findings.push(Finding::in_file(HERE, message));
        }
    }
    for folder in CRATES {
        let of_crate: Vec<&Source> = in_folder(sources, folder).collect();
        if of_crate.is_empty() {
            let message = format!("a table names {folder}, which does not exist");
            findings.push(Finding::in_file(HERE, message));
        }
        findings.extend(without_example(&of_crate, &guide));
    }
    findings
}

fn in_folder<'s>(sources: &'s [Source], folder: &str) -> impl Iterator<Item = &'s Source> {
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs");
    let folder = folder.to_owned();
    let all = sources.iter();
    all.filter(move |source| source.path.starts_with(&folder) && !is_test(&source.path))
}

fn without_example(sources: &[&Source], guide: &str) -> Vec<Finding> {
    let mut pages = Pages::default();
    for source in sources {
        pages.path.clone_from(&source.path);
        let of_module = shown(&super::docs::module_docs(source));
        pages.all += &of_module;
        pages.modules.insert(source.path.clone(), of_module);
        pages.visit_file(&source.syntax);
    }
    let Pages {
        items,
        pages,
        see,
        without,
        modules,
        all,
        ..
    } = pages;
    let anywhere = all + guide;
    let is_shown = |item: &&PublicItem| match &item.page {
        _ if item.has_own => true,
        Some(page) if without.contains(page) => true,
        Some(page) => {
            let page = see.get(page).unwrap_or(page);
            let code = [pages.get(page), modules.get(&item.path)];
            let mut code = code.into_iter().flatten();
            code.any(|code| names_method(code, &item.name))
        }
        None => names(&anywhere, &item.name),
    };
    let (shown, others): (Vec<_>, Vec<_>) = items.iter().partition(is_shown);
    let used: BTreeSet<&String> = shown.iter().flat_map(|item| &item.uses).collect();
    let is_exempt = |path: &str| WITHOUT.iter().any(|(without, _)| path.starts_with(without));
    let missing = others.into_iter().filter(|item| {
        let is_used = item.is_type && used.contains(&item.name);
        !is_used && !is_exempt(&item.path)
    });
    let finding = |item: &PublicItem| {
        let of = item
            .page
            .as_ref()
            .map_or(String::new(), |page| format!("{page}::"));
        let message = format!("`{of}{}` has no example that shows it", item.name);
        Finding::at(&item.path, item.line, message)
    };
    missing.map(finding).collect()
}

/// A public function, type or trait.
#[derive(Debug)]
struct PublicItem {
    path: String,
    line: usize,
    name: String,
    /// The type or trait that it is a method of.
    page: Option<String>,
    /// Whether its own docs have an example, or say where it is.
    has_own: bool,
    is_type: bool,
    /// The names in its signature, or in its fields.
    uses: BTreeSet<String>,
}

/// The names of types, traits and modules in a piece of syntax.
#[derive(Default)]
struct Uses(BTreeSet<String>);

impl<'ast> Visit<'ast> for Uses {
    fn visit_path_segment(&mut self, segment: &'ast PathSegment) {
        self.0.insert(segment.ident.to_string());
        visit::visit_path_segment(self, segment);
    }

    fn visit_block(&mut self, _: &'ast Block) {}
}

fn uses(look: impl FnOnce(&mut Uses)) -> BTreeSet<String> {
    let mut uses = Uses::default();
    look(&mut uses);
    uses.0
}

/// The public items of a crate, and the examples of its pages.
#[derive(Debug, Default)]
struct Pages {
    path: String,
    items: Vec<PublicItem>,
    /// The code that the examples of each type or trait show.
    pages: BTreeMap<String, String>,
    /// The code that the docs of each file show.
    modules: BTreeMap<String, String>,
    /// The pages that have the examples of others.
    see: BTreeMap<String, String>,
    /// The pages that say why they have no examples.
    without: BTreeSet<String>,
    /// The code that all examples show.
    all: String,
}

impl Pages {
    /// Adds an item, if it `is_public`, and its example to its page and to those of the crate.
    fn add(
        &mut self,
        (name, is_public): (&syn::Ident, bool),
        page: Option<&str>,
        attrs: &[Attribute],
        (is_type, uses): (bool, BTreeSet<String>),
    ) {
        let text = docs(attrs);
        let code = shown(&text);
        let own = name.to_string();
        if let (None, Some((_, rest))) = (page, text.split_once("# Examples\n\n See [`"))
            && let Some((other, _)) = rest.split_once('`')
        {
            self.see.insert(own.clone(), other.to_owned());
        }
        if page.is_none() && text.contains("# Examples\n\n None: ") {
            self.without.insert(own.clone());
        }
        let of_page = self
            .pages
            .entry(page.unwrap_or(&own).to_owned())
            .or_default();
        *of_page += &code;
        self.all += &code;
        let is_hidden = attrs.iter().any(|attr| {
            attr.path().is_ident("doc")
                && attr
                    .parse_args::<syn::Ident>()
                    .is_ok_and(|it| it == "hidden")
        });
        if is_public && !is_hidden {
            self.items.push(PublicItem {
                path: self.path.clone(),
                line: name.span().start().line,
                name: own,
                page: page.map(str::to_owned),
                has_own: !code.is_empty() || text.contains("# Examples"),
                is_type,
                uses,
            });
        }
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

impl<'ast> Visit<'ast> for Pages {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        let uses = uses(|uses| uses.visit_signature(&item.sig));
        let name = (&item.sig.ident, is_public(&item.vis));
        self.add(name, None, &item.attrs, (false, uses));
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let uses = uses(|uses| uses.visit_fields(&item.fields));
        let name = (&item.ident, is_public(&item.vis));
        self.add(name, None, &item.attrs, (true, uses));
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        let fields = item.variants.iter().map(|variant| &variant.fields);
        let uses = uses(|uses| fields.for_each(|fields| uses.visit_fields(fields)));
        let name = (&item.ident, is_public(&item.vis));
        self.add(name, None, &item.attrs, (true, uses));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let is_public = is_public(&item.vis);
        let of_trait = uses(|uses| uses.visit_item_trait(item));
        self.add(
            (&item.ident, is_public),
            None,
            &item.attrs,
            (true, of_trait),
        );
        let page = item.ident.to_string();
        for inner in &item.items {
            if let TraitItem::Fn(function) = inner {
                let name = (&function.sig.ident, is_public);
                let uses = uses(|uses| uses.visit_signature(&function.sig));
                self.add(name, Some(&page), &function.attrs, (false, uses));
            }
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let Some(page) = self_type(&item.self_ty) else {
            return;
        };
        let code = shown(&docs(&item.attrs));
        *self.pages.entry(page.clone()).or_default() += &code;
        self.all += &code;
        for inner in &item.items {
            if let ImplItem::Fn(ImplItemFn {
                vis, sig, attrs, ..
            }) = inner
            {
                let is_public = item.trait_.is_none() && is_public(vis);
                let uses = uses(|uses| uses.visit_signature(sig));
                let name = (&sig.ident, is_public);
                self.add(name, Some(&page), attrs, (false, uses));
            }
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let is_sealed = item.ident == "sealed";
        if !is_sealed && !super::sizes::is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item(&mut self, item: &'ast Item) {
        // Items within functions are nobody's.
        match item {
            Item::Fn(_)
            | Item::Struct(_)
            | Item::Enum(_)
            | Item::Trait(_)
            | Item::Impl(_)
            | Item::Mod(_) => visit::visit_item(self, item),
            _ => {}
        }
    }
}

/// The name of the type that an impl is of.
fn self_type(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        Type::Reference(reference) => self_type(&reference.elem),
        _ => None,
    }
}

/// The code of the examples in a text that readers see, if it is compiled and meant to work.
fn shown(text: &str) -> String {
    let (mut code, mut within) = (String::new(), None);
    for line in text.lines() {
        let line = line.strip_prefix(' ').unwrap_or(line);
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            within = match within {
                Some(_) => None,
                None => Some(
                    kind.split(',')
                        .all(|word| matches!(word.trim(), "" | "rust" | "no_run" | "should_panic")),
                ),
            };
            continue;
        }
        let is_hidden = line.trim_start().starts_with("# ");
        if within == Some(true) && !is_hidden {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Whether the code has the name as a word.
fn names(code: &str, name: &str) -> bool {
    places(code, name).next().is_some()
}

/// Whether the code has the name as that of a method or of a function of a type, called or written
/// for a trait.
fn names_method(code: &str, name: &str) -> bool {
    let before = [".", "::", "    fn "];
    places(code, name).any(|at| before.iter().any(|before| code[..at].ends_with(before)))
}

/// Where the code has the name as a word.
fn places<'c>(code: &'c str, name: &'c str) -> impl Iterator<Item = usize> + 'c {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = code[..*at].chars().next_back();
            let after = code[at + name.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(text: &str) -> Vec<String> {
        let source = Source::parse("a.rs", text).unwrap();
        let found = without_example(&[&source], "Guided::default()");
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_method_is_shown_by_any_example_of_its_page_and_by_no_other() {
        let text = "
            //! Docs.
            /// A list.
            ///
            /// ```
            /// let list = List::new();
            /// # list.hidden();
            /// list.push(1);
            /// ```
            pub struct List;
            impl List {
                pub fn new() {}
                pub fn push(&self) {}
                pub fn pop(&self) {}
                pub fn hidden(&self) {}
                pub(crate) fn inner(&self) {}
            }
            /// A loop.
            ///
            /// ```
            /// list.pop();
            /// ```
            impl IntoIterator for List {
                fn into_iter(self) {}
            }
            /// Other.
            ///
            /// ```
            /// other.len();
            /// ```
            pub struct Other;
            impl Other {
                pub fn len(&self) {}
                /// Not here.
                pub fn push(&self) {}
            }
        ";
        let found = missing(text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`List::hidden`"), "{found:?}");
        assert!(found[1].contains("`Other::push`"), "{found:?}");
    }

    #[test]
    fn types_and_functions_are_shown_anywhere_in_the_crate_or_in_the_guide() {
        let text = "
            //! ```
            //! let one = One;
            //! ```
            pub struct One;
            impl One {
                /// ```
                /// One.two();
                /// ```
                pub fn two(&self) -> Result<Result2> {}
            }
            pub struct Two;
            pub struct Result2;
            pub enum Guided {}
            /// ```compile_fail
            /// three();
            /// ```
            pub fn three() {}
            /// ```
            /// let _ = 3;
            /// ```
            pub fn four() {}
            #[doc(hidden)]
            pub fn five() {}
            /// Seven.
            ///
            /// # Examples
            ///
            /// See [`One`].
            pub struct Seven;
            impl Seven {
                pub fn two(&self) {}
            }
            pub trait Six {
                fn six(&self);
            }
            mod sealed { pub trait Sealed {} }
        ";
        let found = missing(text);
        assert_eq!(found.len(), 4, "{found:?}");
        for (found, name) in found
            .iter()
            .zip(["`Two`", "`three`", "`Six`", "`Six::six`"])
        {
            assert!(found.contains(name), "{found}");
        }
    }

    #[test]
    fn a_name_is_a_word() {
        assert!(names("let a = One;", "One"));
        assert!(!names("let a = Ones;", "One"));
        assert!(names_method("a.get(1)", "get"));
        assert!(!names_method("get(1) a.get_nb()", "get"));
    }
}
