//! Whether the site's search finds what people look for: asked in a real browser, since the index is read by a script.

use std::path::Path;
use std::process::{Command, Stdio};

use xtask::failure::{Explain, Outcome, failure};

use crate::toolchain::{self, Need};

/// What people search for, and the page that has to be among the first results.
const WORDS: [(&str, &str); 14] = [
    ("backfill", "docs/rebuilding.html"),
    ("dead letter", "docs/guide.html"),
    ("deduplicate", "docs/guide.html"),
    ("drain", "docs/draining.html"),
    ("exactly once", "docs/guide.html"),
    ("ordering", "docs/guide.html"),
    ("poison message", "docs/guide.html"),
    ("rebuild", "docs/rebuilding.html"),
    ("replay", "docs/rebuilding.html"),
    ("requirements", "docs/requirements.html"),
    ("sizing", "docs/sizing.html"),
    ("throughput", "docs/sizing.html"),
    ("troubleshooting", "docs/operations.html"),
    ("upgrade", "docs/upgrading.html"),
];

/// Results that a reader looks at.
const FIRST: usize = 3;

/// How far the browser's clock runs on before it prints the page, in milliseconds: the script waits before it searches.
const PAGE_TIME: u32 = 10_000;

/// Fails if a word's page is not among the first results.
pub(super) fn check(site: &Path) -> Outcome {
    toolchain::ensure(&[Need::Chromium])?;
    let Some(browser) = toolchain::browser() else { return failure("Chromium is gone") };
    let mut missing = Vec::new();
    for (word, page) in WORDS {
        let found = pages(&printed(&browser, site, word)?);
        if !found.iter().take(FIRST).any(|found| found == page) {
            missing.push(format!("\"{word}\" leads to {found:?}, not to {page}"));
        }
    }
    if missing.is_empty() {
        println!("the site's search finds the pages of {} words", WORDS.len());
        return Ok(());
    }
    failure(format!("the site's search misses pages:\n{}", missing.join("\n")))
}

/// The first page of the site with the results of a search, as the browser has it after its scripts ran.
fn printed(browser: &Path, site: &Path, word: &str) -> Outcome<String> {
    let address =
        format!("file://{}/index.html?search={}", site.display(), word.replace(' ', "%20"));
    let output = Command::new(browser)
        // The sandbox of a browser that reads nothing but our own files; root, which builds run as, has none.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--virtual-time-budget={PAGE_TIME}"))
        .arg(address)
        .stderr(Stdio::null())
        .output()
        .explain(|| format!("cannot run {}", browser.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The pages of the results, best first.
pub(super) fn pages(page: &str) -> Vec<String> {
    let Some((_, results)) = page.split_once("searchresults\">") else { return Vec::new() };
    let links = results.split("<li><a href=\"").skip(1);
    links.filter_map(|rest| rest.split(['?', '#', '"']).next()).map(str::to_owned).collect()
}
