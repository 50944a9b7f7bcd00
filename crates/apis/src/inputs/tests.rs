//! Walks all parameters and headers of all built-in descriptions, and all tables.

mod named_tests;

use windlass_discovery::{Api, Location, Method};

use super::*;
use crate::{Options, PROVIDERS, from_document};
use named_tests::NamedTest;

/// APIs with tables that lack some inputs. An API with complete tables must not be here.
const INCOMPLETE: [&str; 0] = [];

/// Request headers that services document and libraries send, with the APIs that know them; none
/// for all APIs.
///
/// Sources: <https://cloud.google.com/apis/docs/system-parameters>,
/// <https://cloud.google.com/storage/docs/xml-api/reference-headers>, docs/protocol.md (2.1, 2.12,
/// 2.14), and the libraries of docs/compatibility.md.
const DOCUMENTED_HEADERS: &[(&str, &[&str])] = &[
    ("x-goog-api-client", &[]),
    ("x-goog-api-key", &[]),
    ("x-goog-fieldmask", &[]),
    ("x-goog-hash", &[]),
    ("x-goog-quota-user", &[]),
    ("x-goog-request-params", &[]),
    ("x-goog-request-reason", &[]),
    ("x-goog-upload-command", &[]),
    ("x-goog-upload-content-length", &[]),
    ("x-goog-upload-content-type", &[]),
    ("x-goog-upload-header-content-length", &[]),
    ("x-goog-upload-header-content-type", &[]),
    ("x-goog-upload-offset", &[]),
    ("x-goog-upload-protocol", &[]),
    ("x-goog-upload-raw-size", &[]),
    ("x-goog-user-project", &[]),
    ("x-upload-content-length", &[]),
    ("x-upload-content-type", &[]),
    ("x-goog-upload-file-name", &["photoslibrary"]),
    ("x-goog-drive-resource-keys", &["drive"]),
    ("x-goog-acl", &["storage"]),
    ("x-goog-allow-bucket-delete", &["storage"]),
    ("x-goog-bypass-governance-retention", &["storage"]),
    ("x-goog-content-length-range", &["storage"]),
    ("x-goog-content-sha256", &["storage"]),
    ("x-goog-copy-source", &["storage"]),
    ("x-goog-copy-source-encryption-algorithm", &["storage"]),
    ("x-goog-copy-source-encryption-key", &["storage"]),
    ("x-goog-copy-source-encryption-key-sha256", &["storage"]),
    ("x-goog-copy-source-generation", &["storage"]),
    ("x-goog-copy-source-if-generation-match", &["storage"]),
    ("x-goog-copy-source-if-match", &["storage"]),
    ("x-goog-copy-source-if-metageneration-match", &["storage"]),
    ("x-goog-copy-source-if-modified-since", &["storage"]),
    ("x-goog-copy-source-if-none-match", &["storage"]),
    ("x-goog-copy-source-if-unmodified-since", &["storage"]),
    ("x-goog-custom-time", &["storage"]),
    ("x-goog-date", &["storage"]),
    ("x-goog-encryption-algorithm", &["storage"]),
    ("x-goog-encryption-key", &["storage"]),
    ("x-goog-encryption-key-sha256", &["storage"]),
    ("x-goog-encryption-kms-key-name", &["storage"]),
    ("x-goog-event-based-hold", &["storage"]),
    ("x-goog-if-generation-match", &["storage"]),
    ("x-goog-if-metageneration-match", &["storage"]),
    ("x-goog-interop-list-objects-format", &["storage"]),
    ("x-goog-meta-color", &["storage"]),
    ("x-goog-metadata-directive", &["storage"]),
    ("x-goog-object-lock-mode", &["storage"]),
    ("x-goog-object-lock-retain-until-date", &["storage"]),
    ("x-goog-project-id", &["storage"]),
    ("x-goog-resumable", &["storage"]),
    ("x-goog-storage-class", &["storage"]),
    ("x-goog-temporary-hold", &["storage"]),
];

/// Parameters of the query that no description names and that every API's calls can have.
const SYSTEM_PARAMETERS: [&str; 10] = [
    "$.xgafv",
    "$alt",
    "$callback",
    "$fields",
    "$httpMethod",
    "$key",
    "$prettyPrint",
    "upload_id",
    "upload_protocol",
    "userIp",
];

