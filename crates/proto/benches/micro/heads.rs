//! Heads of requests, and replies of the protocol.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE};
use http::{HeaderMap, HeaderValue, Method, Version};
use windlass_proto::command::Framing;
use windlass_proto::content_range::ContentRange;
use windlass_proto::dialect::{Dialect as _, Google, Outcome, RequestHead, SessionStatus};
use windlass_proto::parameters::{Parameters, UploadId};

const QUERY: &str = "uploadType=resumable&upload_id=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

pub(crate) fn benchmarks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("content-range");
    for value in [
        "bytes */*",
        "bytes 0-262143/*",
        "bytes 549755813888-549764202495/1099511627776",
        "bytes 5-3/10",
    ] {
        group.bench_with_input(BenchmarkId::new("parse", value), value, |bencher, value| {
            bencher.iter(|| ContentRange::parse(black_box(value.as_bytes())));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("head");
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("262144"));
    headers.insert(CONTENT_RANGE, HeaderValue::from_static("bytes 0-262143/*"));
    group.bench_function("command of a chunk", |bencher| {
        bencher.iter(|| {
            let framing = Framing::of(Version::HTTP_11, black_box(&headers), false)?;
            Google.command(&RequestHead {
                http_method: &Method::PUT,
                parameters: &Parameters::parse(Some(QUERY)).expect("it is UTF-8"),
                headers: &headers,
                framing,
            })
        });
    });
    group.finish();

    let mut group = criterion.benchmark_group("reply");
    group.bench_function("308", |bencher| {
        bencher.iter(|| {
            Google.reply(Outcome::Committed {
                status: SessionStatus::with_offset(black_box(262_144)),
                upload_id: &UploadId::from("A"),
                no_308: false,
            })
        });
    });
    let location = "http://farm.example/upload/farm/v1/animals?uploadType=resumable&upload_id=A";
    group.bench_function("start", |bencher| {
        bencher.iter(|| {
            let location = HeaderValue::from_str(black_box(location)).expect("it is ASCII");
            Google.reply(Outcome::Started {
                location,
                upload_id: HeaderValue::from_static("A"),
                status: SessionStatus::with_offset(0),
                with_data: false,
            })
        });
    });
    group.finish();
}
