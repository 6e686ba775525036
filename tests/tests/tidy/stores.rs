//! One store learned is all stores learned: the same files, the same functions, the same migrations.

use std::collections::{BTreeMap, BTreeSet};

use super::{Tree, none, shows};

const STORES: [&str; 3] = ["inbox-store/src/", "outbox-core/src/store/", "outbox-relay/src/feed/"];

/// Files that one database alone needs, and why.
const ALONE: &[(&str, &str)] = &[
    // SQLite has one writer at a time, and its turns are taken in this process.
    ("sqlite", "writer.rs"),
    // Files do not fall silent, and have no pooler in front of them.
    ("postgres", "sent.rs"),
    // Types of columns of tables that are not ours.
    ("postgres", "operators/column.rs"),
];

/// Where PostgreSQL's statements are, with what each needs to say how it is sent: a name only where the
/// session keeps it.
const SENT: [(&str, &[&str]); 3] = [
    // Or as a handler's, which is sent as those of the guard are.
    ("inbox-store/src/postgres/", &["on(conn)", ".persistent("]),
    ("outbox-core/src/store/postgres/", &[".persistent("]),
    ("outbox-relay/src/feed/postgres/", &[".persistent("]),
];

/// Files that decide it themselves, before anybody knows whether the session keeps statements.
const DECIDE: [&str; 2] = ["/sent.rs", "/session.rs"];

fn statements_sent_otherwise(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        let Some((_, ways)) = SENT.iter().find(|(room, _)| path.starts_with(room)) else {
            continue;
        };
        if DECIDE.iter().any(|file| path.ends_with(file)) {
            continue;
        }
        // A call goes on over several lines, up to where it is sent.
        for part in text.replace("sqlx::query::", "").split("sqlx::query").skip(1) {
            let end = part.find(".execute(").or_else(|| part.find(".fetch_"));
            let sent = end.and_then(|end| part[end..].find(".await").map(|at| &part[..end + at]));
            if !sent.is_some_and(|sent| ways.iter().any(|way| sent.contains(way))) {
                let line = part.lines().next().unwrap_or_default();
                found.push(format!("{path}: sqlx::query{line} is not sent by {}", ways[0]));
            }
        }
    }
    found
}

#[test]
fn statements_have_names_only_where_they_are_kept() {
    none(&statements_sent_otherwise(&Tree::here()));
    let tree = Tree::of(&[
        ("inbox-store/src/postgres/a.rs", "sqlx::query(A).bind(1)\n.execute(conn).await"),
        ("inbox-store/src/postgres/b.rs", "sqlx::query(B).fetch_one(on(conn)).await"),
        ("outbox-relay/src/feed/postgres/c.rs", "sqlx::query_as(C).fetch_all(session).await"),
    ]);
    shows(&statements_sent_otherwise(&tree), &["a.rs: sqlx::query(A)", "c.rs: sqlx::query_as(C)"]);
}

fn stores_that_differ(tree: &Tree) -> Vec<String> {
    STORES.iter().flat_map(|room| stores_of_a_room_that_differ(tree, room)).collect()
}

/// Each has a folder of migrations.
fn databases(tree: &Tree) -> BTreeSet<&str> {
    let below = tree.files.iter().filter_map(|(path, _)| path.strip_prefix("migrations/"));
    below.filter_map(|path| Some(path.split_once('/')?.0)).collect()
}

fn stores_of_a_room_that_differ(tree: &Tree, room: &str) -> Vec<String> {
    let databases = databases(tree);
    let mut stores: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, _) in &tree.files {
        if let Some((store, file)) = path.strip_prefix(room).and_then(|path| path.split_once('/'))
            && databases.contains(store)
        {
            stores.entry(store).or_default().insert(file);
        }
    }
    let all: BTreeSet<&str> = stores.values().flatten().copied().collect();
    let mut found = Vec::new();
    for file in all {
        let alone = |store: &str| ALONE.contains(&(store, file));
        let having: Vec<&str> =
            stores.keys().copied().filter(|store| stores[store].contains(file)).collect();
        if having.iter().any(|store| alone(store)) {
            continue;
        }
        for store in stores.keys().filter(|store| !having.contains(*store)) {
            found.push(format!("{room}{store} has no {file}, but {} does", having.join(", ")));
        }
        found.extend(functions_that_differ(tree, room, file, &having));
    }
    found
}

