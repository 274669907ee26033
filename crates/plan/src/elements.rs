//! User-defined elements, by the names that experiment files use.
//!
//! A program that embeds Longhaul registers its elements and hands them to
//! [`Plan::load`](crate::plan::Plan::load), or to the command line as a whole; an experiment then
//! names one with `element: NAME`. See docs/elements.md.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::element::{Element, ElementFactory};

/// Elements by name. None to begin with.
#[derive(Debug, Clone, Default)]
pub struct Elements(BTreeMap<Arc<str>, ElementFactory>);

impl Elements {
    /// No elements.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an element, or replaces the one of the same name; `make` makes one for each pipe.
    #[must_use]
    pub fn with(
        mut self,
        name: &str,
        make: impl Fn() -> Box<dyn Element> + Send + Sync + 'static,
    ) -> Self {
        let name: Arc<str> = name.into();
        let factory = ElementFactory {
            name: Arc::clone(&name),
            make: Arc::new(make),
        };
        self.0.insert(name, factory);
        self
    }

    /// The element of a name.
    pub fn get(&self, name: &str) -> Option<&ElementFactory> {
        self.0.get(name)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }
}
