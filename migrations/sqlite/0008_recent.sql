-- Nothing changes here: SQLite keeps one version of a row in the table, however many snapshots are open.
SELECT 1;
