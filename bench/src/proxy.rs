//! A way to the database that takes time: every byte arrives later, and no byte waits for another's answer.
//! Threads, not tasks: a task's timer ticks in milliseconds.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use xtask::failure::{Explain as _, Outcome};

/// What one read takes at most.
const PIECE_MAX: usize = 64 * 1024;

/// Bytes, and when they arrive.
type Piece = (Instant, Vec<u8>);

/// Listens for the rest of this process's life; returns the port. Half of `round_trip` is added each way.
pub(crate) fn start(upstream: String, round_trip: Duration) -> Outcome<u16> {
    let doing = || "cannot start the way that takes time".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").explain(doing)?;
    let port = listener.local_addr().explain(doing)?.port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client whose connection cannot be made finds it closed.
            if let Ok(server) = TcpStream::connect(&upstream) {
                drop(join(client, server, round_trip / 2));
            }
        }
    });
    Ok(port)
}

fn join(client: TcpStream, server: TcpStream, delay: Duration) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    for (from, to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        let (sender, receiver) = channel();
        thread::spawn(move || read(from, &sender, delay));
        thread::spawn(move || write(to, &receiver));
    }
    Ok(())
}

fn read(mut from: TcpStream, sender: &Sender<Piece>, delay: Duration) {
    let mut buffer = vec![0; PIECE_MAX];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if sender.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
            break;
        }
    }
}

fn write(mut to: TcpStream, receiver: &Receiver<Piece>) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // The other direction ends when its reader finds the connection closed.
    drop(to.shutdown(Shutdown::Both));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_takes_the_round_trip_longer() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() {
                stream.write_all(&byte).unwrap();
            }
        });
        let port = start(address, Duration::from_millis(20)).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let sent = Instant::now();
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        assert!(sent.elapsed() >= Duration::from_millis(20));
    }
}
