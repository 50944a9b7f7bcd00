//! Routing: finds the method of a request among the methods of several APIs.
//!
//! Every method is found at its plain path. A method that accepts media is also found at that path
//! below `/upload/` and `/resumable/upload/`, because clients use both for all upload types, and at
//! the upload paths of its document if they differ. A method that returns media is also found below
//! `/download/`, even if its document does not mention it.
//!
//! A tree over the leading segments selects a few candidates for a path. Of the candidates that
//! match, the most specific template with the right HTTP method wins. Between APIs with equal
//! templates, the first API wins; [`MethodTable::collision`] finds such templates.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use http::Method as HttpMethod;

use crate::api::Api;
use crate::method::Method;
use crate::template::{Element, PathParameters, Template, without_leading_slash};

/// Finds the method of a request. See the [module](self).
#[derive(Debug, Default)]
pub struct MethodTable {
    /// The routes of the first group first, and within a group the most specific first.
    routes: Vec<Route>,
    tree: Node,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub enum Found<'a> {
    /// A method.
    Method {
        /// The method.
        method: &'a Arc<Method>,
        /// Which of its paths it was.
        target: Target,
        /// The variables of the path, decoded.
        parameters: PathParameters,
    },
    /// The path exists, but not with this HTTP method: 405.
    WrongHttpMethod {
        /// The HTTP methods for `Allow`, each once.
        allowed: Vec<HttpMethod>,
    },
    /// No method has this path: 404.
    Nothing,
}

/// The kind of path on which a method was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The plain path: the request carries no media.
    Plain,
    /// An upload path.
    Upload,
    /// The download path: the reply carries media.
    Download,
}

#[derive(Debug)]
struct Route {
    template: Template,
    target: Target,
    method: Arc<Method>,
}

/// The routes with templates that agree up to some segment.
///
/// The tree only narrows the choice; the template decides.
#[derive(Debug, Default)]
struct Node {
    literals: HashMap<String, Node>,
    one: Option<Box<Node>>,
    /// Routes with templates that end at this segment.
    ended: Vec<usize>,
    /// Routes with templates that continue with any number of segments.
    open: Vec<usize>,
}

impl MethodTable {
    /// Builds the table of the methods of these APIs.
    pub fn new<'a>(apis: impl IntoIterator<Item = &'a Api>) -> Self {
        Self::of_groups([apis])
    }

    /// Builds the table of groups of APIs. If methods of two groups match a request, the earlier
    /// group wins, even with a less specific template.
    pub fn of_groups<'a, G>(groups: impl IntoIterator<Item = G>) -> Self
    where
        G: IntoIterator<Item = &'a Api>,
    {
        let routes = groups.into_iter().flat_map(sorted_routes).collect();
        Self::of_routes(routes)
    }

    fn of_routes(routes: Vec<Route>) -> Self {
        let mut tree = Node::default();
        for (index, route) in routes.iter().enumerate() {
            tree.insert(&route.template.elements(), index);
        }
        Self { routes, tree }
    }

    /// Returns the method that a request calls. `raw_path` is percent-encoded and has no query. A
    /// trailing or doubled slash makes a different path.
    pub fn find(&self, http_method: &HttpMethod, raw_path: &str) -> Found<'_> {
        let mut allowed = Vec::new();
        for (route, parameters) in self.matching(raw_path) {
            let Route { method, target, .. } = route;
            if method.http_method == *http_method {
                return Found::Method {
                    method,
                    target: *target,
                    parameters,
                };
            }
            if !allowed.contains(&method.http_method) {
                allowed.push(method.http_method.clone());
            }
        }
        if allowed.is_empty() {
            Found::Nothing
        } else {
            Found::WrongHttpMethod { allowed }
        }
    }

    /// Returns the methods with a matching path, for any HTTP method, in order of preference.
    pub fn methods_at(&self, raw_path: &str) -> impl Iterator<Item = &Arc<Method>> {
        self.matching(raw_path).map(|(route, _)| &route.method)
    }

    fn matching(&self, raw_path: &str) -> impl Iterator<Item = (&Route, PathParameters)> {
        let candidates = self
            .tree
            .candidates(without_leading_slash(raw_path))
            .into_iter();
        candidates.filter_map(move |index| {
            let route = &self.routes[index];
            Some((route, route.template.match_path(raw_path)?))
        })
    }
}

