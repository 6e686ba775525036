//! Queued statements: many in one round trip, by a temporary function of the session.
//!
//! A text that the session's function does not know is sent by itself, in its turn, and goes into the
//! book; sessions learn it before their next transaction.

use sqlx::{
    AssertSqlSafe, Encode, PgConnection, Postgres, SqlSafeStr, SqlStr, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgArguments, PgDatabaseError, PgTypeInfo, types::Oid},
};
use std::sync::LazyLock;

use super::{
    declared::{make_functions, quote},
    sent::on,
};
use crate::{
    port::{
        EncodedValues, QueuedStatement, QueuedValues, Queues, RegistrySnapshot, SendContext,
        SendError, Sessions, StatementRegistry, StatementText, TextCheck,
    },
    queued::{self, FAILED_AT, KINDS},
    sql::{Dialect, verbs},
};

/// The most statements in one round trip: it has to stay far below any time-out of a statement.
const TOGETHER_MAX: usize = 1_000;
/// The most bytes of values in one round trip.
const TOGETHER_BYTES_MAX: usize = 1 << 20;

/// Without a name for the statement that fails, and with one.
static CALLS: LazyLock<[SqlStr; 2]> =
    LazyLock::new(|| [false, true].map(|names| AssertSqlSafe(queued::call(names)).into_sql_str()));

impl Queues for Postgres {
    fn values() -> QueuedValues<Self> {
        QueuedValues::Encoded(EncodedValues::default())
    }

    fn bind<'t, T: Encode<'t, Self> + Type<Self>>(
        values: &mut QueuedValues<Self>,
        value: T,
    ) -> Result<usize, BoxDynError> {
        let apart = match values {
            QueuedValues::Bound(arguments) => {
                let bytes = value.size_hint();
                sqlx::Arguments::add(arguments, value)?;
                return Ok(bytes);
            }
            QueuedValues::Encoded(apart) => apart,
        };
        let kind = value.produces().unwrap_or_else(T::type_info);
        match kind.oid().filter(|oid| queued::place_of(oid.0).is_some()) {
            Some(oid) => push(apart, oid.0, value),
            None => {
                // Its encoding needs the connection: the statement goes by itself.
                let mut arguments = arguments(apart)?;
                let bytes = value.size_hint();
                sqlx::Arguments::add(&mut arguments, value)?;
                *values = QueuedValues::Bound(arguments);
                Ok(bytes)
            }
        }
    }

    fn check_text(sql: &str) -> TextCheck {
        verbs::check(sql, Dialect::Postgres, Self::refuses)
    }

    async fn prepare_session(
        conn: &mut PgConnection,
        snapshot: &RegistrySnapshot,
    ) -> Result<(), sqlx::Error> {
        if snapshot.texts.is_empty() {
            return Ok(());
        }
        make_functions(conn, &functions(snapshot)).await
    }

    async fn send(
        conn: &mut PgConnection,
        mut context: SendContext<'_>,
        mut waiting: Vec<QueuedStatement<Self>>,
    ) -> Result<(), SendError> {
        let registry = context.registry;
        let mut learned = Learned {
            registry: registry.filter(|registry| registry.accepts_texts()),
            texts: Vec::new(),
        };
        let mut at = 0;
        while at < waiting.len() {
            let together = together(context.snapshot, &waiting[at..]);
            if together.len() > 1 {
                let (count, names) = (together.len(), context.may_name());
                let sent = looped(conn, names, &together).await;
                sent.map_err(|error| failed(error, registry, &waiting, at))?;
                at += count;
                continue;
            }
            let sent = alone(conn, &mut waiting[at]).await;
            sent.map_err(|error| SendError { at: Some(at), error })?;
            learned.note(&waiting[at]);
            at += 1;
        }
        learned.write();
        Ok(())
    }
}

/// Makes the functions that run the texts of an edition.
pub(crate) fn functions(snapshot: &RegistrySnapshot) -> String {
    [true, false].map(|names| function(snapshot, names)).concat()
}

