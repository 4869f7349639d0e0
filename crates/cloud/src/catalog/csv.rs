//! A reader for the embedded tables: plain commas, a header, no quotes; every complaint names its cell.

use std::str::FromStr;

use super::error::{BadRow, CatalogError};

/// A table with named columns.
pub(super) struct Table<'a> {
    file: &'a str,
    columns: Vec<&'a str>,
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

/// One row of a table.
pub(super) struct Row<'a, 't> {
    table: &'t Table<'a>,
    line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Table<'a> {
    /// Reads the header and checks that it has these columns, in any order.
    pub(super) fn open(file: &'a str, text: &'a str, columns: &[&str]) -> Result<Self, CatalogError> {
        let mut lines = text.lines().enumerate();
        let header: Vec<&str> = lines.next().map_or_else(Vec::new, |(_, line)| line.split(',').collect());
        if let Some(missing) = columns.iter().find(|c| !header.contains(c)) {
            let message = format!("the first line names no column {missing:?}");
            return Err(CatalogError::Malformed { file: file.to_owned(), message });
        }
        Ok(Self { file, columns: header, lines })
    }

    /// Turns every row into a value; the rows that cannot be turned are returned beside.
    pub(super) fn read<T>(
        &self,
        mut each: impl FnMut(&Row<'a, '_>) -> Result<T, BadRow>,
    ) -> (Vec<T>, Vec<BadRow>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for (number, line) in self.lines.clone().filter(|(_, line)| !line.is_empty()) {
            let row = Row { table: self, line: number + 1, cells: line.split(',').collect() };
            let read = if row.cells.len() == self.columns.len() {
                each(&row)
            } else {
                Err(row.bad("the row", line, "one value for each column"))
            };
            match read {
                Ok(value) => good.push(value),
                Err(complaint) => bad.push(complaint),
            }
        }
        (good, bad)
    }
}

impl<'a> Row<'a, '_> {
    /// The text of a cell.
    pub(super) fn text(&self, column: &str) -> &'a str {
        let index = self.table.columns.iter().position(|c| *c == column);
        index.and_then(|i| self.cells.get(i)).copied().unwrap_or_default()
    }

    /// The parsed value of a cell.
    pub(super) fn parse<T: FromStr>(&self, column: &str, expected: &'static str) -> Result<T, BadRow> {
        let text = self.text(column);
        text.parse().map_err(|_| self.bad(column, text, expected))
    }

    /// The parsed value of a cell that must satisfy a condition.
    pub(super) fn parse_if<T: FromStr>(
        &self,
        column: &str,
        expected: &'static str,
        condition: impl Fn(&T) -> bool,
    ) -> Result<T, BadRow> {
        let value = self.parse(column, expected)?;
        if condition(&value) { Ok(value) } else { Err(self.bad(column, self.text(column), expected)) }
    }

    /// A complaint about a cell of this row.
    pub(super) fn bad(&self, column: &str, value: &str, expected: &'static str) -> BadRow {
        BadRow {
            file: self.table.file.to_owned(),
            row: format!("line {}", self.line),
            column: column.to_owned(),
            value: format!("{value:?}"),
            expected,
        }
    }
}
