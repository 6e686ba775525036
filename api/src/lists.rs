//! The lists that are committed: comparing them with what is there, and writing them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use xtask::failure::{Explain, Outcome, failure};

/// What the crates have, and where the lists of it are.
#[derive(Debug)]
pub(crate) struct Lists {
    folder: PathBuf,
    /// The items of each crate, in the order that they are listed in.
    crates: Vec<(String, Vec<String>)>,
}

impl Lists {
    pub(crate) fn new(folder: &Path, crates: Vec<(String, Vec<String>)>) -> Self {
        Self { folder: folder.to_path_buf(), crates }
    }

    /// Fails where a list is not what its crate has, and prints what differs.
    pub(crate) fn compare(&self) -> Outcome {
        let committed = self.committed()?;
        let mut differing = BTreeSet::new();
        for (name, items) in &self.crates {
            let list = committed.get(name).map(String::as_str).unwrap_or_default();
            let differences = differences(list, items);
            if !differences.is_empty() {
                println!("api/{name}.txt");
                for line in differences {
                    println!("  {line}");
                }
                differing.insert(name.as_str());
            }
        }
        for name in self.without_crate(&committed) {
            println!("api/{name}.txt is the list of no published crate");
            differing.insert(name);
        }
        if differing.is_empty() {
            let items: usize = self.crates.iter().map(|(_, items)| items.len()).sum();
            println!("{items} public items of {} crates are as listed", self.crates.len());
            return Ok(());
        }
        let names = differing.into_iter().collect::<Vec<_>>().join(", ");
        failure(format!(
            "the public items of {names} are not those that api/ lists (- is gone, + is new): if that is meant, write \
             the lists with `cargo xtask api --accept`, and what users have to change into CHANGELOG.md"
        ))
    }

    /// Writes the lists, and removes those without a crate.
    pub(crate) fn write(&self) -> Outcome {
        for name in self.without_crate(&self.committed()?) {
            let file = self.file(name);
            fs::remove_file(&file).explain(|| format!("cannot remove {}", file.display()))?;
        }
        for (name, items) in &self.crates {
            let file = self.file(name);
            let text = items.join("\n") + "\n";
            fs::write(&file, text).explain(|| format!("cannot write {}", file.display()))?;
            println!("{:>5} items: api/{name}.txt", items.len());
        }
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.txt"))
    }

    /// The lists as they are, by crate.
    fn committed(&self) -> Outcome<BTreeMap<String, String>> {
        let reading = |path: &Path| format!("cannot read {}", path.display());
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.folder).explain(|| reading(&self.folder))? {
            let path = entry.explain(|| reading(&self.folder))?.path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            if path.extension().is_some_and(|end| end == "txt") {
                let text = fs::read_to_string(&path).explain(|| reading(&path))?;
                found.insert(name.to_owned(), text);
            }
        }
        Ok(found)
    }

    fn without_crate<'a>(
        &'a self,
        committed: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = &'a str> {
        let known = |name: &str| self.crates.iter().any(|(own, _)| own == name);
        committed.keys().map(String::as_str).filter(move |name| !known(name))
    }
}

/// What is in one of both alone: first what is gone, then what is new.
fn differences(list: &str, items: &[String]) -> Vec<String> {
    let listed: BTreeSet<&str> = list.lines().collect();
    let there: BTreeSet<&str> = items.iter().map(String::as_str).collect();
    let gone = list.lines().filter(|item| !there.contains(item)).map(|item| format!("- {item}"));
    let new = items.iter().filter(|item| !listed.contains(item.as_str()));
    gone.chain(new.map(|item| format!("+ {item}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn what_is_gone_and_what_is_new_is_named() {
        let list = "pub fn a::one()\npub fn a::two()\n";
        let found = differences(list, &owned(&["pub fn a::three()", "pub fn a::two()"]));
        assert_eq!(found, ["- pub fn a::one()", "+ pub fn a::three()"]);
        assert!(differences(list, &owned(&["pub fn a::one()", "pub fn a::two()"])).is_empty());
    }
}
