//! The tables: migrated once, printed as migrated, without findings.

use super::{Probe, scene::Scene};

/// Migrating twice does nothing the second time; the script down and up again works.
pub async fn the_schema_migrates_once<DB: Probe>(settings: DB::Settings) {
    let mut scene = empty::<DB>(settings).await;
    assert_eq!(DB::version(&mut scene.session).await.expect("version"), None);
    let all: Vec<i64> = (1..=DB::newest()).collect();
    assert_eq!(DB::migrate(&mut scene.session).await.expect("migrate"), all);
    let none: Vec<i64> = Vec::new();
    assert_eq!(DB::migrate(&mut scene.session).await.expect("migrate again"), none);
    assert_eq!(DB::version(&mut scene.session).await.expect("version"), Some(DB::newest()));
}

/// For teams with their own tool: what is printed is what is migrated.
pub async fn the_printed_schema_is_the_migrated_one<DB: Probe>(settings: DB::Settings) {
    let mut scene = empty::<DB>(settings).await;
    scene.run(&DB::print()).await;
    assert_eq!(DB::version(&mut scene.session).await.expect("version"), Some(DB::newest()));
    let none: Vec<i64> = Vec::new();
    assert_eq!(DB::migrate(&mut scene.session).await.expect("migrate"), none);
}

/// `check` is content with what `migrate` made, and not without it.
pub async fn a_migrated_database_has_no_fatal_finding<DB: Probe>(settings: DB::Settings) {
    let mut scene = empty::<DB>(settings).await;
    let missing = DB::findings(&mut scene.session).await.expect("findings");
    assert!(missing.iter().any(|finding| finding.fatal && finding.text.contains("migrate")));
    DB::migrate(&mut scene.session).await.expect("migrate");
    let findings = DB::findings(&mut scene.session).await.expect("findings");
    assert!(findings.iter().all(|finding| !finding.fatal), "{findings:?}");
}

/// A database whose inbox tables were dropped, which must be empty.
async fn empty<DB: Probe>(settings: DB::Settings) -> Scene<DB> {
    let mut scene = Scene::<DB>::new(settings, "schema").await;
    let events = scene.number("SELECT count(*) FROM inbox_events").await;
    assert_eq!(events, 0, "the suite drops the tables: give it an empty database");
    scene.run(DB::DOWN).await;
    scene
}
