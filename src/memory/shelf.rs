//! Pages that are free, by size.

use std::collections::BTreeMap;

use crate::backend::Backend;
use crate::memory::page::Page;

/// Pages by size.
pub(super) struct Shelf<B: Backend> {
    pages: BTreeMap<usize, Vec<Page<B>>>,
    /// Of all pages.
    bytes: usize,
}

impl<B: Backend> Shelf<B> {
    pub(super) fn new() -> Self {
        Self {
            pages: BTreeMap::new(),
            bytes: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn put(&mut self, page: Page<B>) {
        self.bytes = self.bytes.saturating_add(page.bytes);
        self.pages.entry(page.bytes).or_default().push(page);
    }

    /// A page of `least` bytes to `most`, the smallest.
    pub(super) fn take(&mut self, least: usize, most: usize) -> Option<Page<B>> {
        let mut sizes = self.pages.range_mut(least..=most);
        let page = sizes.find_map(|(_, pages)| pages.pop());
        self.took(page)
    }

    pub(super) fn take_smallest(&mut self) -> Option<Page<B>> {
        let page = self.pages.values_mut().find_map(Vec::pop);
        self.took(page)
    }

    pub(super) fn take_largest(&mut self) -> Option<Page<B>> {
        let page = self.pages.values_mut().rev().find_map(Vec::pop);
        self.took(page)
    }

    fn took(&mut self, page: Option<Page<B>>) -> Option<Page<B>> {
        if let Some(page) = &page {
            self.bytes = self.bytes.saturating_sub(page.bytes);
        }
        page
    }

    pub(super) fn into_pages(self) -> impl Iterator<Item = Page<B>> {
        self.pages.into_values().flatten()
    }
}
