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

/// A table that was made anew without its keys has the rows, and all statements work on it but those that mean them.
pub async fn a_table_without_its_unique_index_is_a_fatal_finding<DB: Probe>(
    settings: DB::Settings,
) {
    let mut scene = Scene::<DB>::new(settings, "schema").await;
    for (table, columns) in [
        ("inbox_consumers", "consumer"),
        ("inbox_events", "consumer_ref, event_id"),
        ("inbox_lanes", "lane, partition_ref"),
        ("inbox_parked", "leader_epoch, offset, partition_ref"),
        ("inbox_partitions", "consumer_ref, partition, topic, topic_id"),
        ("inbox_suspects", "offset, partition_ref"),
        ("inbox_versions", "aggregate_key, consumer_ref"),
    ] {
        let rename = format!("ALTER TABLE {table} RENAME TO kept");
        let copy = format!("CREATE TABLE {table} AS SELECT * FROM kept");
        scene.run(&format!("{rename}; {copy}")).await;
        let found = DB::findings(&mut scene.session).await.expect("findings");
        scene.run(&format!("DROP TABLE {table}; ALTER TABLE kept RENAME TO {table}")).await;
        let told = format!("no unique index of {table} has exactly the column(s) {columns}");
        let fatal = found.iter().filter(|finding| finding.fatal).collect::<Vec<_>>();
        assert!(matches!(&*fatal, [one] if one.text.starts_with(&told)), "{table}: {found:?}");
    }
    let found = DB::findings(&mut scene.session).await.expect("findings");
    assert!(found.iter().all(|finding| !finding.fatal), "{found:?}");
}

/// A database whose inbox tables were dropped, which must be empty.
async fn empty<DB: Probe>(settings: DB::Settings) -> Scene<DB> {
    let mut scene = Scene::<DB>::new(settings, "schema").await;
    let events = scene.number("SELECT count(*) FROM inbox_events").await;
    assert_eq!(events, 0, "the suite drops the tables: give it an empty database");
    scene.run(DB::DOWN).await;
    scene
}