fn function(snapshot: &RegistrySnapshot, names: bool) -> String {
    let body = queued::body(snapshot, names);
    let (takes, quote) = (queued::takes(names), quote(&body));
    format!(
        "CREATE OR REPLACE FUNCTION {takes} RETURNS void LANGUAGE plpgsql AS {quote}{body}{quote};\n"
    )
}

/// Encodes a value behind the others, as the driver itself would.
fn push<'t, T: Encode<'t, Postgres>>(
    apart: &mut EncodedValues,
    oid: u32,
    value: T,
) -> Result<usize, BoxDynError> {
    let mut buffer = PgArgumentBuffer::default();
    let start = apart.bytes.len();
    *buffer = std::mem::take(&mut apart.bytes);
    buffer.extend_from_slice(&[0; 4]);
    let encoded = value.encode(&mut buffer);
    apart.bytes = std::mem::take(&mut *buffer);
    let written = apart.bytes.len().saturating_sub(start + 4);
    let length = match encoded {
        Ok(IsNull::No) => i32::try_from(written)?,
        Ok(IsNull::Yes) => -1,
        Err(error) => {
            apart.bytes.truncate(start);
            return Err(error);
        }
    };
    apart.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    apart.types.push(oid);
    Ok(written + 4)
}

/// Each value with its type, as it was written.
fn values(apart: &EncodedValues) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = apart.bytes.as_slice();
    apart.types.iter().map_while(move |oid| {
        let (length, _) = rest.split_first_chunk::<4>()?;
        let bytes = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (value, behind) = rest.split_at_checked(4 + bytes)?;
        rest = behind;
        Some((*oid, value))
    })
}

/// The values as the driver takes them.
fn arguments(apart: &EncodedValues) -> Result<PgArguments, BoxDynError> {
    let mut arguments = PgArguments::default();
    for (oid, value) in values(apart) {
        sqlx::Arguments::add(&mut arguments, Raw { oid, value })?;
    }
    Ok(arguments)
}

/// A value that is encoded already.
struct Raw<'a> {
    oid: u32,
    /// With its length in front.
    value: &'a [u8],
}

impl Type<Postgres> for Raw<'_> {
    fn type_info() -> PgTypeInfo {
        <Vec<u8> as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for Raw<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        if self.value.first().is_some_and(|&first| first >= 0x80) {
            return Ok(IsNull::Yes);
        }
        buffer.extend_from_slice(self.value.get(4..).unwrap_or_default());
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.oid)))
    }
}

/// Values of one type.
struct Column {
    array: u32,
    kind: u32,
    count: i32,
    /// Each behind its length, as arrays have them.
    values: Vec<u8>,
}

impl Type<Postgres> for Column {
    fn type_info() -> PgTypeInfo {
        <Vec<u8> as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for Column {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let dimensions = i32::from(self.count > 0);
        // The server counts NULLs itself.
        for number in [dimensions, 1] {
            buffer.extend_from_slice(&number.to_be_bytes());
        }
        buffer.extend_from_slice(&self.kind.to_be_bytes());
        if self.count > 0 {
            buffer.extend_from_slice(&self.count.to_be_bytes());
            buffer.extend_from_slice(&1_i32.to_be_bytes());
            buffer.extend_from_slice(&self.values);
        }
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.array)))
    }

    fn size_hint(&self) -> usize {
        self.values.len() + 20
    }
}

/// A statement that the session knows: its number, and its values.
type Known<'w> = (i16, &'w EncodedValues);

/// The statements at the beginning that can go together.
fn together<'w>(
    snapshot: Option<&RegistrySnapshot>,
    waiting: &'w [QueuedStatement<Postgres>],
) -> Vec<Known<'w>> {
    let Some(snapshot) = snapshot else { return Vec::new() };
    let (mut known, mut bytes): (Vec<Known<'w>>, _) = (Vec::new(), 0);
    for (at, statement) in waiting.iter().take(TOGETHER_MAX).enumerate() {
        let QueuedValues::Encoded(apart) = &statement.values else { break };
        // Most have the text of the one before: to compare it costs less than to hash it.
        let same = |(number, before): &Known<'w>| {
            let same = waiting[at - 1].sql == statement.sql && before.types == apart.types;
            same.then_some(*number)
        };
        let number = known.last().and_then(same);
        let number = number.or_else(|| snapshot.number_of(&statement.sql, &apart.types));
        let Some(number) = number else { break };
        bytes += apart.bytes.len();
        if bytes > TOGETHER_BYTES_MAX && !known.is_empty() {
            break;
        }
        known.push((number, apart));
    }
    known
}

