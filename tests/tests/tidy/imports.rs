//! Which files of a crate know each other: a circle of imports is either one story, which says so itself,
//! or a known debt.
//!
//! An import of a name that another file only passes on leads to the file that declares it.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, before_test_module, spread, words};
use super::{Tree, none, shows};

/// In the head of a file: what is below it, and what is beside it and adds to its type, may import it back.
const STORY: &str = concat!("//! One story: its files", " know each other.");

/// Circles that are neither cut nor one story: all their files, without the crate's `src`, and why.
const KNOWN: &[(&str, &str)] = &[
    (
        "bench: child, group, grown, latency, options, scenario, server",
        "an order names its scenario, and a scenario starts children with an order",
    ),
    ("bench: measure, sqlite, steady", "the stages are in measure, and what it runs needs them"),
    (
        "bench: work, work/kafka, work/limits, work/loops, work/ours, work/ours_sqlite, work/settle, work/sqlite, work/sqlite_sqlx",
        "the candidates share times and statements, which the list of candidates holds",
    ),
    (
        "inbox-store: postgres/declared, postgres/sent, postgres/session",
        "a session makes the declared functions on itself",
    ),
    ("kafka-kit: client, ffi, trouble", "a callback of C gets the client; the client calls C"),
    (
        "service-kit: database, postgres",
        "an address of PostgreSQL is read for the database, with its rule of TLS",
    ),
    ("outbox-core: cause, outbox_event", "a cause is taken from an event, and an event has one"),
    (
        "outbox-core: read/pointer, read/source",
        "a source is named by pointers, whose errors are its own",
    ),
    (
        "outbox-core: read/reader, read/seen",
        "a reader keeps what it has seen, by the scope that it was given",
    ),
    (
        "outbox-core: store, store/said",
        "what was said of an error includes the grant that is lacking",
    ),
    (
        "outbox-core: store/postgres, store/postgres/notify, store/postgres/schema",
        "the schema asks whether a session keeps statements, and its lock is the trigger's",
    ),
    (
        "outbox-relay: cli, cli/adopt, cli/failed, cli/migrate, cli/run, cli/status",
        "commands take `open` and `refused` from the module that calls them",
    ),
    (
        "tests: drill, drill/blocks, drill/broker, drill/deaths, drill/report, drill/topics",
        "the report has the limit that the cases are played against",
    ),
    (
        "tests: relay_chaos, relay_chaos/check, relay_chaos/check/rules, relay_chaos/fault, relay_chaos/missing, relay_chaos/producers, relay_chaos/report",
        "the plan of a run is known to faults and checker, which it starts",
    ),
    (
        "tests: schema, services, topic",
        "schema and topic take their unique names from the services that hold them",
    ),
];

/// Where each module of a crate is declared: `["store", "claim"]`, and its file.
type Modules<'a> = BTreeMap<Vec<&'a str>, File>;

struct File {
    declared: BTreeSet<String>,
    /// What `use` names, and whether the file passes it on.
    imports: Vec<(String, bool)>,
    /// The words of the code, without `use`.
    words: BTreeSet<String>,
    /// Paths in the code, without `use`.
    inline: Vec<String>,
    tells: bool,
}

impl File {
    fn new(source: &Source) -> Self {
        let mut imports = Vec::new();
        let mut code = String::new();
        let mut behind = before_test_module(&source.code);
        while let Some(at) = start_of_import(behind) {
            let end = behind[at..].find(';').map_or(behind.len(), |end| at + end);
            let line = behind[..at].rfind('\n').map_or(0, |line| line + 1);
            let mut paths = Vec::new();
            spread("", &behind[at + 4..end], &mut paths);
            let passes = behind[line..at].trim_start().starts_with("pub");
            imports.extend(paths.into_iter().map(|path| (path, passes)));
            code.push_str(&behind[..line]);
            behind = &behind[end..];
        }
        code.push_str(behind);
        let part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let inline = code.split(|letter| !part(letter)).filter(|path| path.contains("::"));
        Self {
            declared: source.declared().into_iter().collect(),
            imports,
            words: words(&code).map(str::to_owned).collect(),
            inline: inline.map(str::to_owned).collect(),
            tells: source.text.lines().take_while(|l| l.starts_with("//!")).any(|l| l == STORY),
        }
    }
}

