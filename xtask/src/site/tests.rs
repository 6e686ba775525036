//! Links of pages and of a built site.

use super::*;

#[test]
fn links_are_read_as_paths_from_the_root() {
    let text = "[a](b.md#c) [d](../e.md) [f](https://g/h.md) ![i](figures/j.svg) [k](#l)";
    let found: Vec<String> = targets("docs/x.md", text).into_iter().collect();
    assert_eq!(found, ["docs/b.md", "docs/figures/j.svg", "e.md"]);
    let summary = from_root("# S (x)\n[I](../README.md)\n- [A](a.md) and (b)\n");
    assert_eq!(summary, "# S (x)\n[I](README.md)\n- [A](docs/a.md) and (b)\n");
}

#[test]
fn a_dead_link_of_a_built_page_is_found() {
    let page = "<a href=\"b.html#here\">1</a><a href=\"b.html#gone\">2</a><img src=\"c.png\">\
        <a href=\"#own\" id=\"own\">3</a><a href=\"https://d/e\">4</a><a href=\"../f.txt\">5</a>";
    let files = [
        ("docs/a.html", page),
        ("docs/b.html", "<h2 id=\"here\">"),
        ("f.txt", ""),
        ("print.html", "<a href=\"gone.html\">"),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let expected = ["docs/a.html links to b.html#gone", "docs/a.html links to c.png"];
    assert_eq!(dead_links(&files), expected);
}

#[test]
fn the_pages_of_results_are_read_in_their_order() {
    let page = "<a href=\"menu.html\"></a><ul id=\"mdbook-searchresults\"><li><a href=\"docs/b.html?highlight=x#y\">B</a>\
        </li><li><a href=\"a.html\">A</a></li></ul>";
    assert_eq!(search::pages(page), ["docs/b.html", "a.html"]);
    assert_eq!(search::pages("<ul id=\"mdbook-searchresults\"></ul>"), Vec::<String>::new());
}
