//! HTTP/1.1 messages as text: the requests that the tests' clients send, and the responses that they read.

use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case, in the order of the wire.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Null when the body is no JSON.
    pub(crate) json: Value,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// Takes the first response out of what was received; `None` while it is not all there.
    pub(crate) fn take(received: &mut Vec<u8>, head_only: bool) -> Option<Self> {
        let head_len = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&received[..head_len]).expect("a head of ASCII");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let status = status.parse().expect("a status");
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
        let length = if head_only || status == 304 { 0 } else { length };
        if received.len() < head_len + length {
            return None;
        }
        let message: Vec<u8> = received.drain(..head_len + length).collect();
        let body = String::from_utf8(message[head_len..].to_vec()).expect("a body of UTF-8");
        let json = serde_json::from_str(&body).unwrap_or(Value::Null);
        Some(Self { status, headers, body, json })
    }
}

pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}")
}
