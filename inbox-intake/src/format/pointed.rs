//! Single values of a body of JSON.

use outbox_core::Pointer;

/// The JSON that is at each pointer in a body, as it is written; nothing else of the body is built. A pointer that is
/// none leads nowhere.
pub(super) fn pointed<'b, const N: usize>(
    body: &'b [u8],
    pointers: [Option<&str>; N],
) -> serde_json::Result<[Option<&'b str>; N]> {
    let pointers = pointers.map(|pointer| pointer?.parse::<Pointer>().ok());
    let known: Vec<Pointer> = pointers.iter().flatten().cloned().collect();
    let mut found = [None; N];
    if !known.is_empty() {
        Pointer::find_all(&known, body, &mut found)?;
    }
    let mut found = found.into_iter();
    Ok(pointers.map(|pointer| pointer.and_then(|_| found.next().flatten())))
}