fn functions_that_differ(tree: &Tree, room: &str, file: &str, stores: &[&str]) -> Vec<String> {
    let functions =
        |store: &str| port_functions(tree.text(&format!("{room}{store}/{file}")).unwrap());
    let all: BTreeSet<String> = stores.iter().flat_map(|store| functions(store)).collect();
    let mut found = Vec::new();
    for store in stores {
        for function in all.difference(&functions(store)) {
            found.push(format!("{room}{store}/{file} has no `{function}`, but its twin does"));
        }
    }
    found
}

/// The functions by which a store keeps the promises of a trait of ours.
fn port_functions(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("impl") {
            let databases = ["Postgres {", "Sqlite {", "MySql {"];
            inside = line.contains(" for ") && databases.iter().any(|end| line.ends_with(end));
        } else if line.starts_with('}') {
            inside = false;
        }
        let declared = line.strip_prefix("    ").filter(|line| !line.starts_with(' '));
        let name = declared.and_then(|line| line.split_once("fn ")).map(|(_, behind)| behind);
        if let Some(name) = name.filter(|_| inside) {
            let end = name.find(['(', '<']).unwrap_or(name.len());
            found.insert(name[..end].to_owned());
        }
    }
    found
}

fn migrations_that_differ(tree: &Tree) -> Vec<String> {
    let mut databases: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, _) in &tree.files {
        let below = path.strip_prefix("migrations/").and_then(|path| path.split_once('/'));
        if let Some((database, file)) =
            below.filter(|(_, file)| file.strip_suffix(".sql").is_some())
        {
            databases.entry(database).or_default().insert(file);
        }
    }
    let all: BTreeSet<&str> = databases.values().flatten().copied().collect();
    let mut found = Vec::new();
    for (database, files) in &databases {
        for file in all.difference(files) {
            found.push(format!("migrations/{database} has no {file}, but another database does"));
        }
        for up in files.iter().filter_map(|file| file.strip_suffix(".sql")) {
            let is_up = up.strip_suffix(".down").is_none();
            if is_up && !files.contains(format!("{up}.down.sql").as_str()) {
                found.push(format!(
                    "migrations/{database}/{up}.sql has no way back ({up}.down.sql)"
                ));
            }
        }
    }
    found
}

#[test]
fn the_stores_have_the_same_files_and_functions() {
    none(&stores_that_differ(&Tree::here()));
}

#[test]
fn the_migrations_have_the_same_numbers_and_a_way_back() {
    none(&migrations_that_differ(&Tree::here()));
}

#[test]
fn rules_about_stores_see_what_breaks_them() {
    let twin =
        "impl Claims for Postgres {\n    async fn claim(&self) {\n    }\n    fn held() {}\n}\n";
    let tree = Tree::of(&[
        ("inbox-store/src/postgres/claim.rs", twin),
        ("inbox-store/src/sqlite/claim.rs", "impl Claims for Sqlite {\n    fn claim() {}\n}\n"),
        ("inbox-store/src/sqlite/extra.rs", ""),
        ("inbox-store/src/sqlite/writer.rs", ""),
        ("outbox-core/src/store/sqlite/append.rs", ""),
        ("outbox-core/src/store/postgres/schema.rs", ""),
        ("migrations/postgres/0001_a.sql", ""),
        ("migrations/postgres/0001_a.down.sql", ""),
        ("migrations/sqlite/0001_a.sql", ""),
    ]);
    let differ = [
        "postgres has no extra.rs",
        "sqlite/claim.rs has no `held`",
        "postgres has no append.rs",
        "sqlite has no schema.rs",
    ];
    shows(&stores_that_differ(&tree), &differ);
    let differ = ["sqlite has no 0001_a.down.sql", "sqlite/0001_a.sql has no way back"];
    shows(&migrations_that_differ(&tree), &differ);
}
