//! `cargo xtask site`: the documentation as a site, built by mdBook, with every link of its pages checked, and its search.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use xtask::command::run;
use xtask::failure::{Explain, Outcome, failure};

use crate::folders::{cache, workspace};
use crate::tools::MDBOOK;

mod search;
#[cfg(test)]
mod tests;

/// The list of pages. Paths here and below are from the workspace's root.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages that mdBook makes besides: all chapters in one, and one whose links depend on the server.
const MADE: [&str; 2] = ["print.html", "404.html"];

/// Copies the pages, builds the site, and fails if a link of a built page is dead.
pub(crate) fn build() -> Outcome {
    let program = MDBOOK.find_or_install()?;
    let folder = cache()?.join("site");
    if folder.exists() {
        fs::remove_dir_all(&folder).explain(|| format!("cannot remove {}", folder.display()))?;
    }
    stage(&folder)?;
    let title = format!("inbox {}", env!("CARGO_PKG_VERSION"));
    run(Command::new(program).arg("build").arg(&folder).env("MDBOOK_BOOK__TITLE", title))?;
    let site = folder.join("book");
    let dead = dead_links(&files_below(&site)?);
    if !dead.is_empty() {
        return failure(format!("links of the site that lead nowhere:\n{}", dead.join("\n")));
    }
    println!("the site is in {}", site.display());
    search::check(&site)
}

/// Copies the chapters and what they link to, laid out as in the repository, so that links between them stay right.
fn stage(folder: &Path) -> Outcome {
    let source = folder.join("src");
    let summary = read(&workspace().join(SUMMARY))?;
    let chapters = targets(SUMMARY, &summary);
    for page in files_below(&workspace().join("docs"))?.into_keys() {
        let path = format!("docs/{page}");
        if has_extension(&path, "md") && path != SUMMARY && !chapters.contains(&path) {
            return failure(format!("{SUMMARY} does not list {path}"));
        }
    }
    write(&folder.join("book.toml"), read(&workspace().join("docs/book.toml"))?)?;
    write(&source.join("SUMMARY.md"), from_root(&summary))?;
    for chapter in &chapters {
        let text = read(&workspace().join(chapter))?;
        for target in targets(chapter, &text).difference(&chapters) {
            let file = workspace().join(target);
            if has_extension(target, "md") || !file.is_file() {
                return failure(format!("{chapter} links to {target}, which the site lacks"));
            }
            write(&source.join(target), read(&file)?)?;
        }
        // mdBook calls README.md index.html, but leaves links to it as they are.
        let text = text.replace("README.md)", "index.md)").replace("README.md#", "index.md#");
        write(&source.join(chapter), text)?;
    }
    Ok(())
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|own| own == extension)
}

/// The files of the project that a page links to.
fn targets(page: &str, text: &str) -> BTreeSet<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(['#', ')']).next());
    let local = links.filter(|link| !link.is_empty() && !link.contains(':'));
    local.map(|link| beside(page, link)).collect()
}

/// The list of pages with paths from the root.
fn from_root(summary: &str) -> String {
    let part = |(at, part): (usize, &str)| match part.split_once(')') {
        Some((link, behind)) if at > 0 => format!("]({}){behind}", beside(SUMMARY, link)),
        _ => part.to_owned(),
    };
    summary.split("](").enumerate().map(part).collect::<Vec<_>>().concat()
}

/// The path that a link of a page leads to.
fn beside(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Links of built pages to files or headings that do not exist.
fn dead_links(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut dead = Vec::new();
    let is_checked = |page: &str| has_extension(page, "html") && !MADE.contains(&page);
    for (page, text) in files.iter().filter(|(page, _)| is_checked(page)) {
        let links = ["href=\"", "src=\""].into_iter().flat_map(|mark| text.split(mark).skip(1));
        for link in links.filter_map(|rest| rest.split('"').next()) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if target.is_empty() { page.clone() } else { beside(page, target) };
            let id = format!("id=\"{anchor}\"");
            let holds = |text: &String| anchor.is_empty() || text.contains(&id);
            if !link.contains(':') && !files.get(&path).is_some_and(holds) {
                dead.push(format!("{page} links to {link}"));
            }
        }
    }
    dead
}

/// All files below a folder by their paths from it, with their text; those that are not text with none.
fn files_below(folder: &Path) -> Outcome<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        let entries = fs::read_dir(&next).explain(|| format!("cannot read {}", next.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(below) = path.strip_prefix(folder) {
                let text = fs::read_to_string(&path).unwrap_or_default();
                files.insert(below.to_string_lossy().into_owned(), text);
            }
        }
    }
    Ok(files)
}

fn read(file: &Path) -> Outcome<String> {
    fs::read_to_string(file).explain(|| format!("cannot read {}", file.display()))
}

fn write(file: &Path, text: String) -> Outcome {
    let doing = || format!("cannot write {}", file.display());
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).explain(doing)?;
    fs::write(file, text).explain(doing)
}
