//! Parameters and headers that the original service of an API has and this server refuses.
//!
//! An input that is accepted and ignored widens a result or breaks a promise. An API names such
//! inputs ([`ServedApi::refusing`](crate::ServedApi::refusing)). A call that has such an input is
//! refused before its handler sees the call.

use std::collections::HashMap;

use http::HeaderMap;
use windlass_discovery::Method;
use windlass_proto::parameters::Parameters;

use crate::handler::{Input, RefusedAs, Rejection};

/// An input that a call must not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedInput {
    /// The input. `*` at the end of a header's name stands for any rest, as in
    /// `x-goog-encryption-*`.
    pub input: Input,
    /// Ids of the methods that refuse the input; `None` for all methods of the API.
    pub methods: Option<Vec<String>>,
    /// Values that ask for the server's usual behaviour. They are accepted, and so is an empty
    /// value.
    pub allowed: Vec<String>,
    /// Whether an empty value is refused too. For a parameter that takes effect by its presence,
    /// such as `?acl`.
    pub also_empty: bool,
    /// The status of the refusal.
    pub refused_as: RefusedAs,
    /// Why the input is refused, and the remedy. Clients read it after the name of the input.
    pub reason: String,
}

impl RefusedInput {
    fn is_asked(&self, method: &Method, value: &str) -> bool {
        let methods = self.methods.as_ref();
        let is_of_method = methods.is_none_or(|methods| methods.contains(&method.id));
        let is_allowed = |allowed: &String| allowed.eq_ignore_ascii_case(value);
        let is_given = self.also_empty || !value.is_empty();
        is_of_method && is_given && !self.allowed.iter().any(is_allowed)
    }

    fn refusal(&self, input: Input) -> Rejection {
        Rejection::RefusedInput {
            input,
            refused_as: self.refused_as,
            reason: self.reason.clone(),
        }
    }
}

/// The refused inputs of an API, by their names.
#[derive(Debug, Clone, Default)]
pub struct RefusedInputs {
    parameters: HashMap<String, Vec<RefusedInput>>,
    headers: HashMap<String, Vec<RefusedInput>>,
    /// Refused headers with names that end with `*`. The text is the name without the `*`.
    header_prefixes: Vec<(String, RefusedInput)>,
}

impl FromIterator<RefusedInput> for RefusedInputs {
    fn from_iter<I: IntoIterator<Item = RefusedInput>>(refused: I) -> Self {
        let mut inputs = Self::default();
        for refused in refused {
            match &refused.input {
                Input::Parameter(name) => {
                    let of_name = inputs.parameters.entry(name.clone()).or_default();
                    of_name.push(refused);
                }
                Input::Header(name) => {
                    if let Some(prefix) = name.strip_suffix('*') {
                        inputs.header_prefixes.push((prefix.to_owned(), refused));
                    } else {
                        let of_name = inputs.headers.entry(name.clone()).or_default();
                        of_name.push(refused);
                    }
                }
            }
        }
        inputs
    }
}

impl RefusedInputs {
    /// Refuses a call of `method` that has one of the inputs.
    pub fn check(
        &self,
        method: &Method,
        query: &Parameters,
        headers: &HeaderMap,
    ) -> Result<(), Rejection> {
        self.check_query(method, query)?;
        self.check_headers(method, headers)
    }

    fn check_query(&self, method: &Method, query: &Parameters) -> Result<(), Rejection> {
        for (name, value) in query.iter() {
            let mut of_name = self.parameters.get(name).into_iter().flatten();
            if let Some(refused) = of_name.find(|it| it.is_asked(method, value)) {
                return Err(refused.refusal(Input::Parameter(name.to_owned())));
            }
        }
        Ok(())
    }

    /// Whether a method refuses the header of this name, with some value.
    pub(crate) fn names_header(&self, name: &str) -> bool {
        let mut prefixes = self.header_prefixes.iter();
        self.headers.contains_key(name) || prefixes.any(|(prefix, _)| name.starts_with(&**prefix))
    }

    /// Like [`RefusedInputs::check`], for a request with a query that is not the method's, such as
    /// a request to a session.
    pub fn check_headers(&self, method: &Method, headers: &HeaderMap) -> Result<(), Rejection> {
        for (name, value) in headers {
            let name = name.as_str();
            let exact = self.headers.get(name).into_iter().flatten();
            let prefixes = self.header_prefixes.iter();
            let by_prefix = prefixes.filter(|(prefix, _)| name.starts_with(&**prefix));
            let mut of_name = exact.chain(by_prefix.map(|(_, refused)| refused));
            let value = String::from_utf8_lossy(value.as_bytes());
            if let Some(refused) = of_name.find(|it| it.is_asked(method, value.trim())) {
                return Err(refused.refusal(Input::Header(name.to_owned())));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
