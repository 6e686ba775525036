//! A statement's text. In ablation builds a rule that is switched off takes its fragment with it. For the relay:
//! the stores have theirs in tables (`ablation.rs`).

use crate::Rule;

/// A constant statement with the fragments that enforce rules.
#[derive(Debug)]
pub struct Statement {
    text: &'static str,
    cuts: &'static [Cut],
    #[cfg(feature = "ablation")]
    cut: std::sync::OnceLock<String>,
}

/// While `rule` is off, `instead` stands where `fragment` was.
#[derive(Debug)]
pub struct Cut {
    rule: Rule,
    fragment: &'static str,
    #[cfg(feature = "ablation")]
    instead: &'static str,
}

impl Cut {
    /// Names the fragment of the statement that enforces the rule.
    pub const fn new(rule: Rule, fragment: &'static str, instead: &'static str) -> Self {
        #[cfg(not(feature = "ablation"))]
        let _ = instead;
        Self {
            rule,
            fragment,
            #[cfg(feature = "ablation")]
            instead,
        }
    }
}

impl Statement {
    /// A statement whose rules can be switched off in ablation builds, and only there.
    pub const fn new(text: &'static str, cuts: &'static [Cut]) -> Self {
        Self {
            text,
            cuts,
            #[cfg(feature = "ablation")]
            cut: std::sync::OnceLock::new(),
        }
    }

    /// The text to send.
    #[cfg(not(feature = "ablation"))]
    #[inline]
    pub fn text(&'static self) -> &'static str {
        self.text
    }

    /// The text to send, without the fragments of the rules that are off.
    #[cfg(feature = "ablation")]
    pub fn text(&'static self) -> &'static str {
        self.cut.get_or_init(|| {
            self.cuts.iter().filter(|cut| !cut.rule.on()).fold(self.text.to_owned(), |text, cut| {
                let Cut { rule, fragment, instead } = cut;
                assert!(text.contains(fragment), "{rule:?} is not in its statement: {fragment}");
                text.replace(fragment, instead)
            })
        })
    }

    /// For tests.
    ///
    /// # Panics
    ///
    /// When a fragment is not in the text any more: the ablation would prove nothing.
    pub fn check(&self) {
        for cut in self.cuts {
            let there = self.text.contains(cut.fragment);
            assert!(there, "{:?}: {}\nis not in\n{}", cut.rule, cut.fragment, self.text);
        }
    }
}
