//! Spoils a manifest, in ways that people and programs do; the same seed spoils it the same way.

use serde_json::{Map, Value, json};

/// A spoiled manifest.
pub(super) struct Mutant {
    /// What was done to it.
    pub(super) how: Vec<String>,
    pub(super) text: String,
}

/// A small generator of numbers that look random.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`.
    pub(super) fn roll(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

const AMOUNTS: [&str; 16] = [
    "1e400",
    "-5",
    "9223372036854775807Ei",
    "-9223372036854775808",
    "1e-400",
    "0",
    "-0",
    "1n",
    "0.1n",
    "NaN",
    "Inf",
    "1Q",
    "1 Gi",
    "99999999999999999999999999999999999999999999",
    "100k",
    "1e9",
];

const WORDS: [&str; 20] = [
    "",
    " ",
    "\t",
    "null",
    "~",
    "---",
    "- a",
    "a: b",
    "{",
    "*ref",
    "true",
    "日本語",
    "e\u{301}\u{202e}\u{feff}",
    "\u{0}",
    "🦀\n🦀",
    "../../etc",
    "kubernetes.io/hostname",
    "test-zone-a",
    "Exists",
    "2147483648",
];

/// Stands for many levels of lists until the text is written.
const DEEP: &str = "@deep@";

const VERSIONS: [&str; 7] =
    ["v1", "apps/v1", "example.com/v1", "karpenter.sh/v1beta1", "", "v1/v1/v1", "batch.volcano.sh/v1alpha1"];

const KINDS: [&str; 9] =
    ["Pod", "NodePool", "Node", "DaemonSet", "List", "PodList", "pod", "", "PersistentVolumeClaim"];

/// One manifest, spoiled.
pub(super) fn mutate(dice: &mut Dice, seed: &Value) -> Mutant {
    let mut value = seed.clone();
    let mut how = Vec::new();
    for _ in 0..=dice.roll(3) {
        let places = places(&value);
        let place = dice.pick(&places).clone();
        let what = spoil(dice, &mut value, &place);
        how.push(format!("{what} at {}", if place.is_empty() { "the top" } else { &place }));
    }
    let as_yaml = dice.roll(2) == 0;
    let mut text = if as_yaml { yaml(&value) } else { value.to_string() };
    // Written only now: a value this deep could not even be printed.
    let levels = [20, 100, 400, 50_000][dice.roll(4)];
    text = text
        .replace(&format!("{DEEP:?}"), DEEP)
        .replace(DEEP, &format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
    if dice.roll(4) == 0 {
        let what = scribble(dice, &mut text);
        how.push(what.to_owned());
    }
    if dice.roll(12) == 0 {
        how.push("written twice".to_owned());
        text = format!("{text}\n---\n{}", yaml(seed));
    }
    Mutant { how, text }
}

fn yaml(value: &Value) -> String {
    crate::output::yaml(value).unwrap_or_else(|_| value.to_string())
}

/// Pointers to everything in a value.
fn places(value: &Value) -> Vec<String> {
    fn visit(value: &Value, at: &str, all: &mut Vec<String>) {
        all.push(at.to_owned());
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    visit(field, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    visit(item, &format!("{at}/{i}"), all);
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    visit(value, "", &mut all);
    all
}

/// Changes what is at a place, or the place itself.
fn spoil(dice: &mut Dice, root: &mut Value, place: &str) -> &'static str {
    let elsewhere = {
        let all = places(root);
        root.pointer(dice.pick::<String>(&all)).cloned().unwrap_or_default()
    };
    let (parent, name) = place.rsplit_once('/').unwrap_or(("", ""));
    let name = name.replace("~1", "/").replace("~0", "~");
    match dice.roll(14) {
        0 => set(root, place, Value::Null, "null"),
        1 => {
            let wrong = [
                json!(true),
                json!(7),
                json!(1.5),
                json!("text"),
                json!([]),
                json!({}),
                json!([[], [[]]]),
                json!([{}]),
                json!({"a": {"b": []}}),
                json!([null]),
            ];
            set(root, place, dice.pick(&wrong).clone(), "another type")
        }
        2 => {
            let numbers = [
                json!(i64::MAX),
                json!(i64::MIN),
                json!(u64::MAX),
                json!(1e308),
                json!(-1),
                json!(0),
                json!(i64::from(i32::MAX) + 1),
                json!(1e-9),
                json!(-0.0),
                json!(65_536),
            ];
            set(root, place, dice.pick(&numbers).clone(), "a number")
        }
        3 | 4 => set(root, place, json!(*dice.pick(&AMOUNTS)), "an amount"),
        5 | 6 => set(root, place, json!(*dice.pick(&WORDS)), "a word"),
        7 => set(root, place, json!("long".repeat(5_000)), "a long text"),
        8 => set(root, place, json!(DEEP), "deep nesting"),
        9 => {
            match root.pointer_mut(parent) {
                Some(Value::Object(fields)) => drop(fields.remove(&name)),
                Some(Value::Array(items)) => drop(name.parse().map(|at: usize| items.remove(at))),
                _ => {}
            }
            "removal"
        }
        10 => {
            if let (Some(Value::Array(items)), Ok(at)) = (root.pointer_mut(parent), name.parse::<usize>()) {
                let copies = [1, 2, 60][dice.roll(3)];
                let item = items[at].clone();
                items.extend(std::iter::repeat_n(item, copies));
                return "copies of an item";
            }
            set(root, place, elsewhere, "something from elsewhere")
        }
        11 => set(root, place, elsewhere, "something from elsewhere"),
        12 => {
            if let Value::Object(fields) = root {
                let (field, text) = if dice.roll(2) == 0 {
                    ("apiVersion", *dice.pick(&VERSIONS))
                } else {
                    ("kind", *dice.pick(&KINDS))
                };
                fields.insert(field.to_owned(), json!(text));
            }
            "another kind or version"
        }
        _ => {
            if let Some(Value::Object(fields)) = root.pointer_mut(parent)
                && let Some(value) = fields.remove(&name)
            {
                let odd = ["", " name", "Name", "日本", "a.b/c", "0"];
                fields.insert((*dice.pick(&odd)).to_owned(), value);
                return "another key";
            }
            let whole = std::mem::take(root);
            *root = match dice.roll(3) {
                0 => json!([[whole.clone()], [[whole]], []]),
                1 => json!({ "kind": "List", "apiVersion": "v1", "items": [whole, null, 1, []] }),
                _ => Value::Object(Map::from_iter([
                    ("kind".to_owned(), json!("List")),
                    ("items".to_owned(), whole),
                ])),
            };
            "a list around it"
        }
    }
}

fn set(root: &mut Value, place: &str, value: Value, what: &'static str) -> &'static str {
    if let Some(at) = root.pointer_mut(place) {
        *at = value;
    }
    what
}

/// Changes the text without regard to what it means.
fn scribble(dice: &mut Dice, text: &mut String) -> &'static str {
    let mut at = dice.roll(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = dice.roll(lines.len());
    match dice.roll(8) {
        0 | 1 => {
            text.truncate(at);
            "cut off"
        }
        2 => {
            text.insert_str(
                at,
                ["{", "}", "[", "]", "\t", "&a ", "*a", "!!", "|", "\"", "'", "%"][dice.roll(12)],
            );
            "a stray character"
        }
        3 => {
            let kept = lines.iter().enumerate().filter(|(i, _)| *i != line).map(|(_, line)| line.as_str());
            *text = kept.collect::<Vec<_>>().join("\n");
            "a lost line"
        }
        4 => {
            let twice = lines
                .iter()
                .enumerate()
                .flat_map(|(i, kept)| std::iter::repeat_n(kept.as_str(), if i == line { 2 } else { 1 }));
            *text = twice.collect::<Vec<_>>().join("\n");
            "a line twice"
        }
        5 => {
            *text = text.replace('\n', "\r\n");
            "other line ends"
        }
        6 => {
            let number = [".nan", ".inf", "1e400", "0x10", "1_000"][dice.roll(5)];
            *text = text.replacen(": 1\n", &format!(": {number}\n"), 1).replacen("\"1\"", number, 1);
            "an odd number"
        }
        _ => {
            let doubled = text.replacen("\"spec\":", "\"spec\":null,\"spec\":", 1);
            *text = if doubled == *text { format!("{text}\nspec: {{}}\n") } else { doubled };
            "a key twice"
        }
    }
}
