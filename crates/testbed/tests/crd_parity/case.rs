//! What is asked of the API server.

use serde_json::{Map, Value, json};

/// A resource under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    NodePool,
    NodeClaim,
    NodeOverlay,
    KwokNodeClass,
    CapacityBuffer,
    /// The older version of the same resource, which Karpenter's definition does not serve.
    OldCapacityBuffer,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::NodePool,
        Self::NodeClaim,
        Self::NodeOverlay,
        Self::KwokNodeClass,
        Self::CapacityBuffer,
        Self::OldCapacityBuffer,
    ];

    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::NodePool => "NodePool",
            Self::NodeClaim => "NodeClaim",
            Self::NodeOverlay => "NodeOverlay",
            Self::KwokNodeClass => "KWOKNodeClass",
            Self::CapacityBuffer | Self::OldCapacityBuffer => "CapacityBuffer",
        }
    }

    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            Self::NodePool | Self::NodeClaim => "karpenter.sh/v1",
            Self::NodeOverlay => "karpenter.sh/v1alpha1",
            Self::KwokNodeClass => "karpenter.kwok.sh/v1alpha1",
            Self::CapacityBuffer => "autoscaling.x-k8s.io/v1beta1",
            Self::OldCapacityBuffer => "autoscaling.x-k8s.io/v1alpha1",
        }
    }

    /// The path of the resource's collection.
    pub(crate) fn path(self) -> String {
        let api_version = self.api_version();
        match self {
            Self::NodePool => format!("/apis/{api_version}/nodepools"),
            Self::NodeClaim => format!("/apis/{api_version}/nodeclaims"),
            Self::NodeOverlay => format!("/apis/{api_version}/nodeoverlays"),
            Self::KwokNodeClass => format!("/apis/{api_version}/kwoknodeclasses"),
            Self::CapacityBuffer | Self::OldCapacityBuffer => {
                format!("/apis/{api_version}/namespaces/default/capacitybuffers")
            }
        }
    }

    /// An object without a name, with this spec.
    pub(crate) fn object(self, spec: Value) -> Value {
        let mut object = json!({ "apiVersion": self.api_version(), "kind": self.kind(), "metadata": {} });
        object["spec"] = spec;
        object
    }
}

/// One question to the API server. Objects have no names; whoever asks gives them one.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) action: Action,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Create the object without keeping it.
    Create(Value),
    /// The same, and refuse fields that are not known.
    CreateStrictly(Value),
    /// Create the first, then replace it with the second.
    Update(Value, Value),
    /// Create the object, then replace its status.
    Status(Value, Value),
    /// Create the object, then set its scale.
    Scale(Value, Value),
    /// Apply the objects, each as a manager of its own.
    Apply(Vec<Value>),
}

/// Cases of one kind that start from one object and change it in one place each.
pub(crate) struct Cases {
    kind: Kind,
    base: Value,
    list: Vec<Case>,
}

impl Cases {
    pub(crate) fn new(kind: Kind, base: Value) -> Self {
        Self { kind, base, list: Vec::new() }
    }

    pub(crate) fn done(self) -> Vec<Case> {
        self.list
    }

    /// Creates the base with each value in one place.
    pub(crate) fn create(&mut self, at: &str, values: impl IntoIterator<Item = Value>) {
        for value in values {
            let name = format!("create with {at} = {value}");
            self.push(name, Action::Create(with(&self.base, at, value)));
        }
    }

    /// Creates the base without what is in one place.
    pub(crate) fn create_without(&mut self, at: &str) {
        self.push(format!("create without {at}"), Action::Create(without(&self.base, at)));
    }

    /// Creates the base with one value in one place, for each place.
    pub(crate) fn create_with_fields(&mut self, fields: &[(&str, Value)]) {
        let object =
            fields.iter().fold(self.base.clone(), |object, (at, value)| with(&object, at, value.clone()));
        let name: Vec<_> = fields.iter().map(|(at, value)| format!("{at} = {value}")).collect();
        self.push(format!("create with {}", name.join(", ")), Action::Create(object));
    }

    /// Creates the base with a field nobody knows, which is dropped or, strictly, refused.
    pub(crate) fn unknown_field(&mut self, at: &str) {
        let object = with(&self.base, at, json!("?"));
        self.push(format!("create with unknown {at}"), Action::Create(object.clone()));
        self.push(format!("create strictly with unknown {at}"), Action::CreateStrictly(object));
    }

    /// Changes the base in one place after it was created.
    pub(crate) fn update(&mut self, at: &str, values: impl IntoIterator<Item = Value>) {
        for value in values {
            let after = with(&self.base, at, value.clone());
            self.push(format!("update {at} = {value}"), Action::Update(self.base.clone(), after));
        }
    }

    /// Takes away what is in one place of the base after it was created.
    pub(crate) fn update_without(&mut self, at: &str) {
        let after = without(&self.base, at);
        self.push(format!("update without {at}"), Action::Update(self.base.clone(), after));
    }

    /// Replaces the status of the base.
    pub(crate) fn status(&mut self, status: Value) {
        self.push(format!("status = {status}"), Action::Status(self.base.clone(), status));
    }

    pub(crate) fn push(&mut self, name: impl Into<String>, action: Action) {
        let name = shorten(&format!("{:?} {}", self.kind, name.into()));
        self.list.push(Case { name, kind: self.kind, action });
    }
}

/// The object with a value at a path like `/spec/taints/0/key`; what is missing on the way is made.
pub(crate) fn with(object: &Value, at: &str, value: Value) -> Value {
    fn set(target: &mut Value, mut path: std::str::Split<'_, char>, value: Value) {
        let Some(step) = path.next() else {
            *target = value;
            return;
        };
        if let Value::Array(items) = target {
            let index: usize = step.parse().expect("an index into a list");
            return set(&mut items[index], path, value);
        }
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        set(&mut target[step.replace("~1", "/")], path, value);
    }
    let mut object = object.clone();
    set(&mut object, at.strip_prefix('/').expect("a path").split('/'), value);
    object
}

/// The object without what is at a path.
pub(crate) fn without(object: &Value, at: &str) -> Value {
    let mut object = object.clone();
    let (parent, field) = at.rsplit_once('/').expect("a path");
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).expect("a path in the object");
    parent.remove(field).expect("something to remove");
    object
}

fn shorten(name: &str) -> String {
    if name.len() <= 160 {
        name.to_owned()
    } else {
        format!("{}…", name.chars().take(160).collect::<String>())
    }
}
