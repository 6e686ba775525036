//! Splits SQL text into the few tokens that the verb scanner looks at. Comments, strings and
//! dollar quotes are passed over; nothing is allocated.

/// What differs between databases in how text becomes statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Comments nest, `$tag$ … $tag$` and `E'…'` quote, a comment ends at `\r`, too.
    #[cfg(any(feature = "postgres", test))]
    Postgres,
    /// Comments do not nest, `[…]` and backticks quote, a byte order mark is a space.
    #[cfg(any(feature = "sqlite", test))]
    Sqlite,
}

impl Dialect {
    /// Whether it is that of PostgreSQL.
    pub fn postgres(self) -> bool {
        #[cfg(any(feature = "postgres", test))]
        return self == Self::Postgres;
        #[cfg(not(any(feature = "postgres", test)))]
        false
    }
}

/// A token that matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// A keyword or a plain identifier.
    Word(&'a str),
    /// A quoted identifier, without its quotes.
    Quoted(&'a str),
    /// A semicolon.
    End,
    /// Any other byte; strings and numbers count as one.
    Other(u8),
}

/// Where the scan stands.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    sql: &'a str,
    at: usize,
    /// Where the last token began.
    begun: usize,
    dialect: Dialect,
}

impl<'a> Lexer<'a> {
    /// Reads a text from its beginning.
    pub fn new(sql: &'a str, dialect: Dialect) -> Self {
        Self { sql, at: 0, begun: 0, dialect }
    }

    /// The bytes of the text that the last token takes.
    pub fn place(&self) -> std::ops::Range<usize> {
        self.begun..self.at
    }

    /// Whether another statement may follow what has been read.
    pub(crate) fn another_statement(&self) -> bool {
        self.rest().contains(&b';')
    }

    fn rest(&self) -> &'a [u8] {
        self.sql.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.sql.as_bytes().get(self.at + ahead).copied()
    }

    /// Goes on while `wanted` holds; answers what was passed over.
    fn pass_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let from = self.at;
        while self.byte(0).is_some_and(&wanted) {
            self.at += 1;
        }
        self.sql.get(from..self.at).unwrap_or_default()
    }

    /// Goes on behind the next `end`, or to the end of the text; answers what lies before it.
    fn pass_behind(&mut self, end: &[u8]) -> &'a str {
        let (from, rest) = (self.at, self.rest());
        let found = rest.windows(end.len()).position(|w| w == end);
        self.at += found.map_or(rest.len(), |n| n + end.len());
        found.and_then(|n| self.sql.get(from..from + n)).unwrap_or_default()
    }

    fn skip_spaces_and_comments(&mut self) {
        loop {
            self.pass_while(is_space);
            match (self.byte(0), self.byte(1)) {
                (Some(b'-'), Some(b'-')) => self.skip_line_comment(),
                (Some(b'/'), Some(b'*')) => self.skip_block_comment(),
                (Some(0xEF), Some(0xBB))
                    if !self.dialect.postgres() && self.byte(2) == Some(0xBF) =>
                {
                    self.at += 3;
                }
                _ => return,
            }
        }
    }

    fn skip_line_comment(&mut self) {
        let return_ends = self.dialect.postgres();
        self.pass_while(|b| b != b'\n' && !(return_ends && b == b'\r'));
    }

    fn skip_block_comment(&mut self) {
        self.at += 2;
        if !self.dialect.postgres() {
            self.pass_behind(b"*/");
            return;
        }
        let mut depth = 1;
        while depth > 0 && self.byte(0).is_some() {
            match (self.byte(0), self.byte(1)) {
                (Some(b'/'), Some(b'*')) => (depth, self.at) = (depth + 1, self.at + 2),
                (Some(b'*'), Some(b'/')) => (depth, self.at) = (depth - 1, self.at + 2),
                _ => self.at += 1,
            }
        }
    }

    /// The opening quote has been read. A doubled quote is two strings side by side.
    fn skip_string(&mut self) {
        self.pass_behind(b"'");
    }

    /// `E'…'`: a backslash takes the next byte with it, in the parts continued on later lines, too.
    fn skip_escape_string(&mut self) {
        loop {
            match self.byte(0) {
                None => return,
                // Nothing stands behind the last one of a string that does not end.
                Some(b'\\') => self.at = (self.at + 2).min(self.sql.len()),
                Some(b'\'') => {
                    self.at += 1;
                    let mut ahead = self.clone();
                    let gap = ahead.pass_while(is_space);
                    if ahead.byte(0) != Some(b'\'') || !gap.contains(['\n', '\r']) {
                        return;
                    }
                    self.at = ahead.at + 1;
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// `$tag$ … $tag$`, or a parameter such as `$1`. The first dollar has been read.
    fn skip_dollar(&mut self) {
        let from = self.at;
        if !self.byte(0).is_some_and(|b| b.is_ascii_digit()) {
            self.pass_while(|b| is_word(b) && b != b'$');
        }
        if self.byte(0) != Some(b'$') {
            return;
        }
        self.at += 1;
        let tag = self.sql.as_bytes().get(from - 1..self.at).unwrap_or_default();
        self.pass_behind(tag);
    }

    fn word(&mut self) -> Token<'a> {
        let word = self.pass_while(is_word);
        if self.dialect.postgres() && word.eq_ignore_ascii_case("e") && self.byte(0) == Some(b'\'')
        {
            self.at += 1;
            self.skip_escape_string();
            return Token::Other(b'\'');
        }
        Token::Word(word)
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_spaces_and_comments();
        let first = self.byte(0)?;
        self.begun = self.at;
        if is_word(first) && first != b'$' && !first.is_ascii_digit() {
            return Some(self.word());
        }
        self.at += 1;
        Some(match first {
            b';' => Token::End,
            b'"' => Token::Quoted(self.pass_behind(b"\"")),
            b'`' if !self.dialect.postgres() => Token::Quoted(self.pass_behind(b"`")),
            b'[' if !self.dialect.postgres() => Token::Quoted(self.pass_behind(b"]")),
            b'\'' => {
                self.skip_string();
                Token::Other(first)
            }
            b'$' if self.dialect.postgres() => {
                self.skip_dollar();
                Token::Other(first)
            }
            _ if first.is_ascii_digit() => {
                self.pass_while(is_word);
                Token::Other(first)
            }
            _ => Token::Other(first),
        })
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0B
}

/// Bytes of a word after its first; anything beyond ASCII is a letter to both databases.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}
