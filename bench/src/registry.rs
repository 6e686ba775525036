//! A schema registry that knows one schema: what a consumer asks one before it decodes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use xtask::failure::{Explain as _, Outcome};

/// Serves a schema of Avro, whatever is asked for, until the process ends. Answers where.
pub(crate) fn serve(schema: &str) -> Outcome<String> {
    let doing = || "cannot serve a schema registry".to_owned();
    let listener = TcpListener::bind(("127.0.0.1", 0)).explain(doing)?;
    let address = listener.local_addr().explain(doing)?;
    let body = serde_json::json!({ "schema": schema }).to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever is not answered says so.
            drop(answer(&stream, &body));
        }
    });
    Ok(format!("http://{address}"))
}

fn answer(mut stream: &TcpStream, body: &str) -> std::io::Result<()> {
    for line in BufReader::new(stream).lines() {
        if line?.is_empty() {
            break;
        }
    }
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}
