-- Nothing changes here: SQLite keeps one version of a row in the table, whatever snapshots are open.
SELECT 1;
