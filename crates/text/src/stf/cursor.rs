//! The words of one line of a script.

use super::script::{Name, Number, StfError};
use crate::error::column;

/// A position in a line.
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

type Result<T> = std::result::Result<T, StfError>;

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str, line: usize) -> Cursor<'t> {
        Cursor { text, at: 0, line }
    }

    pub(super) fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The next character that is not blank, without consuming it.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.rest().chars().next()
    }

    /// True if the statement ends here: end of line or a comment.
    pub(super) fn at_end(&mut self) -> bool {
        matches!(self.peek(), None | Some('#'))
    }

    /// An error about the word at this position.
    pub(super) fn expected<T>(&mut self, what: &str) -> Result<T> {
        self.skip_blanks();
        let word = self.word_len();
        let found = match &self.rest()[..word] {
            "" => "the end of the line".to_string(),
            word if word.starts_with('#') => "a comment".to_string(),
            word => format!("`{word}`"),
        };
        self.error(self.at..self.at + word, format!("found {found}, expected {what}"))
    }

    pub(super) fn error<T>(&self, span: std::ops::Range<usize>, message: String) -> Result<T> {
        Err(StfError { line: self.line, text: self.text.to_string(), span, message })
    }

    /// Length of the next word as a reader sees it: one symbol, or letters and digits.
    fn word_len(&self) -> usize {
        let rest = self.rest();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '*' | '.');
        match rest.chars().next() {
            None => 0,
            Some(first) if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            Some('#') => rest.len(),
            Some(first) => first.len_utf8(),
        }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The column of the position, 1-based.
    fn column(&self) -> usize {
        column(self.text, self.at)
    }

    /// The column of a byte of the line, 1-based.
    pub(super) fn column_of(&self, position: usize) -> usize {
        column(self.text, position)
    }

    /// Consumes `symbol` if it is next.
    pub(super) fn eat(&mut self, symbol: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    pub(super) fn need(&mut self, symbol: &str, what: &str) -> Result<()> {
        if self.eat(symbol) { Ok(()) } else { self.expected(what) }
    }

    /// The keyword that begins the line, in lower case.
    pub(super) fn keyword(&mut self) -> Option<String> {
        self.skip_blanks();
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += len;
        (len > 0).then(|| rest[..len].to_ascii_lowercase())
    }

    /// Consumes `word`, in upper or lower case, if it is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let before = self.at;
        let found = self.keyword().as_deref() == Some(word);
        if !found {
            self.at = before;
        }
        found
    }

    /// `ID`: quoted, or letters, `$`, `_` and digits.
    pub(super) fn id(&mut self, what: &str) -> Result<Name> {
        self.skip_blanks();
        let column = self.column();
        let text = self.part(what)?;
        Ok(Name { text: text.to_string(), column })
    }

    /// Everything up to the next blank or comment, without quotes: an argument of a runtime command.
    pub(super) fn word(&mut self) -> Result<Name> {
        self.skip_blanks();
        let column = self.column();
        let mut text = String::new();
        while let Some(next) = self.rest().chars().next().filter(|c| !c.is_whitespace() && *c != '#') {
            if next != '"' {
                text.push(next);
                self.at += next.len_utf8();
                continue;
            }
            let start = self.at;
            let quoted = self.part("a name")?;
            if quoted.contains(|c: char| c.is_whitespace() || c == '#') {
                let message = format!("found `{quoted}`, expected a name without blanks and `#`");
                return self.error(start..self.at, message);
            }
            text += quoted;
        }
        Ok(Name { text, column })
    }

    fn part(&mut self, what: &str) -> Result<&'t str> {
        let rest = self.rest();
        if let Some(inner) = rest.strip_prefix('"') {
            let Some(end) = inner.find('"') else {
                let (start, end) = (self.at, self.text.trim_end().len());
                return self.error(start..end, "found a quote that nothing closes on this line".to_string());
            };
            self.at += end + 2;
            return Ok(&inner[..end]);
        }
        let starts = |c: char| c.is_ascii_alphabetic() || c == '$' || c == '_';
        if !rest.starts_with(starts) {
            return self.expected(what);
        }
        let len = rest.find(|c: char| !starts(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
        self.at += len;
        Ok(&rest[..len])
    }

    /// A dotted name, with indices: `hdr.vlan[0].$valid$`.
    pub(super) fn name(&mut self, what: &str) -> Result<Name> {
        let Name { mut text, column } = self.id(what)?;
        loop {
            if self.rest().starts_with('[') {
                self.at += 1;
                let digits = self.digits("the index of a header in its stack")?;
                if !self.rest().starts_with(']') {
                    return self.expected("`]`");
                }
                self.at += 1;
                text += &format!("[{digits}]");
            } else if self.rest().starts_with('.') {
                self.at += 1;
                text.push('.');
                text += self.part("a name after the dot")?;
            } else {
                return Ok(Name { text, column });
            }
        }
    }

    fn digits(&mut self, what: &str) -> Result<&'t str> {
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if len == 0 {
            return self.expected(what);
        }
        self.at += len;
        Ok(&rest[..len])
    }

    /// A decimal number that fits.
    pub(super) fn decimal(&mut self, what: &str) -> Result<u32> {
        self.skip_blanks();
        let start = self.at;
        let digits = self.digits(what)?;
        if self.rest().starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            self.at = start;
            return self.expected(what);
        }
        match digits.parse() {
            Ok(value) => Ok(value),
            Err(_) => {
                self.error(start..self.at, format!("found {digits}, expected {what} of at most {}", u32::MAX))
            }
        }
    }

    /// The number of a port, and its column.
    pub(super) fn port(&mut self) -> Result<(u32, usize)> {
        self.skip_blanks();
        let column = self.column();
        Ok((self.decimal("a port number")?, column))
    }

    /// A number; stars only in base 2 and 16. An IPv4 or MAC address is read as its hex digits (an extension).
    pub(super) fn number(&mut self, what: &str) -> Result<Number> {
        self.skip_blanks();
        let (start, column) = (self.at, self.column());
        let rest = self.rest();
        if let Some((digits, len)) = mac_address(rest) {
            self.at += len;
            return Ok(Number { radix: 16, digits, column });
        }
        let len =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '*' | '.')).unwrap_or(rest.len());
        let word = &rest[..len];
        let (radix, digits) = match word.get(..2) {
            Some("0x" | "0X") => (16, &word[2..]),
            Some("0b" | "0B") => (2, &word[2..]),
            _ => (10, word),
        };
        let is_digit = |c: char| c.is_digit(radix) || (radix != 10 && c == '*');
        let number = if !digits.is_empty() && digits.chars().all(is_digit) {
            Number { radix, digits: digits.to_string(), column }
        } else if let Ok(address) = word.parse::<std::net::Ipv4Addr>() {
            Number { radix: 16, digits: format!("{:08x}", u32::from(address)), column }
        } else if radix != 10 {
            let digit = if radix == 16 { "hex digits" } else { "bits" };
            return self.error(
                start..start + len,
                format!("found `{word}`, expected {digit} or stars after the prefix"),
            );
        } else {
            return self.expected(what);
        };
        self.at += len;
        Ok(number)
    }

    /// A number without stars, of at most 128 bits.
    pub(super) fn plain_number(&mut self, what: &str) -> Result<u128> {
        self.skip_blanks();
        let start = self.at;
        let number = self.number(what)?;
        u128::from_str_radix(&number.digits, number.radix).or_else(|_| {
            let found = &self.text[start..self.at];
            self.error(
                start..self.at,
                format!("found `{found}`, expected {what} without stars, of at most 128 bits"),
            )
        })
    }

    /// A number without stars that fits `T`.
    pub(super) fn small<T: TryFrom<u128>>(&mut self, what: &str) -> Result<T> {
        self.skip_blanks();
        let start = self.at;
        let number = self.plain_number(what)?;
        match T::try_from(number) {
            Ok(value) => Ok(value),
            Err(_) => self.error(start..self.at, format!("found {number}, which is too large for {what}")),
        }
    }

    /// Requires the end of the line or a comment.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.at_end() { Ok(()) } else { self.expected("the end of the statement") }
    }

    /// The data of a packet: hex digits, and if `pattern` also stars and a final `$`. Blanks are skipped. No comment may follow.
    pub(super) fn nibbles(&mut self, pattern: bool) -> Result<(Vec<Option<u8>>, bool)> {
        let mut nibbles = Vec::new();
        let what = if pattern { "hex digits, `*` or a final `$`" } else { "hex digits" };
        for (i, c) in self.rest().char_indices() {
            let at = self.at + i;
            match c {
                c if c.is_whitespace() => {}
                '*' if pattern => nibbles.push(None),
                '$' if pattern => {
                    self.at = at + 1;
                    self.skip_blanks();
                    if !self.rest().is_empty() {
                        return self.expected("the end of the line after `$`");
                    }
                    return Ok((nibbles, true));
                }
                c => match c.to_digit(16) {
                    Some(digit) => nibbles.push(Some(digit as u8)),
                    None if c == '#' => {
                        let message = format!("found a comment after packet data, expected {what}");
                        return self.error(at..self.text.trim_end().len(), message);
                    }
                    None => {
                        return self.error(at..at + c.len_utf8(), format!("found `{c}`, expected {what}"));
                    }
                },
            }
        }
        self.at = self.text.len();
        Ok((nibbles, false))
    }
}

/// The hex digits of a MAC address at the start of the text, and its length.
fn mac_address(text: &str) -> Option<(String, usize)> {
    const LEN: usize = "00:11:22:33:44:55".len();
    let word = text.get(..LEN)?;
    let parts: Vec<&str> = word.split(':').collect();
    let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let ends = !text[LEN..].starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '*' | '_'));
    (parts.len() == 6 && parts.iter().all(is_byte) && ends).then(|| (parts.concat(), LEN))
}
