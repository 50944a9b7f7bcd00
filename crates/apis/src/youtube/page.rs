//! Pages of a collection, in the order of ids.

use windlass_server::handler::{Call, Rejection};
use windlass_store::Resource;

use super::invalid_parameter;

/// How many resources a page has when the client does not say.
const DEFAULT_PAGE: usize = 5;

/// The most resources of a page.
pub(super) const LARGEST_PAGE: usize = 50;

/// Resources, and the token of what follows them.
pub(super) struct Page {
    pub(super) resources: Vec<Resource>,
    pub(super) next: Option<String>,
}

/// The page that the query asks for, of the resources whose ids begin with `prefix`.
pub(super) async fn page(
    call: &Call<'_>,
    collection: &str,
    prefix: &str,
) -> Result<Page, Rejection> {
    let size = size(call)?;
    let token = call.query.first("pageToken").filter(|it| !it.is_empty());
    let after = token.or(Some(prefix).filter(|prefix| !prefix.is_empty()));
    let resources = call.lookup.resources(collection, after, size + 1).await?;
    let mut resources: Vec<_> = resources
        .into_iter()
        .take_while(|resource| resource.id.starts_with(prefix))
        .collect();
    let more = resources.len() > size;
    resources.truncate(size);
    for resource in &resources {
        call.reply_memory.hold_row(&resource.body)?;
    }
    let last = resources.last().filter(|_| more);
    Ok(Page {
        next: last.map(|last| last.id.clone()),
        resources,
    })
}

fn size(call: &Call<'_>) -> Result<usize, Rejection> {
    let Some(text) = call.query.first("maxResults") else {
        return Ok(DEFAULT_PAGE);
    };
    let size = text.parse::<usize>().ok();
    let size = size.filter(|size| (1..=LARGEST_PAGE).contains(size));
    let problem = || format!("must be between 1 and {LARGEST_PAGE}");
    size.ok_or_else(|| invalid_parameter("maxResults", problem()))
}