/// Where the next line that imports has its `use `.
fn start_of_import(code: &str) -> Option<usize> {
    code.match_indices("use ").map(|(at, _)| at).find(|&at| {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty()
            || (before.starts_with("pub") && !before.contains(' '))
            || (before.starts_with("pub(in ") && before.ends_with(')'))
    })
}

/// The name under which a path is known in the file that imports it.
fn name(path: &str) -> &str {
    path.rsplit([':', ' ']).next().unwrap_or_default()
}

/// The folder of the crate, and the path of the module in it.
fn place(path: &str) -> Option<(&str, Vec<&str>)> {
    let (member, inside) = path.split_once("/src/")?;
    let mut module: Vec<&str> = inside.strip_suffix(".rs")?.split('/').collect();
    if module.last() == Some(&"mod") || module == ["lib"] || module == ["main"] {
        module.pop();
    }
    Some((member, module))
}

/// The modules of each crate, without those that are tests, or for `cargo xtask ablate` alone: these know each
/// statement, and are known where it is sent.
fn crates(sources: &[Source]) -> BTreeMap<&str, Modules<'_>> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for source in sources {
        // The harness is code like any other, for all that its folder is called `tests`.
        let code = !source.is_test || source.path.starts_with("tests/src/");
        let code = code && !source.path.ends_with("/ablation.rs");
        let Some((member, module)) = place(&source.path).filter(|_| code) else { continue };
        crates.entry(member).or_default().entry(module).or_insert_with(|| File::new(source));
    }
    crates
}

/// Where a path begins, and what of it is left; nothing for a path into another crate.
fn begin<'p>(modules: &Modules<'_>, at: &[&'p str], path: &'p str) -> Option<Vec<&'p str>> {
    let path = path.split(" as ").next().unwrap_or_default();
    let parts: Vec<&str> =
        path.split("::").map(str::trim).filter(|part| !part.is_empty()).collect();
    let mut from = at.to_vec();
    let mut rest = parts.as_slice();
    match rest {
        ["crate", behind @ ..] => (from, rest) = (Vec::new(), behind),
        ["self" | "super", ..] => {
            while let [word @ ("self" | "super"), behind @ ..] = rest {
                if *word == "super" {
                    from.pop();
                }
                rest = behind;
            }
        }
        [first, ..] if modules.keys().any(|m| m.split_last() == Some((first, at))) => {}
        _ => return None,
    }
    from.extend(rest);
    Some(from)
}

/// The module that declares what a path names, by way of the files that pass the name on.
fn declaring<'p>(modules: &'p Modules<'_>, path: &[&'p str], steps: u8) -> Option<Vec<&'p str>> {
    let inside = (0..=path.len()).rev().find(|&length| modules.contains_key(&path[..length]))?;
    let (module, rest) = path.split_at(inside);
    let file = &modules[module];
    let Some(name) = rest.first() else { return Some(module.to_vec()) };
    if steps == 0 || file.declared.contains(*name) {
        return Some(module.to_vec());
    }
    match file.imports.iter().find(|(import, _)| self::name(import) == *name) {
        Some((next, _)) => declaring(modules, &begin(modules, module, next)?, steps - 1),
        None => Some(module.to_vec()),
    }
}

/// Whether an import belongs to a story that says so.
fn told(modules: &Modules<'_>, from: &[&str], to: &[&str]) -> bool {
    let above = |story: &[&str]| from.starts_with(story) && to.starts_with(story);
    let inside =
        modules.iter().any(|(story, file)| file.tells && !story.is_empty() && above(story));
    let beside = !to.is_empty() && from.starts_with(&to[..to.len() - 1]);
    inside || (modules[to].tells && beside)
}

