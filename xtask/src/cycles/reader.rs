//! Reads the sources of a crate: names, imports and uses, module by module.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprLit, Ident, ImplItem, Item, ItemMod, ItemUse, Lit, Macro, Meta, Token, UseTree, Visibility,
};

/// Returns the used files and items for each file of a crate.
pub fn uses(root: &Path, text: &dyn Fn(&Path) -> Option<String>) -> Result<Uses> {
    let mut reader = Reader {
        text,
        pending: vec![(root.to_owned(), 0)],
        modules: vec![Module::default()],
        mentions: HashSet::new(),
        file: PathBuf::new(),
        children: PathBuf::new(),
        module: 0,
        result: Ok(()),
    };
    let mut uses = Uses::new();
    while let Some((file, module)) = reader.pending.pop() {
        let syntax = text(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let syntax = syn::parse_file(&syntax).with_context(|| format!("cannot parse {}", file.display()))?;
        let is_in_its_folder = file == root || file.ends_with("mod.rs");
        reader.children = if is_in_its_folder { file.with_file_name("") } else { file.with_extension("") };
        reader.module = module;
        reader.modules[module].files.insert(file.clone());
        uses.insert(file.clone(), BTreeMap::new());
        reader.file = file;
        reader.visit_file(&syntax);
        mem::replace(&mut reader.result, Ok(()))?;
    }
    for Mention { file, module, path, is_import } in &reader.mentions {
        let targets = |length| reader.resolve(*module, &path[..length], &mut HashSet::new());
        let all = targets(path.len());
        // Skip names that the file defines itself, because a module's files for other systems define the same names.
        // Skip an import of a module: mentions of the module in the code show the used items.
        if all.contains(&Target::Item(file.clone())) || *is_import && all.iter().any(Target::is_module) {
            continue;
        }
        for target in &all {
            if let Target::Item(used) = target {
                let is_item = |found: BTreeSet<Target>| found.contains(target) && !found.iter().any(Target::is_module);
                let item = (1..=path.len()).find(|length| is_item(targets(*length))).unwrap_or(path.len());
                let names = uses.entry(file.clone()).or_default().entry(used.clone()).or_default();
                names.insert(path[item - 1].clone());
            }
        }
    }
    Ok(uses)
}

/// The used files and items of each file.
pub type Uses = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

struct Reader<'a> {
    text: &'a dyn Fn(&Path) -> Option<String>,
    /// Files to read, with their modules.
    pending: Vec<(PathBuf, usize)>,
    /// All modules; the first is the crate's root.
    modules: Vec<Module>,
    mentions: HashSet<Mention>,
    /// The file and the module being read, and the folder of the module's children.
    file: PathBuf,
    module: usize,
    children: PathBuf,
    result: Result<()>,
}

/// A path in the code of a file, from the scope of a module.
#[derive(PartialEq, Eq, Hash)]
struct Mention {
    file: PathBuf,
    module: usize,
    path: Vec<String>,
    is_import: bool,
}

#[derive(Default)]
struct Module {
    parent: usize,
    /// The module's files; several if systems have separate files.
    files: BTreeSet<PathBuf>,
    names: HashMap<String, Vec<Name>>,
    globs: Vec<Vec<String>>,
}

/// The meaning of a name in a module. A name has several meanings if they differ by system or by kind.
enum Name {
    Defined(Target),
    Imported(Vec<String>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(usize),
    /// An item, identified by the file that defines it.
    Item(PathBuf),
}

impl Target {
    fn is_module(&self) -> bool {
        matches!(self, Self::Module(_))
    }
}

impl Reader<'_> {
    /// Returns the targets of a path; empty if the path leads out of the crate. `open` has the names being resolved.
    fn resolve(&self, scope: usize, path: &[String], open: &mut HashSet<(usize, String)>) -> BTreeSet<Target> {
        let mut targets = BTreeSet::from([Target::Module(scope)]);
        for (at, name) in path.iter().enumerate() {
            // A module and a function may share a name; further segments belong to the module.
            if !targets.iter().any(Target::is_module) {
                break;
            }
            for target in mem::take(&mut targets) {
                let Target::Module(id) = target else { continue };
                let files = self.modules[id].files.iter().cloned().map(Target::Item);
                match name.as_str() {
                    "crate" => targets.extend([Target::Module(0)]),
                    "self" => targets.extend([Target::Module(id)]),
                    "super" => targets.extend([Target::Module(self.modules[id].parent)]),
                    "*" => targets.extend(files),
                    _ => match self.look_up(id, name, open) {
                        Some(found) => targets.extend(found),
                        None if at > 0 => targets.extend(files),
                        None => {}
                    },
                }
            }
        }
        targets
    }