/// A whole table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    implemented: Vec<Implemented>,
    #[serde(default)]
    harmless: Vec<Harmless>,
    #[serde(default)]
    refused: Vec<Refusal>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Implemented {
    #[serde(default)]
    parameters: Vec<String>,
    #[serde(default)]
    headers: Vec<String>,
    #[serde(default)]
    methods: Vec<String>,
    /// The test that sees the effect: two values, two outcomes.
    test: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Harmless {
    #[serde(default)]
    parameters: Vec<String>,
    #[serde(default)]
    headers: Vec<String>,
    #[serde(default)]
    methods: Vec<String>,
    /// Why nothing found, seen, kept or promised depends on the input.
    reason: String,
}

/// The class that a row gives its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Implemented,
    Harmless,
    Refused,
}

/// A row of a table, of any class.
#[derive(Debug)]
struct Row<'a> {
    class: Class,
    parameters: &'a [String],
    headers: &'a [String],
    methods: &'a [String],
}

impl Row<'_> {
    fn has_parameter(&self, name: &str) -> bool {
        self.parameters.iter().any(|it| it == name)
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|it| match it.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => it == name,
        })
    }

    /// `method` is an id without the name of the API.
    fn is_of(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|it| it == method)
    }
}

impl Table {
    fn read(text: &str) -> Self {
        toml::from_str(text).expect("a table")
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let implemented = self.implemented.iter().map(|row| Row {
            class: Class::Implemented,
            parameters: &row.parameters,
            headers: &row.headers,
            methods: &row.methods,
        });
        let harmless = self.harmless.iter().map(|row| Row {
            class: Class::Harmless,
            parameters: &row.parameters,
            headers: &row.headers,
            methods: &row.methods,
        });
        let refused = self.refused.iter().map(|row| Row {
            class: Class::Refused,
            parameters: &row.parameters,
            headers: &row.headers,
            methods: &row.methods,
        });
        implemented.chain(harmless).chain(refused).collect()
    }
}

fn common() -> Table {
    Table::read(COMMON)
}

/// All tables, by the name of their API, or `common`.
fn tables() -> impl Iterator<Item = (&'static str, Table)> {
    let own = PROVIDERS.iter();
    let own = own.map(|provider| (provider.name, Table::read(provider.inputs)));
    std::iter::once(("common", common())).chain(own)
}

fn built_in(name: &str) -> Vec<Api> {
    let provider = PROVIDERS.iter().find(|it| it.name == name);
    let served = (provider.expect("a listed name").built_in)(&Options::default());
    served.into_iter().map(|served| served.api).collect()
}

/// The id of a method without the name of its API.
fn own_id(method: &Method) -> String {
    let id = method.id.strip_prefix(&*method.api_name);
    id.and_then(|id| id.strip_prefix('.'))
        .expect("it begins so")
        .to_owned()
}

