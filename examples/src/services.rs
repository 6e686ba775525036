//! Where a lesson finds Kafka and PostgreSQL, and a place of its own on them.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use inbox_consumer::testing::broker::{create_topic, delete_topic};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, postgres::PgConnectOptions};
use uuid::Uuid;

use crate::Error;

const KAFKA: &str = "INBOX_TEST_KAFKA";
const POSTGRES: &str = "INBOX_TEST_POSTGRES";

/// A Kafka and a PostgreSQL. What was started for the lesson is stopped when this is dropped.
pub struct Services {
    /// Kafka's bootstrap list.
    pub kafka: String,
    postgres: String,
    /// Stops what it started when its input is closed.
    holder: Option<Child>,
    topics: Vec<String>,
    schemas: Vec<String>,
}

impl Services {
    /// Takes the services that the environment names, else those that the project's own command finds or starts.
    pub fn find_or_start() -> Result<Self, Error> {
        let [mut kafka, mut postgres] = [KAFKA, POSTGRES].map(read_variable);
        let mut holder = None;
        if kafka.is_none() || postgres.is_none() {
            println!("looking for Kafka and PostgreSQL, or starting them");
            let child = holder.insert(start_holder()?);
            let output = child.stdout.take().ok_or_else(|| Error::new("the output is piped"))?;
            for line in BufReader::new(output).lines() {
                let line = line?;
                match line.strip_prefix("export ").and_then(|export| export.split_once('=')) {
                    Some((KAFKA, address)) => kafka = Some(address.to_owned()),
                    Some((POSTGRES, address)) => postgres = Some(address.to_owned()),
                    // What takes its time, such as fetching Kafka.
                    _ => println!("{line}"),
                }
                if kafka.is_some() && postgres.is_some() {
                    break;
                }
            }
        }
        let (Some(kafka), Some(postgres)) = (kafka, postgres) else {
            return Err(Error::new(
                "there is no Kafka or no PostgreSQL; what is missing is said above",
            ));
        };
        let options: PgConnectOptions = postgres.parse()?;
        let (host, port) = (options.get_host(), options.get_port());
        println!("on Kafka {kafka} and PostgreSQL {host}:{port}");
        Ok(Self { kafka, postgres, holder, topics: Vec::new(), schemas: Vec::new() })
    }

    /// Creates a topic with three partitions; answers its name.
    pub async fn create_topic(&mut self, stem: &str) -> Result<String, Error> {
        let topic = unique(stem);
        create_topic(&self.kafka, &topic, 3).await?;
        self.topics.push(topic.clone());
        Ok(topic)
    }

    /// Creates an empty schema; answers a URL whose connections work in it, as if it were a database.
    pub async fn create_database(&mut self, stem: &str) -> Result<String, Error> {
        let schema = unique(stem).replace('-', "_");
        self.execute(format!("CREATE SCHEMA {schema}")).await?;
        let joint = if self.postgres.contains('?') { '&' } else { '?' };
        let url = format!("{}{joint}options=-c%20search_path%3D{schema}", self.postgres);
        self.schemas.push(schema);
        Ok(url)
    }

    /// Removes what the lesson created. After an error it stays where it is, to be looked at.
    pub async fn clean_up(mut self) -> Result<(), Error> {
        // What was started goes with everything in it.
        if self.holder.is_none() {
            for schema in std::mem::take(&mut self.schemas) {
                self.execute(format!("DROP SCHEMA {schema} CASCADE")).await?;
            }
            for topic in &self.topics {
                delete_topic(&self.kafka, topic).await?;
            }
        }
        Ok(())
    }

    async fn execute(&self, sql: String) -> Result<(), Error> {
        let mut connection = PgConnection::connect(&self.postgres).await?;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.holder {
            drop(holder.stdin.take());
            drop(holder.wait());
        }
    }
}

/// What a variable of the environment says.
fn read_variable(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

fn start_holder() -> Result<Child, Error> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["xtask", "services", "hold"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.spawn()?)
}

/// A name that nothing else has: `stem`, then a random end.
fn unique(stem: &str) -> String {
    let id = Uuid::now_v7().simple().to_string();
    format!("{stem}-{}", &id[20..])
}
