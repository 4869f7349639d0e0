//! A test cloud: an infrastructure provider over HTTP that keeps its own books.

fn main() {}