type Graph<'a> = BTreeMap<&'a [&'a str], BTreeSet<&'a [&'a str]>>;

fn graph<'a>(modules: &'a Modules<'a>) -> Graph<'a> {
    let mut graph = Graph::new();
    for (module, file) in modules {
        // A name that the file only passes on, it does not know.
        let known = |(path, passes): &&(String, bool)| !passes || file.words.contains(name(path));
        let imports = file.imports.iter().filter(known).map(|(path, _)| path);
        let edges = graph.entry(module.as_slice()).or_default();
        for path in imports.chain(&file.inline) {
            let found = begin(modules, module, path)
                .and_then(|path| declaring(modules, &path, 8))
                .and_then(|target| modules.get_key_value(target.as_slice()));
            if let Some((target, _)) = found
                && target != module
                && !told(modules, module, target)
            {
                edges.insert(target.as_slice());
            }
        }
    }
    graph
}

/// All that can be reached from a module.
fn reached<'a>(graph: &Graph<'a>, from: &[&str]) -> BTreeSet<&'a [&'a str]> {
    let mut found = BTreeSet::new();
    let mut next: Vec<_> = graph[from].iter().copied().collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(&graph[module]);
        }
    }
    found
}

/// Each circle as one text: `crate: a, b/c`.
fn circles(tree: &Tree) -> BTreeSet<String> {
    let sources = tree.sources();
    let mut circles = BTreeSet::new();
    for (member, modules) in crates(&sources) {
        let graph = graph(&modules);
        let reach: BTreeMap<_, _> =
            graph.keys().map(|from| (*from, reached(&graph, from))).collect();
        for (from, to) in reach.iter().filter(|(from, to)| to.contains(*from)) {
            let both = to.iter().filter(|other| reach[**other].contains(from));
            let names: Vec<String> = both
                .map(|module| match module {
                    [] => "lib".to_owned(),
                    parts => parts.join("/"),
                })
                .collect();
            circles.insert(format!("{member}: {}", names.join(", ")));
        }
    }
    circles
}

fn untold_circles(tree: &Tree, known: &[(&str, &str)]) -> Vec<String> {
    let found = circles(tree);
    let new = found.iter().filter(|circle| known.iter().all(|(own, _)| own != circle));
    let new = new.map(|circle| format!("{circle}: import each other; cut it, or say `{STORY}`"));
    let gone = known.iter().filter(|(circle, _)| !found.contains(*circle));
    let gone =
        gone.map(|(circle, _)| format!("{circle}: no circle any more; strike it from KNOWN"));
    new.chain(gone).collect()
}

#[test]
fn files_import_each_other_only_where_they_say_so() {
    none(&untold_circles(&Tree::here(), KNOWN));
}

#[test]
fn rules_about_imports_see_what_breaks_them() {
    let story = format!("//! A type.\n{STORY}\nuse part::Part; pub struct Whole;");
    let tree = Tree::of(&[
        ("a/src/lib.rs", "//! x\nmod one;\npub use one::One;\npub use two::Two;"),
        ("a/src/one.rs", "use crate::{Two};\npub struct One;"),
        ("a/src/two.rs", "pub struct Two;\nfn f() { super::one::g() }"),
        ("a/src/three.rs", "use crate::One;\nstruct Three;"),
        ("b/src/whole/mod.rs", &story),
        ("b/src/whole/part.rs", "use super::Whole;\npub struct Part;"),
        ("c/src/hub.rs", &format!("{STORY}\nuse crate::spoke::S;\npub struct Hub;")),
        ("c/src/spoke.rs", "use crate::hub::Hub;\npub struct S;"),
    ]);
    shows(&untold_circles(&tree, &[("a: x, y", "gone")]), &["a: one, two", "a: x, y: no circle"]);
}
