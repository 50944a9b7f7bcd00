use serde_json::json;

use super::*;
use crate::handler::{Delivery, Outcome};
use crate::namespace::ROOT;

const NOW: Timestamp = Timestamp::from_millis(1000);

fn row(body: &Value) -> Resource {
    Resource {
        collection: collection("animals"),
        id: "1".to_owned(),
        version: 7,
        body: body.to_string().into(),
        media: None,
        owner: None,
        created: NOW,
        updated: NOW,
        due: None,
        claimed_by: None,
    }
}

fn source<'a>(namespace: &'a Namespace, principal: Option<&'a Principal>) -> Source<'a> {
    Source {
        now: NOW,
        namespace,
        principal,
    }
}

fn problem(events: Vec<OutboxEvent>) -> String {
    with_events(Vec::new(), events, &source(&ROOT, None))
        .unwrap_err()
        .to_string()
}

#[test]
fn event_becomes_a_row_before_the_changes() {
    let change = deletion(&row(&json!({})));
    let later = OutboxEvent {
        due: Some(Timestamp::from_millis(5000)),
        ..OutboxEvent::new("animals", json!([1]))
    };
    let all = with_events(vec![change], vec![later], &source(&ROOT, None)).unwrap();
    let [ResourceChange::Insert(row), ResourceChange::Delete { .. }] = &all[..] else {
        panic!("{all:?}");
    };
    assert_eq!(row.collection, ".outbox/animals");
    let event = Event::parse(&row.body).unwrap();
    let due = Timestamp::from_millis(5000);
    let expected = Event {
        created: NOW,
        since: due,
        failures: 0,
        in_root: false,
        payload: json!([1]),
    };
    assert_eq!(event, expected);
    assert_eq!((row.due, row.claimed_by), (Some(due), None));
}

#[test]
fn event_of_a_namespace_is_delivered_in_it() {
    let event = OutboxEvent::new("animals", json!([1]));
    let alice = Principal::new("alice");
    for (namespace, principal, owner) in [
        (ROOT.clone(), None, None),
        (ROOT.clone(), Some(&alice), Some("alice")),
        (Namespace::of(Some("alice")), Some(&alice), Some("alice")),
        (Namespace::of(Some("unowned")), None, Some("unowned")),
    ] {
        let source = source(&namespace, principal);
        let all = with_events(Vec::new(), vec![event.clone()], &source).unwrap();
        let [ResourceChange::Insert(left)] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(left.collection, ".outbox/animals", "it is in no namespace");
        assert_eq!(left.owner.as_deref(), owner);
        let namespace_of = |row: &Resource| namespace_of(row, &Event::parse(&row.body).unwrap());
        assert_eq!(namespace_of(left), namespace);
        let later = rescheduled(left, NOW, 1, NOW);
        assert_eq!(namespace_of(&later), namespace);
        let event = Event::parse(&later.body).unwrap();
        let parts = parts(&later, &event, &[json!(2)], NOW).unwrap();
        let [ResourceChange::Insert(part)] = &parts[..] else {
            panic!("{parts:?}");
        };
        assert_eq!(namespace_of(part), namespace);
        let former = Resource {
            collection: "animals/outbox".to_owned(),
            ..left.clone()
        };
        assert_eq!(namespace_of(&former), ROOT);
    }
}

