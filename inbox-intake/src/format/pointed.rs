//! Single values of a body of JSON.

use outbox_core::Pointer;

/// The JSON that is at each pointer in a body, as it is written; nothing else of the body is built.
pub(super) fn pointed<'b, const N: usize>(
    body: &'b [u8],
    pointers: [Option<&Pointer>; N],
) -> serde_json::Result<[Option<&'b str>; N]> {
    let known: Vec<Pointer> = pointers.iter().flatten().copied().cloned().collect();
    let mut found = [None; N];
    if !known.is_empty() {
        Pointer::find_all(&known, body, &mut found)?;
    }
    let mut found = found.into_iter();
    Ok(pointers.map(|pointer| pointer.and_then(|_| found.next().flatten())))
}
