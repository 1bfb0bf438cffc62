//! Pages in a browser.

mod browser;
mod colours;
mod picture;
mod thousand;
