//! Just enough Markdown: headings, fenced blocks, code within lines.

/// A fenced block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fence {
    /// What stands behind the fence: `sh`, `toml title=consumer.toml`.
    pub info: String,
    /// What is inside, each line with its end.
    pub text: String,
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// The heading above it.
    pub heading: String,
}

impl Fence {
    /// The language: the first word behind the fence.
    pub fn language(&self) -> &str {
        self.info.split([' ', ',']).next().unwrap_or_default()
    }

    /// The value of `name=value` behind the fence.
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut words = self.info.split(' ');
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// A document taken apart.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Markdown {
    /// All headings, without their marks.
    pub headings: Vec<String>,
    /// All fenced blocks.
    pub fences: Vec<Fence>,
    /// All code within lines, with the number of its line.
    pub spans: Vec<(usize, String)>,
}

impl Markdown {
    /// Takes a document apart.
    pub fn read(text: &str) -> Self {
        let mut found = Self::default();
        let mut open: Option<(Fence, &str)> = None;
        for (at, line) in text.lines().enumerate() {
            let bare = line.trim_start();
            let mark = &bare[..bare.len() - bare.trim_start_matches('`').len()];
            match &mut open {
                Some((_, opening)) if mark.len() >= opening.len() && bare == mark => {
                    found.fences.extend(open.take().map(|(fence, _)| fence));
                }
                Some((fence, _)) => {
                    fence.text.push_str(line);
                    fence.text.push('\n');
                }
                None if mark.len() >= 3 => {
                    let heading = found.headings.last().cloned().unwrap_or_default();
                    let info = bare[mark.len()..].trim().to_owned();
                    open = Some((Fence { info, text: String::new(), line: at + 1, heading }, mark));
                }
                None => found.line(at + 1, line),
            }
        }
        found
    }

    fn line(&mut self, number: usize, line: &str) {
        if let Some(heading) = line.strip_prefix('#') {
            self.headings.push(heading.trim_start_matches('#').trim().to_owned());
        }
        let inside = line.split('`').skip(1).step_by(2);
        self.spans.extend(inside.map(|code| (number, code.to_owned())));
    }

    /// The anchors of the headings, as forges make them.
    pub fn anchors(&self) -> Vec<String> {
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let anchor = |heading: &String| {
            let lower = heading.to_lowercase();
            lower.chars().filter(kept).map(|l| if l == ' ' { '-' } else { l }).collect()
        };
        self.headings.iter().map(anchor).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_taken_apart() {
        let text = "# One `two`\n\nType `cargo run` or `x`.\n\n```sh title=a/b.sh\necho `date`\n```\n## Three, four\n````\n```\n````\n";
        let read = Markdown::read(text);
        assert_eq!(read.headings, ["One `two`", "Three, four"]);
        assert_eq!(read.anchors(), ["one-two", "three-four"]);
        let spans: Vec<&str> = read.spans.iter().map(|(_, code)| code.as_str()).collect();
        assert_eq!(spans, ["two", "cargo run", "x"]);
        let [first, second] = &read.fences[..] else { panic!("two fences: {read:?}") };
        assert_eq!((first.language(), first.option("title")), ("sh", Some("a/b.sh")));
        assert_eq!((first.text.as_str(), first.line), ("echo `date`\n", 5));
        assert_eq!((second.text.as_str(), second.info.as_str()), ("```\n", ""));
        assert_eq!(second.heading, "Three, four");
    }
}
