//! What the documents tell people to type exists: commands, programs, places in the tree.

use std::collections::BTreeSet;

use tests::Markdown;

use super::{Tree, none, shows};

/// Commands of cargo itself, and of what people install beside it.
const OF_CARGO: [&str; 20] = [
    "add",
    "binstall",
    "build",
    "check",
    "clippy",
    "cyclonedx",
    "deb",
    "deny",
    "doc",
    "fmt",
    "fuzz",
    "init",
    "install",
    "metadata",
    "new",
    "package",
    "publish",
    "run",
    "test",
    "update",
];

/// Where command lines are declared, by the word that a line begins with.
const PROGRAMS: [(&str, &str); 3] = [
    ("cargo xtask", "xtask/src/main.rs"),
    ("inbox-consumer", "inbox-consumer/src/cli/"),
    ("outbox-relay", "outbox-relay/src/"),
];

/// The changelog alone may name what is gone.
fn documents(tree: &Tree) -> impl Iterator<Item = (&str, Markdown)> {
    let current = |path: &str| path.strip_suffix(".md").is_some() && path != "CHANGELOG.md";
    let files = tree.files.iter().filter(move |(path, _)| current(path));
    files.map(|(path, text)| (path.as_str(), Markdown::read(text)))
}

/// Every line that a document gives to type, with the place it is at.
fn typed(path: &str, document: &Markdown) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (number, code) in &document.spans {
        lines.push((format!("{path}:{number}"), code.clone()));
    }
    for fence in document.fences.iter().filter(|fence| fence.language() == "sh") {
        for (at, line) in fence.text.lines().enumerate() {
            lines.push((format!("{path}:{}", fence.line + 1 + at), line.trim().to_owned()));
        }
    }
    lines
}

fn commands_that_are_not_there(tree: &Tree) -> Vec<String> {
    let known = Known::of(tree);
    let mut found = Vec::new();
    for (path, document) in documents(tree) {
        for (place, line) in typed(path, &document) {
            if let Some(what) = known.unknown(&line) {
                found.push(format!("{place} says `{line}`, but there is no {what}"));
            }
        }
    }
    found
}

/// What can be typed.
struct Known {
    aliases: BTreeSet<String>,
    packages: Vec<(String, String)>,
    files: BTreeSet<String>,
    verbs: Vec<(&'static str, BTreeSet<String>)>,
}

impl Known {
    fn of(tree: &Tree) -> Self {
        let config = tree.text(".cargo/config.toml").unwrap_or_default();
        let aliases = config.lines().filter_map(|line| line.split_once(" = "));
        let manifests = tree.files.iter().filter_map(|(path, text)| {
            let folder = path.strip_suffix("/Cargo.toml")?;
            let name = text.split_once("[package]")?.1.split_once("name = \"")?.1;
            Some((name.split('"').next()?.to_owned(), folder.to_owned()))
        });
        let verbs = |place: &str| {
            let files = tree.files.iter().filter(|(path, _)| path.starts_with(place));
            files.flat_map(|(_, text)| subcommands(text)).collect()
        };
        Self {
            aliases: aliases.map(|(name, _)| name.to_owned()).collect(),
            packages: manifests.collect(),
            files: tree.files.iter().map(|(path, _)| path.clone()).collect(),
            verbs: PROGRAMS.iter().map(|(name, place)| (*name, verbs(place))).collect(),
        }
    }

    /// What of a line does not exist.
    fn unknown(&self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["cargo", "xtask", ..] => self.verb("cargo xtask", words.get(2)),
            ["cargo", command, ..] => {
                let there = OF_CARGO.contains(&command) || self.aliases.contains(command);
                let odd = command.starts_with(['-', '+']) || !is_word(command);
                let absent = !there && !odd;
                absent.then(|| format!("command `cargo {command}`")).or_else(|| self.built(&words))
            }
            [program, ..] => self.verb(program, words.get(1)),
            [] => None,
        }
    }

