//! A mail server that keeps what it is sent: as little of SMTP as one client needs, without TLS.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::RwLock,
};

use crate::Error;

/// A mail that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// Whom it is for.
    pub to: String,
    /// `Message-ID`.
    pub id: String,
    /// `Subject`.
    pub subject: String,
}

/// What the server says to `RCPT` if it does not take mail for this recipient, who was named so many times before.
pub type Refusal = fn(&str, usize) -> Option<&'static str>;

/// A mail server. It ends with its lesson.
#[derive(Clone)]
pub struct MailServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whoever holds this to write holds the answers to mails back.
    pub answers: Arc<RwLock<()>>,
    refusal: Refusal,
    named: Arc<Mutex<HashMap<String, usize>>>,
    mails: Arc<Mutex<Vec<Mail>>>,
}

impl MailServer {
    /// Starts one.
    pub async fn start(refusal: Refusal) -> Result<Self, Error> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let server = Self {
            address: listener.local_addr()?,
            answers: Arc::default(),
            refusal,
            named: Arc::default(),
            mails: Arc::default(),
        };
        let listening = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = listening.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        Ok(server)
    }

    /// The mails that were taken for one recipient, in their order.
    pub fn mails(&self, to: &str) -> Vec<Mail> {
        let mails = self.mails.lock().unwrap_or_else(PoisonError::into_inner);
        mails.iter().filter(|mail| mail.to == to).cloned().collect()
    }

    /// How often a recipient was named.
    pub fn attempts(&self, to: &str) -> usize {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.get(to).copied().unwrap_or_default()
    }

    /// One connection.
    async fn serve(self, stream: TcpStream) -> io::Result<()> {
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        let mut recipient = String::new();
        write.write_all(b"220 mail.example\r\n").await?;
        while let Some(line) = lines.next_line().await? {
            let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
            let answer = match &*verb {
                "RCPT" => {
                    recipient = line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
                    self.refused(&recipient).unwrap_or("250 2.1.5 go on")
                }
                "DATA" => {
                    write.write_all(b"354 until a line with a dot\r\n").await?;
                    let mut mail =
                        Mail { to: recipient.clone(), id: String::new(), subject: String::new() };
                    while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                        match line.split_once(": ") {
                            Some(("Message-ID", id)) => id.clone_into(&mut mail.id),
                            Some(("Subject", subject)) => subject.clone_into(&mut mail.subject),
                            _ => {}
                        }
                    }
                    self.mails.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
                    drop(self.answers.read().await);
                    "250 2.0.0 taken"
                }
                "EHLO" => "250 mail.example",
                "MAIL" | "RSET" | "NOOP" => "250 2.0.0 go on",
                "QUIT" => "221 2.0.0 bye",
                _ => "502 5.5.1 not here",
            };
            write.write_all(format!("{answer}\r\n").as_bytes()).await?;
            if verb == "QUIT" {
                break;
            }
        }
        Ok(())
    }

    fn refused(&self, recipient: &str) -> Option<&'static str> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let times = named.entry(recipient.to_owned()).or_default();
        *times += 1;
        (self.refusal)(recipient, *times - 1)
    }
}
