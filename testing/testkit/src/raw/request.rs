//! A request as a test writes it.

/// A request that becomes exactly the bytes that it shows: headers in their order, none added but
/// `Host` at the beginning and, with a body, `Content-Length` at the end.
#[derive(Debug, Clone)]
pub struct Request {
    verb: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request without headers and without a body.
    pub fn new(verb: &str, target: impl Into<String>) -> Self {
        Self {
            verb: verb.to_owned(),
            target: target.into(),
            headers: vec![("Host".to_owned(), "farm.localhost".to_owned())],
            body: Vec::new(),
        }
    }

    /// Adds a header. A `Host` replaces the existing header.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a text or a number reads better than its address"
    )]
    pub fn header(mut self, name: &str, value: impl ToString) -> Self {
        if name == "Host" {
            self.headers.remove(0);
            self.headers.insert(0, (name.to_owned(), value.to_string()));
        } else {
            self.headers.push((name.to_owned(), value.to_string()));
        }
        self
    }

    /// Gives it a body and says how long that is.
    #[must_use]
    pub fn body(self, body: impl AsRef<[u8]>) -> Self {
        let length = body.as_ref().len();
        self.header("Content-Length", length).raw_body(body)
    }

    /// Sets the body. The headers have to state where it ends.
    #[must_use]
    pub fn raw_body(self, body: impl AsRef<[u8]>) -> Self {
        Self {
            body: body.as_ref().to_owned(),
            ..self
        }
    }

    /// Its method.
    pub fn verb(&self) -> &str {
        &self.verb
    }

    /// The head alone, with the empty line.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.verb, self.target);
        for (name, value) in &self.headers {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// All of it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