    /// The package and the program of a `cargo run` or `cargo test`, and the command behind `--`.
    fn built(&self, words: &[&str]) -> Option<String> {
        let behind = |names: [&str; 2]| {
            let at = words.iter().position(|word| names.contains(word))?;
            words.get(at + 1).copied().filter(|word| is_word(word))
        };
        let package = behind(["-p", "--package"]);
        let folder = match package {
            Some(name) => match self.packages.iter().find(|(own, _)| own == name) {
                Some((_, folder)) => Some(folder),
                None => return Some(format!("package {name}")),
            },
            None => None,
        };
        if let (Some(folder), Some(program)) = (folder, behind(["--bin", "--example"])) {
            let places = ["src/bin", "examples"].map(|place| format!("{folder}/{place}/{program}"));
            let there = |place: &String| {
                let (file, main) = (format!("{place}.rs"), format!("{place}/main.rs"));
                self.files.contains(&file) || self.files.contains(&main)
            };
            let named = self.files.contains(&format!("{folder}/src/main.rs"));
            if !places.iter().any(there) && !named {
                return Some(format!("program {program} of {folder}"));
            }
        }
        let at = words.iter().position(|word| *word == "--")?;
        if words[1] == "run" && package.is_none() {
            return self.verb("inbox-consumer", words.get(at + 1));
        }
        None
    }

    fn verb(&self, program: &str, verb: Option<&&str>) -> Option<String> {
        let (_, verbs) = self.verbs.iter().find(|(name, _)| *name == program)?;
        let verb = verb.filter(|verb| is_word(verb))?;
        (!verbs.contains(*verb)).then(|| format!("command `{program} {verb}`"))
    }
}

/// A word of lower-case letters: no option, no path, no place-holder.
fn is_word(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
        && !word.starts_with('-')
}

/// The commands that a file declares for clap.
fn subcommands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in text.split("Subcommand").skip(1) {
        let Some((_, body)) = part.split_once("enum ") else { continue };
        for line in body.lines().skip(1).take_while(|line| !line.starts_with('}')) {
            let Some(variant) = line.strip_prefix("    ") else { continue };
            let end =
                variant.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(variant.len());
            if variant.starts_with(|letter: char| letter.is_ascii_uppercase()) {
                found.push(kebab(&variant[..end]));
            }
        }
    }
    found
}

fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

/// Code within a line that begins with a folder of the project leads to something.
fn places_that_are_not_there(tree: &Tree) -> Vec<String> {
    let folders: BTreeSet<&str> =
        tree.files.iter().filter_map(|(path, _)| Some(path.split_once('/')?.0)).collect();
    let mut found = Vec::new();
    for (path, document) in documents(tree) {
        for (line, code) in &document.spans {
            let Some((folder, _)) = code.split_once('/') else { continue };
            let plain = !code.contains([' ', '*', '<', '…', '{', ':', '=', '$', ',']);
            let place = code.trim_end_matches('/');
            let below = format!("{place}/");
            let there = |(own, _): &(String, String)| own == place || own.starts_with(&below);
            if plain && folders.contains(folder) && !tree.files.iter().any(there) {
                found.push(format!("{path}:{line} names {code}, which is not there"));
            }
        }
    }
    found
}

#[test]
fn every_command_in_the_documents_exists() {
    none(&commands_that_are_not_there(&Tree::here()));
}

#[test]
fn every_place_in_the_documents_exists() {
    none(&places_that_are_not_there(&Tree::here()));
}

#[test]
fn rules_about_commands_see_what_breaks_them() {
    let text = "`cargo xtask test NAME`, `cargo xtask tset`, `cargo quick`, `cargo quickstart`\n\
        ```sh\ncargo run -p shop --bin till\ncargo run -p shop --bin door\ncargo run -p inn\n\
        cargo run -- migrate --print\ncargo run -- migrat\ninbox-consumer stop\n```\n\
        `docs/here.md` `docs/gone.md` `docs/*.md`";
    let tree = Tree::of(&[
        ("README.md", text),
        ("CHANGELOG.md", "`cargo xtask gone`"),
        (".cargo/config.toml", "[alias]\nquickstart = \"run\""),
        ("docs/here.md", ""),
        ("shop/Cargo.toml", "[package]\nname = \"shop\""),
        ("shop/src/bin/till.rs", ""),
        (
            "xtask/src/main.rs",
            "#[derive(Subcommand)]\nenum Verb {\n    /// X\n    Test(Choice),\n}\n",
        ),
        (
            "inbox-consumer/src/cli/args.rs",
            "Subcommand)]\npub(super) enum C {\n    Migrate {\n        print: bool,\n    },\n}\n",
        ),
    ]);
    let wrong =
        ["xtask tset", "cargo quick`", "program door", "package inn", "consumer migrat`", "stop"];
    shows(&commands_that_are_not_there(&tree), &wrong);
    shows(&places_that_are_not_there(&tree), &["README.md:10 names docs/gone.md"]);
}
