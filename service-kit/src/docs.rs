//! Where the documentation is.

/// The folder of its pages. The environment of the build may name another one, such as a copy on the intranet.
const PAGES: &str = match option_env!("BUILD_DOCS_URL") {
    Some(url) => url,
    None => "https://inbox-rs.github.io/inbox/docs",
};

/// The address of a page, `operations`, or of one of its headings, `operations#outage`. Whoever installed a program has
/// no clone of the project, so messages name this and no file.
pub fn docs_url(place: &str) -> String {
    match place.split_once('#') {
        Some((page, heading)) => format!("{PAGES}/{page}.html#{heading}"),
        None => format!("{PAGES}/{place}.html"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_headings_have_addresses() {
        assert_eq!(docs_url("formats"), format!("{PAGES}/formats.html"));
        assert_eq!(docs_url("operations#outage"), format!("{PAGES}/operations.html#outage"));
        assert!(PAGES.starts_with("https://") && !PAGES.ends_with('/'), "{PAGES}");
    }
}
