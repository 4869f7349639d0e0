//! Instance types from a file, in the format of Karpenter's KWOK provider.
//!
//! COMPAT: v1.15.0 reads it with Go's JSON decoder, so field names match without regard to case, unknown fields are
//! ignored, and every offering counts as available whatever the file says. It also takes offerings without
//! requirements; those cannot be bought here, so they are complaints, except in the older shape with `zone` and
//! `capacityType`, which upstream still ships as an example and which is understood.

use std::path::Path;

use headstart_core::catalog::Offering;
use headstart_core::labels::{CAPACITY_TYPE, ZONE};
use headstart_core::price::Price;
use headstart_core::quantity::Quantity;
use headstart_core::requirement::{Operator, Requirement};
use headstart_core::requirements::Requirements;
use headstart_core::resources::Resources;
use serde_json::{Map, Value};

use super::Catalog;
use super::error::{BadRow, CatalogError};
use super::kwok::{self, Machine};

/// Reads the file at a path.
pub(super) fn read(path: &Path) -> Result<(Catalog, Vec<BadRow>), CatalogError> {
    let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
        // A word without a dot or slash was probably meant as the name of a catalog.
        std::io::ErrorKind::NotFound if path.extension().is_none() && path.components().count() == 1 => {
            CatalogError::Unknown(path.display().to_string())
        }
        _ => CatalogError::Unreadable { path: path.to_owned(), source },
    })?;
    parse(&path.display().to_string(), &text)
}

/// Reads the text of a file.
pub(super) fn parse(file: &str, text: &str) -> Result<(Catalog, Vec<BadRow>), CatalogError> {
    let malformed = |message| CatalogError::Malformed { file: file.to_owned(), message };
    let entries = match serde_json::from_str(text) {
        Ok(Value::Array(entries)) => entries,
        Ok(_) => return Err(malformed("it must be a JSON list of instance types".to_owned())),
        Err(error) => return Err(malformed(format!("it is not JSON: {error}"))),
    };
    let (mut machines, mut bad) = (Vec::new(), Vec::new());
    for (index, value) in entries.iter().enumerate() {
        match machine(&Entry { file, index, value }) {
            Ok(machine) => machines.push(machine),
            Err(complaint) => bad.push(complaint),
        }
    }
    Ok((kwok::finish(file, machines), bad))
}

fn machine(entry: &Entry<'_>) -> Result<Machine, BadRow> {
    let root = At { entry, path: String::new(), value: entry.value };
    let name = root.field("name").text("a name")?;
    let systems = root.field("operatingSystems").list("a list of operating systems")?;
    let offerings = root.field("offerings").list("a list of offerings")?;
    let mut operating_systems = Vec::with_capacity(systems.len());
    for system in systems {
        operating_systems.push(system.text("the name of an operating system")?.to_owned());
    }
    Ok(Machine {
        name: name.to_owned(),
        architecture: root.field("architecture").text("an architecture such as amd64")?.to_owned(),
        operating_systems,
        resources: resources(&root.field("resources"))?,
        offerings: offerings.iter().map(offering).collect::<Result<_, _>>()?,
    })
}

fn resources(at: &At<'_>) -> Result<Resources, BadRow> {
    let mut resources = Resources::new();
    for (name, amount) in at.object("an object of quantities")? {
        let amount = at.child(name, amount);
        resources.set(name, amount.quantity()?);
    }
    Ok(resources)
}

fn offering(at: &At<'_>) -> Result<Offering, BadRow> {
    // COMPAT: a price of zero is taken, as upstream does: machines already paid for cost nothing more.
    let price = Price::from_dollars(at.field("price").number("a price in dollars, as a JSON number")?);
    if price < Price::ZERO {
        return Err(at.field("price").bad("a price of at least zero"));
    }
    let reservation = at.field("reservationCapacity");
    let reservation_capacity = match reservation.value {
        Value::Null => 0,
        value => value
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| reservation.bad("a whole number, not below zero"))?,
    };
    let requirements = requirements(at)?;
    let offering =
        Offering { requirements, price, available: true, reservation_capacity, ..Offering::default() };
    for (key, value) in [(ZONE, offering.zone()), (CAPACITY_TYPE, offering.capacity_type())] {
        if value.is_empty() {
            let given: Vec<&str> =
                offering.requirements.get(key).into_iter().flat_map(Requirement::values).collect();
            return Err(at.field("requirements").complaint(format!("{key} {given:?}"), "exactly one value"));
        }
    }
    Ok(offering)
}

