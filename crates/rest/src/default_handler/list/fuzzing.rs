//! The filter and the order of a list, opened for a fuzz target.

use windlass_discovery::CollectionSettings;
use windlass_store::Resource;

use super::Selection;
use crate::default_handler::fields::fields_of;

/// The parameters `filter` and `orderBy` of a list.
pub struct ListQuery<'a>(Selection<'a>);

impl std::fmt::Debug for ListQuery<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListQuery")
            .field("conditions", &self.0.conditions)
            .field("index", &self.0.index)
            .finish()
    }
}

impl<'a> ListQuery<'a> {
    /// Parses the parameters. An order that the collection does not have is ignored.
    ///
    /// # Errors
    /// A description of the problem in the filter.
    pub fn parse(
        settings: &'a CollectionSettings,
        filter: Option<&str>,
        order: Option<&str>,
    ) -> Result<Self, String> {
        Selection::parse(settings, filter, order).map(Self)
    }

    /// Number of comparisons in the filter.
    pub fn comparisons(&self) -> usize {
        self.0.conditions.len()
    }

    /// Whether a resource belongs to the list.
    pub fn holds(&self, resource: &Resource) -> bool {
        self.0.holds(resource)
    }

    /// The row of a resource in the index by which the list is made, and whether the list reads it;
    /// `None` if it is made without one. Rows are in the order of the list.
    pub fn row(&self, resource: &Resource) -> Option<(String, bool)> {
        let index = self.0.index.as_ref()?;
        let row = index.row_id(resource, &fields_of(resource));
        let range = index.range(&self.0.conditions);
        let is_read = range.after < row && row < range.end;
        Some((row, is_read))
    }
}
