//! A statement's text. In ablation builds a rule that is switched off takes its fragment with it.

use inbox_engine::Rule;

/// A constant statement with the fragments that enforce rules.
pub(crate) struct Statement {
    text: &'static str,
    #[cfg(any(test, feature = "ablation"))]
    cuts: &'static [Cut],
    #[cfg(feature = "ablation")]
    cut: std::sync::OnceLock<String>,
}

/// While `rule` is off, `instead` stands where `fragment` was.
pub(crate) struct Cut {
    #[cfg(any(test, feature = "ablation"))]
    rule: Rule,
    #[cfg(any(test, feature = "ablation"))]
    fragment: &'static str,
    #[cfg(feature = "ablation")]
    instead: &'static str,
}

impl Cut {
    /// Names the fragment of the statement that enforces the rule.
    pub(crate) const fn new(rule: Rule, fragment: &'static str, instead: &'static str) -> Self {
        #[cfg(not(any(test, feature = "ablation")))]
        let _ = (rule, fragment);
        #[cfg(not(feature = "ablation"))]
        let _ = instead;
        Self {
            #[cfg(any(test, feature = "ablation"))]
            rule,
            #[cfg(any(test, feature = "ablation"))]
            fragment,
            #[cfg(feature = "ablation")]
            instead,
        }
    }
}

impl Statement {
    /// A statement whose rules can be switched off in ablation builds, and only there.
    pub(crate) const fn new(text: &'static str, cuts: &'static [Cut]) -> Self {
        #[cfg(not(any(test, feature = "ablation")))]
        let _ = cuts;
        Self {
            text,
            #[cfg(any(test, feature = "ablation"))]
            cuts,
            #[cfg(feature = "ablation")]
            cut: std::sync::OnceLock::new(),
        }
    }

    /// The text to send.
    #[cfg(not(feature = "ablation"))]
    #[inline]
    pub(crate) fn text(&'static self) -> &'static str {
        self.text
    }

    /// The text to send, without the fragments of the rules that are off.
    #[cfg(feature = "ablation")]
    pub(crate) fn text(&'static self) -> &'static str {
        self.cut.get_or_init(|| {
            self.cuts.iter().filter(|cut| !cut.rule.on()).fold(self.text.to_owned(), |text, cut| {
                let Cut { rule, fragment, instead } = cut;
                assert!(text.contains(fragment), "{rule:?} is not in its statement: {fragment}");
                text.replace(fragment, instead)
            })
        })
    }

    /// Fails when a fragment is not in the text any more: the ablation would prove nothing.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for cut in self.cuts {
            let there = self.text.contains(cut.fragment);
            assert!(there, "{:?}: {}\nis not in\n{}", cut.rule, cut.fragment, self.text);
        }
    }
}