fn requirements(at: &At<'_>) -> Result<Requirements, BadRow> {
    let mut requirements = Requirements::new();
    let listed = at.field("requirements");
    if listed.value.is_null() {
        let zone = at.field("zone").text("a zone (or give the offering requirements)")?;
        let capacity_type = at.field("capacityType").text("spot, on-demand or reserved")?;
        return Ok(Requirements::from_labels([(ZONE, zone), (CAPACITY_TYPE, capacity_type)]));
    }
    for item in listed.list("a list of requirements")? {
        let key = item.field("key").text("a label key")?;
        let operator_at = item.field("operator");
        let operator: Operator = operator_at
            .text("an operator such as In")?
            .parse()
            .map_err(|_| operator_at.bad("one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte"))?;
        let values_at = item.field("values");
        let mut values = Vec::new();
        if !values_at.value.is_null() {
            for value in values_at.list("a list of texts")? {
                values.push(value.text("a text")?);
            }
        }
        let requirement = Requirement::new(key, operator, &values, None)
            .map_err(|_| values_at.bad("one integer, as this operator needs"))?;
        requirements.add(requirement);
    }
    Ok(requirements)
}

/// One element of the list.
struct Entry<'a> {
    file: &'a str,
    index: usize,
    value: &'a Value,
}

/// A place in an entry, which complaints name.
struct At<'a> {
    entry: &'a Entry<'a>,
    path: String,
    value: &'a Value,
}

impl<'a> At<'a> {
    fn child(&self, name: &str, value: &'a Value) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { entry: self.entry, path: format!("{}{dot}{name}", self.path), value }
    }

    /// A field of an object, null when absent; the exact name wins over one that differs in case.
    fn field(&self, name: &str) -> Self {
        let found = self.value.as_object().and_then(|object| {
            object.get(name).or_else(|| Some(object.iter().find(|(k, _)| k.eq_ignore_ascii_case(name))?.1))
        });
        self.child(name, found.unwrap_or(&Value::Null))
    }

    fn object(&self, expected: &'static str) -> Result<&'a Map<String, Value>, BadRow> {
        self.value.as_object().ok_or_else(|| self.bad(expected))
    }

    fn list(&self, expected: &'static str) -> Result<Vec<Self>, BadRow> {
        let items =
            self.value.as_array().filter(|items| !items.is_empty()).ok_or_else(|| self.bad(expected))?;
        let item = |(i, value)| Self { entry: self.entry, path: format!("{}[{i}]", self.path), value };
        Ok(items.iter().enumerate().map(item).collect())
    }

    fn text(&self, expected: &'static str) -> Result<&'a str, BadRow> {
        self.value.as_str().filter(|text| !text.is_empty()).ok_or_else(|| self.bad(expected))
    }

    fn number(&self, expected: &'static str) -> Result<f64, BadRow> {
        self.value.as_f64().ok_or_else(|| self.bad(expected))
    }

    /// Quantities are texts, but Kubernetes takes plain numbers too.
    fn quantity(&self) -> Result<Quantity, BadRow> {
        let parsed = match self.value {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        };
        parsed
            .filter(|q: &Quantity| !q.is_negative())
            .ok_or_else(|| self.bad("a quantity such as 16 or 64Gi"))
    }

    fn bad(&self, expected: &'static str) -> BadRow {
        let value =
            if self.value.is_null() { "nothing".to_owned() } else { shortened(&self.value.to_string()) };
        self.complaint(value, expected)
    }

    fn complaint(&self, value: String, expected: &'static str) -> BadRow {
        let Entry { file, index, value: entry } = self.entry;
        let name = entry.get("name").and_then(Value::as_str);
        let row = match name {
            Some(name) => format!("entry {index} ({name:?})"),
            None => format!("entry {index}"),
        };
        BadRow { file: (*file).to_owned(), row, column: self.path.clone(), value, expected }
    }
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