#[test]
fn events_beyond_their_bounds_are_refused() {
    let event = OutboxEvent::new("animals", Value::Null);
    let most = vec![event.clone(); MAX_EVENTS];
    assert!(with_events(Vec::new(), most, &source(&ROOT, None)).is_ok());
    let many = problem(vec![event; MAX_EVENTS + 1]);
    assert_eq!(many, "the call leaves 513 events; the limit is 512");
    let long = "x".repeat(MAX_EVENT_LEN);
    let long = problem(vec![OutboxEvent::new("animals", long.into())]);
    assert!(
        long.ends_with("exceeds the limit of 1048576 bytes"),
        "{long}"
    );
    for topic in ["", "a/b", "a b", "\u{e4}", &"x".repeat(MAX_TOPIC + 1)] {
        let refused = problem(vec![OutboxEvent::new(topic.to_owned(), Value::Null)]);
        assert!(
            refused.contains("is not the topic of an event"),
            "{refused}"
        );
    }
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

#[test]
fn event_nested_too_deeply_to_be_read_back_is_refused() {
    let insert = |levels| {
        let event = OutboxEvent::new("animals", nested(levels));
        with_events(Vec::new(), vec![event], &source(&ROOT, None))
    };
    assert!(insert(126).is_ok());
    let refused = insert(127).unwrap_err().to_string();
    assert!(refused.contains("at most 126 levels"), "{refused}");

    let whole = json!({"created": 1, "due": 2, "failures": 3, "payload": "ab"});
    let (whole, event) = (
        row(&whole),
        Event::parse(whole.to_string().as_bytes()).unwrap(),
    );
    assert!(parts(&whole, &event, &[nested(126)], NOW).is_ok());
    let refused = parts(&whole, &event, &[nested(127)], NOW).unwrap_err();
    assert!(refused.contains("at most 126 levels"), "{refused}");
}

#[test]
fn age_counts_from_the_first_due_time_and_parts_keep_it() {
    let later = OutboxEvent {
        due: Some(Timestamp::from_millis(5000)),
        ..OutboxEvent::new("animals", json!("ab"))
    };
    let changes = with_events(Vec::new(), vec![later], &source(&ROOT, None)).unwrap();
    let [ResourceChange::Insert(row)] = &changes[..] else {
        panic!("{changes:?}");
    };
    let failed = rescheduled(row, Timestamp::from_millis(6000), 1, NOW);
    let event = Event::parse(&failed.body).unwrap();
    let part = parts(&failed, &event, &["a".into()], NOW).unwrap();
    let [ResourceChange::Insert(part)] = &part[..] else {
        panic!("{part:?}");
    };
    let max_age = Duration::from_secs(1);
    for event in [event, Event::parse(&part.body).unwrap()] {
        assert!(!event.is_older_than(max_age, Timestamp::from_millis(5999)));
        assert!(event.is_older_than(max_age, Timestamp::from_millis(6000)));
    }
    let first = Event::parse(&row.body).unwrap();
    assert!(!first.is_older_than(max_age, Timestamp::from_millis(u64::MAX)));
}

#[test]
fn row_of_a_version_without_the_first_due_time_ages_from_its_creation() {
    let old = json!({"created": 1, "due": 2, "failures": 3, "payload": "p"});
    let former = json!({"created": 1, "due": 2, "failures": 3, "since": 900});
    for row in [old, former] {
        let event = Event::parse(row.to_string().as_bytes()).unwrap();
        assert_eq!(event.since, Timestamp::from_millis(1), "{row}");
    }
}

#[test]
fn row_without_a_payload_field_is_a_payload_itself() {
    let body = json!({"created": 1, "due": 2, "failures": 3, "sender": "ann"});
    let event = Event::parse(body.to_string().as_bytes()).unwrap();
    assert_eq!((event.failures, &event.payload), (3, &body));
    for unreadable in ["", "[]", "{}", r#"{"created": "1", "failures": 3}"#] {
        assert_eq!(Event::parse(unreadable.as_bytes()), None, "{unreadable}");
    }
}

#[test]
fn rescheduling_keeps_fields_of_other_versions() {
    let old = json!({"created": 1, "failures": 0, "payload": "p", "newer": true});
    let due = Timestamp::from_millis(9);
    let claim = Resource {
        claimed_by: Some(7),
        ..row(&old)
    };
    let next = rescheduled(&claim, due, 4, NOW);
    let body: Value = serde_json::from_slice(&next.body).unwrap();
    let expected = json!({"created": 1, "failures": 4, "payload": "p", "newer": true});
    assert_eq!((next.version, body), (8, expected));
    assert_eq!((next.due, next.claimed_by), (Some(due), None));
}

#[test]
fn row_of_a_former_collection_gets_a_time_to_be_claimed_at() {
    let adopt = |body: Value| adopted(&row(&body), NOW);
    let waiting = json!({"created": 1, "due": 2, "failures": 0, "to": "b"});
    let claimed = json!({"created": 1, "due": 2, "failures": 0, "to": "b", "claimedBy": 7});
    for (former, due) in [(waiting, 2), (claimed, 0)] {
        let next = adopt(former).unwrap();
        assert_eq!(
            (next.version, next.due),
            (8, Some(Timestamp::from_millis(due)))
        );
        let event = Event::parse(&next.body).unwrap();
        let expected = json!({"created": 1, "failures": 0, "to": "b"});
        assert_eq!(event.payload, expected);
    }
    for other in [json!([]), json!({"due": "now"}), json!({"to": "b"})] {
        assert_eq!(adopt(other), None);
    }
}

#[test]
fn parts_of_an_event_have_its_age_and_sort_behind_it() {
    let whole = json!({"created": 1, "due": 2, "failures": 3, "payload": "ab"});
    let (whole, event) = (
        row(&whole),
        Event::parse(whole.to_string().as_bytes()).unwrap(),
    );
    let changes = parts(&whole, &event, &["a".into(), "b".into()], NOW).unwrap();
    let part = |change: &ResourceChange| match change {
        ResourceChange::Insert(row) => (row.id.clone(), Event::parse(&row.body).unwrap()),
        _ => panic!("{change:?}"),
    };
    let (id, second) = part(&changes[1]);
    assert_eq!((changes.len(), &id[..]), (2, "1.001"));
    let expected = Event {
        payload: "b".into(),
        ..event
    };
    assert_eq!(second, expected);
}

#[test]
fn no_api_has_a_name_under_which_events_are_stored() {
    let toml = |name: &str| format!("name = {name:?}\nversion = \"v1\"\n[collections.things]\n");
    let (name, _) = PREFIX.split_once('/').unwrap();
    assert!(windlass_discovery::Api::from_toml(&toml("outbox")).is_ok());
    assert!(windlass_discovery::Api::from_toml(&toml(name)).is_err());
}

#[test]
fn first_delivery_of_a_topic_gets_its_events() {
    struct Named(&'static str);

    #[async_trait::async_trait]
    impl Deliver for Named {
        fn topic(&self) -> &str {
            self.0
        }

        async fn deliver(&self, _: &Delivery<'_>) -> Result<Outcome, Rejection> {
            Ok(Outcome::Delivered)
        }
    }

    let named =
        ["animals", "barns", "animals"].map(|name| Arc::new(Named(name)) as Arc<dyn Deliver>);
    let outbox = Outbox::new(named.clone());
    assert_eq!(outbox.topics.len(), 2);
    assert!(Arc::ptr_eq(&outbox.topics[0].deliver, &named[0]));
}
