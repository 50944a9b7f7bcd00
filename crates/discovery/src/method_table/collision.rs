//! Methods of two APIs that cannot be told apart by a request.

use std::collections::HashMap;
use std::fmt;

use super::{MethodTable, Route, Target};
use crate::method::Method;

/// Two methods, of different APIs, that answer the same requests.
#[derive(Clone, Copy, Debug)]
pub struct Collision<'a> {
    /// The method that gets the requests.
    pub first: &'a Method,
    /// The method that gets none.
    pub second: &'a Method,
    /// The path of both, as the second one's template says it, without a leading slash.
    pub path: &'a str,
}

impl fmt::Display for Collision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            first,
            second,
            path,
        } = self;
        write!(
            f,
            "{} of {}:{} and {} of {}:{} both answer {} /{path}",
            first.id,
            first.api_name,
            first.api_version,
            second.id,
            second.api_name,
            second.api_version,
            second.http_method,
        )
    }
}

impl MethodTable {
    /// Two methods of different APIs with the same HTTP method and templates that match the same
    /// paths, on plain, upload or download paths; `None` when every method can be reached.
    ///
    /// Templates that only overlap, such as `{+name}` and `animals`, do not collide: the narrower one
    /// is meant where both match.
    pub fn collision(&self) -> Option<Collision<'_>> {
        let of_target = |plain: bool| {
            let routes = self.routes.iter();
            routes.filter(move |route| (route.target == Target::Plain) == plain)
        };
        let mut first_routes: HashMap<_, &Route> = HashMap::new();
        // The plain path says most to people, so it is looked at first.
        of_target(true).chain(of_target(false)).find_map(|second| {
            let key = (&second.method.http_method, second.template.paths());
            let first = *first_routes.entry(key).or_insert(second);
            (!same_api(&first.method, &second.method)).then(|| Collision {
                first: &first.method,
                second: &second.method,
                path: second.template.as_str(),
            })
        })
    }
}

fn same_api(first: &Method, second: &Method) -> bool {
    (&first.api_name, &first.api_version) == (&second.api_name, &second.api_version)
}
