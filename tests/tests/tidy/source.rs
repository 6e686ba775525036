//! A source file taken apart, just far enough: code without comments and text, its literals, the paths
//! it names, the names it declares.

/// One Rust file.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
    /// The text without comments, and with literals emptied.
    pub(super) code: String,
    /// The text literals, without those in test modules.
    pub(super) literals: Vec<String>,
    /// Whether the whole file is about tests.
    pub(super) is_test: bool,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let (path, text) = (path.to_owned(), text.to_owned());
        let (code, _) = take_apart(&text);
        let (_, literals) = take_apart(before_test_module(&text));
        let is_test =
            path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("tests.rs");
        Self { path, text, code, literals, is_test }
    }

    /// Files and folders of the modules that this one declares for tests only.
    pub(super) fn test_modules(&self) -> Vec<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let own = file.trim_end_matches(".rs");
        let below = if ["lib", "main", "mod"].contains(&own) {
            folder.to_owned()
        } else {
            format!("{folder}/{own}")
        };
        let lines: Vec<&str> = self.code.lines().map(str::trim).collect();
        let for_tests =
            |line: &str| line.starts_with("#[cfg(") && words(line).any(|word| word == "test");
        let pairs = lines.windows(2).filter(|pair| for_tests(pair[0]));
        let names = pairs.filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'));
        names.flat_map(|name| [format!("{below}/{name}.rs"), format!("{below}/{name}/")]).collect()
    }

    pub(super) fn below(&self, rooms: &[&str]) -> bool {
        rooms.iter().any(|room| self.path.starts_with(room))
    }

    /// Whether a word occurs in the code.
    pub(super) fn says(&self, word: &str) -> bool {
        words(&self.code).any(|own| own == word)
    }

    /// Every path that the code names, with the braces of `use` spread out: `crate::kafka::Client`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for (at, _) in self.code.match_indices("use ") {
            let before = self.code[..at].trim_end_matches("pub ").chars().next_back();
            if before.is_none_or(|before| before.is_whitespace() || before == ')') {
                let end = self.code[at..].find(';').map_or(self.code.len(), |end| at + end);
                spread("", &self.code[at + 4..end], &mut paths);
            }
        }
        let part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let inline = self.code.split(|letter| !part(letter)).filter(|path| path.contains("::"));
        paths.extend(inline.map(str::to_owned));
        paths
    }

    /// The names of types, functions, modules and constants that the file declares.
    pub(super) fn declared(&self) -> Vec<String> {
        const KEYWORDS: [&str; 8] =
            ["const", "enum", "fn", "mod", "static", "struct", "trait", "type"];
        let code = before_test_module(&self.code);
        let words: Vec<&str> = words(code).collect();
        let pairs = words.windows(2).filter(|pair| KEYWORDS.contains(&pair[0]));
        pairs.map(|pair| pair[1].to_owned()).filter(|name| name != "impl").collect()
    }
}

/// The text up to a test module inside the file; by our habit that is the last item.
pub(super) fn before_test_module(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..at])
}

pub(super) fn words(code: &str) -> impl Iterator<Item = &str> {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.split(move |letter| !part(letter)).filter(|word| !word.is_empty())
}

/// `a::{b, c::{d, e}}` becomes `a::b`, `a::c::d`, `a::c::e`.
pub(super) fn spread(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let mut depth = 0_i32;
    let mut start = 0;
    for (at, letter) in tree.char_indices().chain([(tree.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branch(prefix, tree[start..at].trim(), paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

fn branch(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    match tree.split_once('{') {
        Some((front, rest)) => {
            let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
            spread(&format!("{prefix}{front}"), inner, paths);
        }
        None if !tree.is_empty() => paths.push(format!("{prefix}{tree}")),
        None => {}
    }
}

/// Code without comments and with empty literals; and the literals.
fn take_apart(text: &str) -> (String, Vec<String>) {
    let (mut code, mut literals) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let word_before = code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("/*") {
            rest = rest.split_once("*/").map_or("", |(_, rest)| rest);
        } else if let Some((literal, behind)) = raw_literal(rest).filter(|_| !word_before) {
            code.push_str("\"\"");
            literals.push(literal.to_owned());
            rest = behind;
        } else if letter == '"' {
            let end = end_of_literal(&rest[1..]);
            code.push_str("\"\"");
            literals.push(rest[1..=end].to_owned());
            rest = rest.get(end + 2..).unwrap_or("");
        } else if let Some(length) = length_of_character(rest) {
            code.push_str("' '");
            rest = &rest[length..];
        } else {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    (code, literals)
}

/// `r#"…"#`: what is inside, and what is behind.
fn raw_literal(rest: &str) -> Option<(&str, &str)> {
    let inside = rest.strip_prefix('r').or_else(|| rest.strip_prefix("br"))?;
    let hashes = inside.len() - inside.trim_start_matches('#').len();
    let inside = inside[hashes..].strip_prefix('"')?;
    inside.split_once(&format!("\"{}", "#".repeat(hashes)))
}

/// Where the closing quote is.
fn end_of_literal(inside: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    inside.len()
}

/// `'x'` or `'\n'`, but not a lifetime.
fn length_of_character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return Some(inside[2..].find('\'')? + 4);
    }
    let letter = inside.chars().next()?;
    inside[letter.len_utf8()..].starts_with('\'').then_some(letter.len_utf8() + 2)
}

#[test]
fn a_source_is_taken_apart() {
    let text = r#"//! About kafka.
use a::{b, c::{d, self}};
pub(crate) use crate::x; // use not::this
const SQL: &str = "SELECT \"x\" -- no";
fn f<'a>(quote: char) -> &'a str { if quote == '"' { r"raw text" } else { one::two() } }
#[cfg(test)]
mod tests { const T: &str = "INSERT"; }
"#;
    let source = Source::new("a/src/b.rs", text);
    assert_eq!(source.literals, [r#"SELECT \"x\" -- no"#, "raw text"]);
    assert_eq!(
        source.paths(),
        ["a::b", "a::c::d", "a::c::self", "crate::x", "a::", "c::", "crate::x", "one::two"]
    );
    assert_eq!(source.declared(), ["SQL", "f"]);
    assert!(!source.says("kafka") && !source.says("not") && source.says("quote"));
}
