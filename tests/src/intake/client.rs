//! A client of an intake.

use std::time::Duration;

use serde_json::Value;

/// Sends events.
#[derive(Clone, Debug)]
pub struct Client {
    url: String,
    http: reqwest::Client,
}

/// What came back.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Retry-After`.
    pub after: Option<String>,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// What became of the one event of the request.
    pub fn event(&self) -> &str {
        self.body["status"].as_str().unwrap_or_default()
    }

    /// What became of each event of a list.
    pub fn events(&self) -> Vec<&str> {
        let events = self.body["events"].as_array().map(Vec::as_slice).unwrap_or_default();
        events.iter().map(|event| event["status"].as_str().unwrap_or_default()).collect()
    }
}

impl Client {
    /// Of a server, `host:port`.
    ///
    /// # Panics
    /// When no client can be made.
    #[must_use]
    pub fn new(address: &str) -> Self {
        // Whoever was first has installed it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).no_proxy().build();
        Self { url: format!("http://{address}/events"), http: http.expect("a client") }
    }

    /// Sends a body with headers.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn try_send(
        &self,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Result<Answer, reqwest::Error> {
        let mut request = self.http.post(&self.url).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(request).await
    }

    /// The same, to a server that answers.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn send(&self, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Answer {
        self.try_send(headers, body).await.expect("an answer")
    }

    /// Sends an empty request by any method to a path below that of events.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn request(&self, method: reqwest::Method, below: &str) -> Answer {
        answer(self.http.request(method, format!("{}{below}", self.url))).await.expect("an answer")
    }

    /// Sends our envelope, or a list of them.
    pub async fn envelope(&self, body: &Value) -> Answer {
        self.send(&[("content-type", "application/json")], body.to_string()).await
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let after = response.headers().get("retry-after");
    let after = after.and_then(|after| after.to_str().ok()).map(str::to_owned);
    let body = response.bytes().await?;
    Ok(Answer { status, after, body: serde_json::from_slice(&body).unwrap_or_default() })
}