    /// Returns the targets of a name in a module; `None` if the module does not have the name.
    fn look_up(&self, id: usize, name: &str, open: &mut HashSet<(usize, String)>) -> Option<BTreeSet<Target>> {
        let module = &self.modules[id];
        let is_followed = open.insert((id, name.to_owned()));
        let mut found = None;
        for meaning in module.names.get(name).into_iter().flatten() {
            let targets: &mut BTreeSet<Target> = found.get_or_insert_default();
            match meaning {
                Name::Defined(target) => targets.extend([target.clone()]),
                Name::Imported(path) if is_followed => targets.extend(self.resolve(id, path, open)),
                Name::Imported(_) => {}
            }
        }
        if found.is_none() && is_followed {
            for target in module.globs.iter().flat_map(|glob| self.resolve(id, glob, open)).collect::<Vec<_>>() {
                if let Target::Module(globbed) = target
                    && let Some(targets) = self.look_up(globbed, name, open)
                {
                    found.get_or_insert_default().extend(targets);
                }
            }
        }
        if is_followed {
            open.remove(&(id, name.to_owned()));
        }
        // A macro is also visible in the child modules of its module.
        if found.is_none() && name.ends_with('!') && id != 0 {
            return self.look_up(module.parent, name, open);
        }
        found
    }

    fn define(&mut self, name: &str, module: usize, target: Target) {
        self.modules[module].names.entry(name.to_owned()).or_default().push(Name::Defined(target));
    }

    fn mention(&mut self, path: Vec<String>, is_import: bool) {
        self.mentions.insert(Mention { file: self.file.clone(), module: self.module, path, is_import });
    }

    /// Returns the child module with this name in the current module; creates it if necessary.
    fn child(&mut self, name: &str) -> usize {
        for meaning in self.modules[self.module].names.get(name).into_iter().flatten() {
            if let Name::Defined(Target::Module(id)) = meaning {
                return *id;
            }
        }
        self.modules.push(Module { parent: self.module, ..Module::default() });
        self.define(name, self.module, Target::Module(self.modules.len() - 1));
        self.modules.len() - 1
    }

    /// Queues the files of a module for reading.
    fn find_files(&mut self, item: &ItemMod) -> Result<()> {
        let name = item.ident.to_string();
        let (always, sometimes) = named_files(&item.attrs);
        let mut files: Vec<PathBuf> =
            always.iter().chain(&sometimes).map(|path| self.file.with_file_name(path)).collect();
        if always.is_empty() {
            files.push(self.children.join(format!("{name}.rs")));
            files.push(self.children.join(&name).join("mod.rs"));
        }
        files.retain(|file| (self.text)(file).is_some());
        if files.is_empty() {
            bail!("cannot find the file of module `{name}`, which {} declares", self.file.display());
        }
        let id = self.child(&name);
        self.pending.extend(files.into_iter().map(|file| (file, id)));
        Ok(())
    }