impl Node {
    fn insert(&mut self, elements: &[Element], index: usize) {
        match elements.split_first() {
            None => self.ended.push(index),
            Some((Element::Many, _)) => self.open.push(index),
            Some((Element::One, rest)) => {
                self.one.get_or_insert_default().insert(rest, index);
            }
            Some((Element::Literal(text), rest)) => {
                self.literals
                    .entry(text.clone())
                    .or_default()
                    .insert(rest, index);
            }
        }
    }

    /// The routes that may match, in their order.
    fn candidates(&self, path: &str) -> Vec<usize> {
        let mut found = Vec::new();
        self.collect(Some(path), &mut found);
        found.sort_unstable();
        found
    }

    /// Collects the routes below this node. `path` is the rest of the path; `None` after the last
    /// segment.
    fn collect(&self, path: Option<&str>, found: &mut Vec<usize>) {
        found.extend(&self.open);
        let Some(path) = path else {
            found.extend(&self.ended);
            return;
        };
        let (segment, rest) = match path.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (path, None),
        };
        if let Some(node) = self.literals.get(segment) {
            node.collect(rest, found);
        }
        if let Some(node) = &self.one {
            node.collect(rest, found);
        }
    }
}

fn sorted_routes<'a>(apis: impl IntoIterator<Item = &'a Api>) -> Vec<Route> {
    let methods = apis.into_iter().flat_map(Api::methods);
    let mut routes: Vec<Route> = methods.flat_map(routes_of).collect();
    // The sort is stable, so equal templates stay in the order of their APIs.
    routes.sort_by_cached_key(|route| route.template.specificity());
    routes
}

fn routes_of(method: &Arc<Method>) -> Vec<Route> {
    let route = |template, target| Route {
        template,
        target,
        method: Arc::clone(method),
    };
    let mut routes = vec![route(method.template.clone(), Target::Plain)];
    routes.extend(
        upload_templates(method)
            .into_iter()
            .map(|it| route(it, Target::Upload)),
    );
    if method.supports_media_download {
        routes.push(route(method.template.below("download"), Target::Download));
    }
    routes
}

/// The usual upload paths, and the document's own where they differ.
fn upload_templates(method: &Method) -> Vec<Template> {
    let Some(upload) = &method.upload else {
        return Vec::new();
    };
    let mut templates = vec![
        method.template.below("upload"),
        method.template.below("resumable/upload"),
    ];
    for own in [&upload.simple_path, &upload.resumable_path]
        .into_iter()
        .flatten()
    {
        if !templates.contains(own) {
            templates.push(own.clone());
        }
    }
    templates
}

/// Two methods, of different APIs, that answer the same requests.
#[derive(Clone, Copy, Debug)]
pub struct Collision<'a> {
    /// The method that gets the requests.
    pub first: &'a Method,
    /// The method that receives no requests.
    pub second: &'a Method,
    /// The path of both, as in the template of the second method, without a leading slash.
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
    /// Templates that only overlap, such as `{+name}` and `animals`, do not collide: the narrower
    /// one is meant where both match.
    pub fn collision(&self) -> Option<Collision<'_>> {
        let of_target = |plain: bool| {
            let routes = self.routes.iter();
            routes.filter(move |route| (route.target == Target::Plain) == plain)
        };
        let mut first_routes: HashMap<_, &Route> = HashMap::new();
        // The plain path is checked first, since people recognise it best.
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

#[cfg(test)]
mod tests;