/// One round trip.
async fn looped(
    conn: &mut PgConnection,
    names: bool,
    statements: &[Known<'_>],
) -> Result<(), sqlx::Error> {
    let which: Vec<i16> = statements.iter().map(|(number, _)| *number).collect();
    let mut columns = KINDS.map(|kind| Column {
        array: kind.array,
        kind: kind.oid,
        count: 0,
        values: Vec::new(),
    });
    for (oid, value) in statements.iter().flat_map(|(_, apart)| values(apart)) {
        let Some(place) = queued::place_of(oid) else { continue };
        columns[place].count += 1;
        columns[place].values.extend_from_slice(value);
    }
    let query = sqlx::query(CALLS[usize::from(names)].clone()).bind(which);
    let query = columns.into_iter().fold(query, sqlx::query::Query::bind);
    query.execute(on(conn)).await.map(drop)
}

async fn alone(
    conn: &mut PgConnection,
    statement: &mut QueuedStatement<Postgres>,
) -> Result<(), sqlx::Error> {
    let arguments = match &mut statement.values {
        QueuedValues::Encoded(apart) => arguments(apart).map_err(sqlx::Error::Encode)?,
        QueuedValues::Bound(arguments) => std::mem::take(arguments),
    };
    sqlx::query_with(statement.sql.clone(), arguments).execute(on(conn)).await.map(drop)
}

/// Which statement a loop that began at `from` failed at. What only the function may have been wrong
/// about is not put to it again.
fn failed(
    error: sqlx::Error,
    registry: Option<&StatementRegistry>,
    waiting: &[QueuedStatement<Postgres>],
    from: usize,
) -> SendError {
    let said =
        error.as_database_error().and_then(|said| said.try_downcast_ref::<PgDatabaseError>());
    let number = said.and_then(|said| said.data_type()?.strip_prefix(FAILED_AT)?.parse().ok());
    let at = number.and_then(|number: usize| Some(from + number.checked_sub(1)?));
    let doubtful = said.is_some_and(|said| said.code().starts_with("42") || said.code() == "0A000");
    if let Some(QueuedStatement { sql, values: QueuedValues::Encoded(apart), .. }) =
        at.and_then(|at| waiting.get(at)).filter(|_| doubtful)
        && let Some(registry) = registry
    {
        registry.exclude(sql, &apart.types);
    }
    SendError { at, error }
}

/// Texts that were sent by themselves, for the book.
struct Learned<'b> {
    registry: Option<&'b StatementRegistry>,
    /// Each with whether it fits.
    texts: Vec<(StatementText, bool)>,
}

impl Learned<'_> {
    fn note(&mut self, sent: &QueuedStatement<Postgres>) {
        let QueuedValues::Encoded(apart) = &sent.values else { return };
        let is =
            |(text, _): &(StatementText, bool)| text.sql == sent.sql && text.types == apart.types;
        if self.registry.is_none()
            || self.texts.len() == StatementRegistry::TEXTS_MAX
            || self.texts.iter().any(is)
        {
            return;
        }
        let text = StatementText { sql: sent.sql.clone(), types: apart.types.clone() };
        let fits = queued::fits(&text);
        self.texts.push((text, fits));
    }

    fn write(self) {
        let fit = self.texts.into_iter().filter_map(|(text, fits)| fits.then_some(text));
        let fit: Vec<StatementText> = fit.collect();
        if let Some(registry) = self.registry.filter(|_| !fit.is_empty()) {
            registry.add(fit);
        }
    }
}
