//! Any text as SQL of both databases: tokens that stand in it in order, and one answer to what it does.

use std::ops::Range;

use inbox_consumer::testing::inside::{Sql, declare, is_step, look, tokens};
use inbox_store::internal::port::TextCheck;

/// Types of values that a queued statement may have: int8, text, int4[], the last of which no step has.
const TYPES: [&[u32]; 3] = [&[20], &[25, 20, 25], &[1007]];

/// Reads a text as both databases would.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for sql in [Sql::Postgres, Sql::Sqlite] {
        cut(text, sql);
        looked_at(text, |text| look(text, sql));
        declared(text, sql);
    }
    let steps = TYPES.map(|types| is_step(text, types));
    assert!(!steps[2], "an array is in no step");
}

/// Tokens follow each other, and each is the same where it stands alone.
fn cut(text: &str, sql: Sql) {
    let mut end = 0;
    for (token, Range { start, end: behind }) in tokens(text, sql) {
        assert!(end <= start && start < behind && behind <= text.len(), "{token} of {text:?}");
        let piece = text.get(start..behind).expect("a token does not end within a character");
        assert_eq!(tokens(piece, sql), [(token, 0..piece.len())], "{piece:?} of {text:?}");
        end = behind;
    }
}

fn looked_at(text: &str, look: impl Fn(&str) -> TextCheck) {
    let words = |look: &TextCheck| look.refused.as_ref().map(|refused| refused.words.clone());
    let seen = look(text);
    let behind = look(&format!("select 1;\n{text}"));
    assert_eq!(words(&seen), words(&behind), "behind another statement: {text:?}");
    assert_eq!(seen.stays, behind.stays, "behind another statement: {text:?}");
    let before = look(&format!("{text}\n;\nselect 1"));
    assert!(seen.refused.is_none() || before.refused.is_some(), "before another: {text:?}");
    // The tag of a dollar quote is what it is in capitals or small letters.
    if !text.contains('$') {
        let loud = look(&text.to_ascii_uppercase());
        assert_eq!(words(&seen), words(&loud), "in capitals: {text:?}");
        assert_eq!(seen.stays, loud.stays, "in capitals: {text:?}");
    }
}

/// What a declared handler sends holds the user's own text where it says, and cannot end early.
fn declared(text: &str, sql: Sql) {
    let Ok(declared) = declare(text, sql) else { return };
    let own: String = declared.whole.as_str().chars().skip(declared.before).collect();
    let skipped: String = text.chars().skip(declared.skipped).collect();
    assert!(skipped.starts_with(own.trim_end()), "{own:?} is where {skipped:?} is");
    let Some(each) = declared.each else { return };
    let create = each.create.as_str();
    let (_, body) = create.split_once(" LANGUAGE plpgsql AS $").expect("a function has a body");
    let (tag, _) = body.split_once('$').expect("it is in a dollar quote");
    assert_eq!(create.matches(&format!("${tag}$")).count(), 2, "{create}");
}
