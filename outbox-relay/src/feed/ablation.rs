//! The fragments of statements that keep rules, for builds that switch rules off. A statement names its own by
//! `cuts!`.

#[cfg(feature = "postgres")]
pub(super) mod postgres {
    use inbox_engine::internal::{Cut, Rule};

    const TOKEN: Cut = Cut::new(Rule::TurnHasToken, "token = $2", "$2::uuid IS NOT NULL");
    const SENT: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = s.event_id", "");
    const FAILED: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = f.event_id", "");

    pub(crate) const TURN: &[Cut] = &[TOKEN];
    pub(crate) const MARK_SENT: &[Cut] = &[TOKEN, SENT];
    pub(crate) const MARK: &[Cut] = &[TOKEN, SENT, FAILED];
}

#[cfg(feature = "sqlite")]
pub(super) mod sqlite {
    use inbox_engine::internal::{Cut, Rule};

    pub(crate) const TURN: &[Cut] = &[Cut::new(Rule::TurnHasToken, "token = ?2", "?2 IS NOT NULL")];
    pub(crate) const SENT: &[Cut] =
        &[Cut::new(Rule::MarkNamesEvent, " AND outbox_events.event_id = s.event_id", "")];
    pub(crate) const FAILED: &[Cut] =
        &[Cut::new(Rule::MarkNamesEvent, "event_id = ?2", "?2 IS NOT NULL")];
}

#[cfg(test)]
mod tests {
    use inbox_engine::internal::Statement;

    use crate::feed::flow::turn::TurnSql;

    fn check<DB: TurnSql>(marks: &[&Statement]) {
        let turns = DB::turns();
        marks.iter().copied().chain([&turns.keep, &turns.give_up]).for_each(Statement::check);
    }

    #[test]
    fn each_cut_is_in_its_statement() {
        #[cfg(feature = "postgres")]
        check::<sqlx::Postgres>(&crate::feed::postgres::marks());
        #[cfg(feature = "sqlite")]
        check::<sqlx::Sqlite>(&crate::feed::sqlite::marks());
    }
}
