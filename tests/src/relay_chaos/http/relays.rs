//! How relays are started that deliver by HTTP: each has a file of its own, which says its number to the receiver.

use std::{fs, path::Path};

use super::{
    receiver::{RELAY, SECRET},
    script::TIMEOUT,
};
use crate::{Executable, Worker, relay_chaos::fleet::Launch};

/// Relays of a program, with files in a folder, that reach the receiver at an address.
pub(super) fn launch(program: &Executable, folder: &Path, address: &str) -> Launch {
    let secret = folder.join("secret");
    fs::write(&secret, SECRET).expect("a folder takes files");
    let (program, folder) = (program.clone(), folder.to_path_buf());
    let address = address.to_owned();
    Box::new(move |outbox, number| {
        let file = folder.join(format!("relay-{number}.toml"));
        let text = format!(
            "[[routes]]\n\
             event_type = \"*\"\n\
             to = \"shop\"\n\n\
             [retry]\n\
             attempts_max = 1000\n\
             delay_min = \"50ms\"\n\
             delay_max = \"2s\"\n\n\
             [[webhooks]]\n\
             name = \"shop\"\n\
             url = \"http://{address}/events/{{aggregate_type}}\"\n\
             secret_files = [{secret:?}]\n\
             headers = [\"{RELAY}: {number}\"]\n\
             timeout = \"{}ms\"\n\
             connect_timeout = \"1s\"\n\
             calls_max = 32\n",
            TIMEOUT.as_millis()
        );
        fs::write(&file, text).expect("a folder takes files");
        let mut command = outbox.command(&program);
        Worker::spawn(command.env("OUTBOX_CONFIG", file).arg("run"))
    })
}