/// The classes of an input, by the rows that name it. Empty if no row names it.
fn classes(tables: &[&Table], is_named: impl Fn(&Row<'_>) -> bool) -> Vec<Class> {
    let rows = tables.iter().flat_map(|table| table.rows());
    rows.filter(|row| is_named(row))
        .map(|row| row.class)
        .collect()
}

/// The fault in the classes of an input, if there is any.
fn fault(input: &str, classes: &[Class]) -> Option<String> {
    let is_harmless = classes.contains(&Class::Harmless);
    if classes.is_empty() {
        Some(format!("{input} is in no table"))
    } else if is_harmless && classes.contains(&Class::Implemented) {
        Some(format!("{input} is harmless, and it has an effect"))
    } else {
        None
    }
}

/// The inputs that the tables of an API lack.
fn faults(name: &str, own: &Table) -> Vec<String> {
    let common = common();
    let tables = [&common, own];
    let mut faults = Vec::new();
    for api in built_in(name) {
        let standard = api.document().parameters.keys().map(String::as_str);
        for parameter in standard.chain(SYSTEM_PARAMETERS) {
            let found = classes(&tables, |row| row.has_parameter(parameter));
            faults.extend(fault(parameter, &found));
        }
        for method in api.methods() {
            let id = method
                .id
                .strip_prefix(&format!("{name}."))
                .expect("its API");
            let parameters = method.parameters.iter();
            let of_query = parameters.filter(|it| it.location == Location::Query);
            for parameter in of_query {
                let found = classes(&tables, |row| {
                    row.has_parameter(&parameter.name) && row.is_of(id)
                });
                faults.extend(fault(&format!("{id}: {}", parameter.name), &found));
            }
        }
    }
    for (header, apis) in DOCUMENTED_HEADERS {
        if apis.is_empty() || apis.contains(&name) {
            let found = classes(&tables, |row| row.has_header(header));
            faults.extend(fault(header, &found));
        }
    }
    faults.sort();
    faults.dedup();
    faults
}

#[test]
fn each_input_is_implemented_harmless_or_refused() {
    let faults: Vec<_> = tables()
        .skip(1)
        .map(|(name, table)| (name, faults(name, &table)))
        .filter(|(_, faults)| !faults.is_empty())
        .collect();
    let incomplete: Vec<_> = faults.iter().map(|(name, _)| *name).collect();
    assert_eq!(incomplete, INCOMPLETE, "{faults:#?}");
}

#[test]
fn each_row_names_inputs_and_methods_that_exist() {
    let common = common();
    for (name, table) in tables() {
        let apis = match name {
            "common" => Vec::new(),
            name => built_in(name),
        };
        let methods = || apis.iter().flat_map(|api| api.methods().iter());
        for row in table.rows() {
            let about = format!("{name}: {row:?}");
            assert!(
                !row.parameters.is_empty() || !row.headers.is_empty(),
                "no input: {about}"
            );
            for method in row.methods {
                let id = format!("{name}.{method}");
                assert!(methods().any(|it| it.id == id), "no method {id}: {about}");
            }
            // Tables also name headers and parameters of the service that no description has.
            if row.class == Class::Implemented {
                for method in methods().filter(|it| row.methods.contains(&own_id(it))) {
                    let missing = row.parameters.iter();
                    let mut missing = missing.filter(|it| method.parameter(it).is_none());
                    let missing = missing.next();
                    assert_eq!(missing, None, "{} does not have it: {about}", method.id);
                }
            }
        }
        for header in table.rows().iter().flat_map(|row| row.headers) {
            assert_eq!(*header, header.to_ascii_lowercase(), "{name}");
            let is_twice =
                name != "common" && !classes(&[&common], |row| row.has_header(header)).is_empty();
            assert!(!is_twice, "{name}: {header} is in the table of all APIs");
        }
    }
}

#[test]
fn each_reason_is_a_sentence_and_each_status_is_400_or_501() {
    for (name, table) in tables() {
        for row in &table.harmless {
            assert!(
                row.reason.len() > 20 && row.reason.ends_with('.'),
                "{name}: {row:?}"
            );
        }
        for row in &table.refused {
            assert!([400, 501].contains(&row.status), "{name}: {row:?}");
            let is_predicate = row.reason.starts_with("is ") || row.reason.starts_with("has ");
            assert!(
                is_predicate && !row.reason.ends_with('.'),
                "{name}: {row:?}"
            );
        }
    }
}

#[test]
fn implemented_input_has_a_test_that_names_it() {
    for (name, table) in tables() {
        for row in &table.implemented {
            let test = NamedTest::find(&row.test);
            let test = test.unwrap_or_else(|| panic!("{name}: there is no test {}", row.test));
            for input in row.parameters.iter().chain(&row.headers) {
                assert!(
                    test.names(input),
                    "{name}: {} does not name {input}",
                    row.test
                );
            }
        }
    }
}

#[test]
fn refused_inputs_are_those_of_all_apis_and_of_its_own() {
    let own = "[[refused]]\nparameters = [\"glob\"]\nmethods = [\"animals.list\"]\n\
               status = 501\nreason = \"is not supported\"\n";
    let farm = || from_document(built_in("farm").remove(0), &Options::default());
    let refused = |table| format!("{:?}", refusing(farm(), table).refused);
    assert!(refused(Some(own)).contains("\"farm.animals.list\""));
    assert!(!refused(None).contains("\"farm.animals.list\""));
    for table in [None, Some(own)] {
        assert!(refused(table).contains("\"x-goog-fieldmask\""));
    }
}

#[test]
fn parameter_that_a_method_declares_is_not_refused_there() {
    let api = built_in("farm").remove(0);
    let row = |name: &str| RefusedInput {
        input: Input::Parameter(name.to_owned()),
        methods: None,
        allowed: Vec::new(),
        also_empty: false,
        refused_as: RefusedAs::NotImplemented,
        reason: "is not supported".to_owned(),
    };
    let of_lists = except_where_declared(row("pageToken"), api.methods());
    let methods = of_lists.methods.expect("a method declares it");
    assert!(methods.contains(&"farm.animals.get".to_owned()));
    assert!(!methods.contains(&"farm.animals.list".to_owned()));
    let unknown = except_where_declared(row("callback"), api.methods());
    assert_eq!(unknown.methods, None);
}
