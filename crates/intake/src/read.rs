//! Splits text into objects: JSON, YAML with several documents, and lists.

use serde_json::Value;

use crate::diagnostic::Diagnostic;

/// An object and where it was found.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file and the number of the document in it.
    pub origin: String,
    /// The object.
    pub value: Value,
}

/// The objects in a text; what cannot be parsed becomes a diagnostic.
pub fn read(origin: &str, text: &str) -> (Vec<Document>, Vec<Diagnostic>) {
    let (mut documents, mut diagnostics) = (Vec::new(), Vec::new());
    let mut take = |number: usize, parsed: Result<Value, String>| {
        let origin = if number == 0 { origin.to_owned() } else { format!("{origin}#{}", number + 1) };
        match parsed {
            Ok(Value::Null) => {}
            Ok(value) => flatten(origin, value, &mut documents),
            Err(message) => diagnostics.push(Diagnostic { object: origin, field: String::new(), message }),
        }
    };
    // A YAML document may also start with a brace, but only YAML has lines that separate documents.
    let parts = split(text);
    if parts.len() == 1 && text.trim_start().starts_with(['{', '[']) {
        for (number, parsed) in serde_json::Deserializer::from_str(text).into_iter().enumerate() {
            // Braces without quotes are YAML all the same.
            let or_yaml = |error| yaml(0, text).map_err(|_| format!("not JSON: {error}"));
            take(
                number,
                if number == 0 {
                    parsed.or_else(or_yaml)
                } else {
                    parsed.map_err(|error| format!("not JSON: {error}"))
                },
            );
        }
    } else {
        for (number, (line, part)) in parts.into_iter().enumerate() {
            if part.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
                continue;
            }
            take(number, yaml(line, part));
        }
    }
    (documents, diagnostics)
}

/// One YAML document, or what is wrong with it on which line of its file.
fn yaml(lines_before: u64, text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let plain = error.without_snippet().to_string();
        let first = plain.lines().next().unwrap_or_default().trim_start_matches("error: ");
        // What the parser says about its own options, or about the line within the document, is of no use here.
        let said = first.split(", set DuplicateKeyPolicy").next().unwrap_or(first);
        let said = said.split(" at line ").next().unwrap_or(said);
        let said =
            said.strip_prefix("line ").and_then(|rest| rest.split_once(": ")).map_or(said, |(_, said)| said);
        let line =
            error.location().map(|at| format!(" on line {}", lines_before + at.line())).unwrap_or_default();
        format!("not YAML{line}: {said}")
    })
}

/// The documents of a YAML stream, each on its own with the number of lines before it, so that one that is broken does not
/// take the others with it.
fn split(text: &str) -> Vec<(u64, &str)> {
    let (mut parts, mut start, mut at, mut line_at_start) = (Vec::new(), 0, 0, 0);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            parts.push((line_at_start, &text[start..at]));
            (start, line_at_start) = (at + line.len(), number);
        }
        at += line.len();
    }
    parts.push((line_at_start, &text[start..]));
    parts
}

/// Takes lists apart.
fn flatten(origin: String, value: Value, documents: &mut Vec<Document>) {
    let is_list = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Array(items) => {
            for (i, item) in items.into_iter().enumerate() {
                flatten(format!("{origin}[{i}]"), item, documents);
            }
        }
        Value::Object(mut object) if is_list && object.contains_key("items") => {
            let kind = object
                .get("kind")
                .and_then(Value::as_str)
                .map(|kind| kind.trim_end_matches("List").to_owned());
            let version = object.get("apiVersion").cloned();
            let Some(Value::Array(items)) = object.remove("items") else { return };
            for (i, mut item) in items.into_iter().enumerate() {
                // Items of a typed list may leave out what the list already says.
                if let Value::Object(fields) = &mut item
                    && let (Some(kind), Some(version)) =
                        (kind.as_ref().filter(|kind| !kind.is_empty()), &version)
                {
                    fields.entry("kind").or_insert_with(|| kind.clone().into());
                    fields.entry("apiVersion").or_insert_with(|| version.clone());
                }
                flatten(format!("{origin}.items[{i}]"), item, documents);
            }
        }
        value => documents.push(Document { origin, value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<String>, usize) {
        let (documents, diagnostics) = read("f", text);
        let kind = |document: &Document| document.value["kind"].as_str().unwrap_or("?").to_owned();
        (documents.iter().map(kind).collect(), diagnostics.len())
    }

    #[test]
    fn yaml_json_and_lists_are_taken_apart() {
        assert_eq!(kinds("kind: A\n---\n# nothing\n---\nkind: B\n"), (vec!["A".into(), "B".into()], 0));
        assert_eq!(kinds(r#"{"kind":"A"} {"kind":"B"}"#), (vec!["A".into(), "B".into()], 0));
        assert_eq!(kinds("kind: List\nitems:\n- kind: A\n- kind: B\n"), (vec!["A".into(), "B".into()], 0));
        assert_eq!(kinds("kind: PodList\napiVersion: v1\nitems:\n- metadata: {}\n"), (vec!["Pod".into()], 0));
        assert_eq!(kinds("{kind: A, metadata: {}}"), (vec!["A".into()], 0));
        assert_eq!(kinds(""), (vec![], 0));
    }

    #[test]
    fn what_is_broken_is_found_in_the_file() {
        let said = |text: &str| read("f", text).1.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            said("kind: A\n---\nkind: B\nkind: C\n"),
            ["f#2: not YAML on line 4: duplicate mapping key: kind"]
        );
        assert_eq!(said("{\"kind\": 1"), ["f: not JSON: EOF while parsing an object at line 1 column 10"]);
    }

    #[test]
    fn a_broken_document_does_not_hide_the_next() {
        assert_eq!(kinds("kind: [A\n---\nkind: B\n"), (vec!["B".into()], 1));
    }
}
