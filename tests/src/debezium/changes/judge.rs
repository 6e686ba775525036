//! Whether the read model is the source, and each change has had one effect.

use crate::Schema;

/// What has to be nothing, and what it is called.
const CHECKS: [(&str, &str); 7] = [
    (
        "rows of items that the read model has otherwise, or not",
        "SELECT count(*) FROM (SELECT id, n, name, doc, extra FROM items) s
            FULL JOIN shown_items m USING (id) WHERE (s.n, s.name, s.doc, s.extra) IS DISTINCT FROM (m.n, m.name, m.doc, m.extra)",
    ),
    (
        "rows of parts that the read model has otherwise, or not",
        "SELECT count(*) FROM parts s FULL JOIN shown_parts m USING (item, no)
            WHERE (s.n, s.name, s.doc) IS DISTINCT FROM (m.n, m.name, m.doc)",
    ),
    ("doubled effects", "SELECT count(*) - count(DISTINCT event_id) FROM effects"),
    (
        "effects too many, or too few",
        "SELECT abs((SELECT count(*) FROM effects) - (SELECT count(*) FROM history))",
    ),
    (
        "rows whose effects are not its changes in their order",
        "SELECT count(*) FROM
            (SELECT of, key, array_agg((op, n) ORDER BY seq) AS told FROM effects GROUP BY of, key) e
            FULL JOIN (SELECT of, key, array_agg((op, n) ORDER BY seq) AS told FROM history GROUP BY of, key) h USING (of, key)
            WHERE e.told::text IS DISTINCT FROM h.told::text",
    ),
    ("parked events", "SELECT count(*) FROM inbox_parked"),
    ("table whose new column nobody has filled", "SELECT (count(*) = 0)::int::bigint FROM items WHERE extra IS NOT NULL"),
];

/// What is wrong.
pub(super) async fn violations(schema: &Schema) -> Vec<String> {
    let mut found = Vec::new();
    for (what, sql) in CHECKS {
        let count = schema.number(sql).await;
        if count > 0 {
            found.push(format!("{count} {what}"));
        }
    }
    found
}