    /// Finds the paths in the arguments of a macro or an attribute.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens.into_iter().map(Some).chain([None]) {
            match token {
                Some(TokenTree::Punct(punct)) if punct.as_char() == ':' => colons += 1,
                Some(TokenTree::Ident(word)) if colons == 2 => {
                    path.push(word.to_string());
                    colons = 0;
                }
                token => {
                    self.mention(mem::take(&mut path), false);
                    colons = 0;
                    match token {
                        Some(TokenTree::Ident(word)) => path.push(word.to_string()),
                        Some(TokenTree::Group(group)) => self.tokens(group.stream()),
                        // A path in a string, as in serde's `deserialize_with = "crate::module::function"`.
                        Some(TokenTree::Literal(text)) => {
                            let path = syn::parse_str::<syn::Path>(text.to_string().trim_matches('"'));
                            let path = path.iter().flat_map(segments).collect::<Vec<_>>();
                            self.mention(if path.len() > 1 { path } else { Vec::new() }, false);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = attributes_and_name(item);
        if !is_test(attributes) {
            if let Some(name) = name {
                self.define(&name.to_string(), self.module, Target::Item(self.file.clone()));
                if matches!(item, Item::Macro(_)) {
                    self.define(&format!("{name}!"), self.module, Target::Item(self.file.clone()));
                    if attributes.iter().any(|it| it.path().is_ident("macro_export")) {
                        self.define(&name.to_string(), 0, Target::Item(self.file.clone()));
                    }
                }
            }
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !matches!(item, ImplItem::Fn(function) if is_test(&function.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.content.is_none() {
            let result = self.find_files(item);
            self.result = mem::replace(&mut self.result, Ok(())).and(result);
            return;
        }
        let name = item.ident.to_string();
        let child = self.child(&name);
        self.modules[child].files.insert(self.file.clone());
        let module = mem::replace(&mut self.module, child);
        self.children.push(&name);
        visit::visit_item_mod(self, item);
        self.children.pop();
        self.module = module;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_private = matches!(item.vis, Visibility::Inherited);
        for (mut path, name) in imports(&item.tree) {
            match name {
                Some(name) => {
                    let meaning = Name::Imported(path.clone());
                    self.modules[self.module].names.entry(name).or_default().push(meaning);
                }
                None => {
                    self.modules[self.module].globs.push(path.clone());
                    path.push("*".to_owned());
                }
            }
            if is_private {
                self.mention(path, true);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention(segments(path).collect(), false);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        if let Some(name) = item.path.get_ident() {
            self.mention(vec![format!("{name}!")], false);
        }
        self.mention(segments(&item.path).collect(), false);
        self.tokens(item.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }
}

fn segments(path: &syn::Path) -> impl Iterator<Item = String> {
    path.segments.iter().map(|segment| segment.ident.to_string())
}

/// Returns each imported path with its name in the importing module; `None` for a glob.
fn imports(tree: &UseTree) -> Vec<(Vec<String>, Option<String>)> {
    match tree {
        UseTree::Path(tree) => {
            let first = tree.ident.to_string();
            let mut found = imports(&tree.tree);
            for (path, name) in &mut found {
                path.insert(0, first.clone());
                if name.as_deref() == Some("self") {
                    *name = Some(first.clone());
                }
            }
            found
        }
        UseTree::Group(group) => group.items.iter().flat_map(imports).collect(),
        UseTree::Name(tree) => vec![(vec![tree.ident.to_string()], Some(tree.ident.to_string()))],
        UseTree::Rename(tree) => vec![(vec![tree.ident.to_string()], Some(tree.rename.to_string()))],
        _ => vec![(Vec::new(), None)],
    }
}

/// Returns the files that `#[path]` gives a module: the unconditional and the conditional ones.
fn named_files(attributes: &[Attribute]) -> (Vec<String>, Vec<String>) {
    fn file(meta: &Meta) -> Option<String> {
        let Meta::NameValue(pair) = meta else { return None };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
        pair.path.is_ident("path").then(|| text.value())
    }
    let conditional = attributes.iter().filter(|it| it.path().is_ident("cfg_attr"));
    let conditional = conditional.filter_map(|it| it.parse_args_with(list_of_metas).ok()).flatten();
    (attributes.iter().filter_map(|it| file(&it.meta)).collect(), conditional.filter_map(|it| file(&it)).collect())
}

fn list_of_metas(input: ParseStream) -> syn::Result<Punctuated<Meta, Token![,]>> {
    Punctuated::parse_terminated(input)
}

/// Returns whether an item exists only in test builds.
fn is_test(attributes: &[Attribute]) -> bool {
    fn requires_test(condition: &Meta) -> bool {
        let Meta::List(list) = condition else { return condition.path().is_ident("test") };
        let Ok(inner) = list.parse_args_with(list_of_metas) else { return false };
        list.path.is_ident("all") && inner.iter().any(requires_test)
            || list.path.is_ident("any") && inner.iter().all(requires_test)
    }
    attributes.iter().any(|it| {
        it.path().is_ident("test") || it.path().is_ident("cfg") && it.parse_args().is_ok_and(|it| requires_test(&it))
    })
}

fn attributes_and_name(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        // The name of a module means a module, not an item.
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}
