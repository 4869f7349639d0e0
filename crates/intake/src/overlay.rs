//! Corrections to the catalog.

use headstart_core::labels::{CAPACITY_TYPE, HOSTNAME, ON_DEMAND, RESERVED, SPOT, WellKnown, normalize};
use headstart_core::overlay::{Overlay, PriceChange, PriceChangeError};
use headstart_core::requirement::Operator;
use headstart_core::requirements::Requirements;
use headstart_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use serde::Deserialize;

use crate::decode::{Expression, Fault, nullable};
use crate::meta::Meta;
use crate::names::{wrong_key, wrong_value};

/// A node overlay.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeOverlay {
    pub(crate) metadata: Meta,
    spec: Option<OverlaySpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OverlaySpec {
    requirements: Option<Vec<Expression>>,
    price: Option<String>,
    price_adjustment: Option<String>,
    #[serde(deserialize_with = "nullable")]
    capacity: Resources,
    weight: Option<i32>,
}

const MOST_REQUIREMENTS: usize = 100;
const MOST_WEIGHT: i32 = 10_000;

impl NodeOverlay {
    /// The overlay for the solver, checked as the API server and Karpenter check it.
    pub(crate) fn overlay(&self, well_known: &WellKnown) -> Result<Overlay, Fault> {
        let spec = self.spec.as_ref().ok_or_else(|| Fault::new("spec", "is missing"))?;
        spec.overlay(&self.metadata.name, well_known).map_err(|fault| fault.within("spec"))
    }
}

impl OverlaySpec {
    fn overlay(&self, name: &str, well_known: &WellKnown) -> Result<Overlay, Fault> {
        let asked = self.requirements.as_ref().ok_or_else(|| Fault::new("requirements", "must be given"))?;
        if asked.len() > MOST_REQUIREMENTS {
            return Err(Fault::new("requirements", format!("must be at most {MOST_REQUIREMENTS}")));
        }
        let mut requirements = Requirements::new();
        for (i, expression) in asked.iter().enumerate() {
            let at = format!("requirements[{i}]");
            check(expression, well_known).map_err(|fault| fault.within(&at))?;
            requirements.add(expression.requirement().map_err(|fault| fault.within(&at))?);
        }
        for (name, _) in self.capacity.iter() {
            if [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&name) {
                return Err(Fault::new(format!("capacity.{name}"), "is no extended resource"));
            }
        }
        if self.weight.is_some_and(|weight| !(1..=MOST_WEIGHT).contains(&weight)) {
            return Err(Fault::new("weight", format!("must be between 1 and {MOST_WEIGHT}")));
        }
        Ok(Overlay {
            name: name.into(),
            weight: self.weight.unwrap_or(0),
            requirements,
            price: self.price()?,
            capacity: self.capacity.clone(),
        })
    }

    fn price(&self) -> Result<Option<PriceChange>, Fault> {
        let fault = |field: &'static str| move |error: PriceChangeError| Fault::new(field, error.to_string());
        match (&self.price, &self.price_adjustment) {
            (Some(_), Some(_)) => Err(Fault::new("priceAdjustment", "cannot be given together with price")),
            (Some(price), None) => PriceChange::price(price).map(Some).map_err(fault("price")),
            (None, Some(change)) => {
                PriceChange::adjustment(change).map(Some).map_err(fault("priceAdjustment"))
            }
            (None, None) => Ok(None),
        }
    }
}

fn check(expression: &Expression, well_known: &WellKnown) -> Result<(), Fault> {
    let (key, values) = (normalize(&expression.key), &expression.values);
    let operator = expression.operator()?;
    if let Some(wrong) = wrong_key(key) {
        return Err(Fault::new("key", wrong));
    }
    if is_restricted(key) && !well_known.has(key) {
        return Err(Fault::new("key", format!("label {key} belongs to Karpenter")));
    }
    if let Some((i, wrong)) = values.iter().enumerate().find_map(|(i, value)| Some((i, wrong_value(value)?)))
    {
        return Err(Fault::new(format!("values[{i}]"), wrong));
    }
    let known = |value: &String| [SPOT, ON_DEMAND, RESERVED].contains(&value.as_str());
    let numeric = [Operator::Gt, Operator::Lt, Operator::Gte, Operator::Lte].contains(&operator);
    if operator == Operator::NotIn && values.is_empty() {
        Err(Fault::new("values", "operator NotIn needs a value"))
    } else if operator == Operator::In
        && key == CAPACITY_TYPE
        && !values.is_empty()
        && !values.iter().any(known)
    {
        Err(Fault::new("values", "names no capacity type: spot, on-demand or reserved"))
    } else if numeric && !matches!(&values[..], [value] if value.parse::<i64>().is_ok_and(|n| n >= 0)) {
        Err(Fault::new("values", format!("operator {operator} needs one integer that is not negative")))
    } else {
        Ok(())
    }
}

fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    key == HOSTNAME || domain == "karpenter.sh" || domain.ends_with(".karpenter.sh")
}
