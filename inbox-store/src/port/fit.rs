//! What the version of the tables means for a build.

/// Whether a build can work on tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fit {
    /// They are its own.
    Own,
    /// They are one version newer: a migration never breaks the build before it, so that old and new
    /// processes run side by side while a new version is deployed.
    Newer(String),
    /// They are missing, older, or newer by more: what to do.
    Unfit(String),
}

impl Fit {
    /// `tables` is `inbox` or `outbox`.
    pub fn of(tables: &str, version: Option<i64>, newest: i64) -> Self {
        let Some(version) = version else {
            return Self::Unfit(format!(
                "the database has no {tables} tables; run the `migrate` command (or `migrate --print` and \
                 your own tool) to bring it to version {newest}"
            ));
        };
        match version - newest {
            0 => Self::Own,
            1 => Self::Newer(format!(
                "the {tables} tables have version {version}, this build supports {newest}: \
                 expected while a new version is deployed; deploy it here, too"
            )),
            ..0 => Self::Unfit(format!(
                "the {tables} tables have version {version}, this build needs {newest}; run the `migrate` \
                 command"
            )),
            _ => Self::Unfit(format!(
                "the {tables} tables have version {version}, this build supports up to {newest}; \
                 deploy the newer build that migrated them"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_may_be_one_version_ahead_of_a_build_and_not_behind_it() {
        assert_eq!(Fit::of("inbox", Some(2), 2), Fit::Own);
        assert!(
            matches!(Fit::of("inbox", Some(3), 2), Fit::Newer(text) if text.contains("deploy"))
        );
        for (version, advice) in
            [(None, "run the `migrate`"), (Some(1), "run the `migrate`"), (Some(4), "newer build")]
        {
            let Fit::Unfit(text) = Fit::of("inbox", version, 2) else { panic!("{version:?}") };
            assert!(text.contains(advice), "{text}");
        }
    }
}
