//! A report as one page that needs nothing else: no network, no other file.

mod charts;
mod plot;

use std::fmt::Write as _;

use headstart_engine::Wall;
use headstart_engine::observation::{Decision, History, State};

use super::figures::{self, Figures, dollars, seconds};
use super::table;

/// A page; text that others wrote is escaped wherever it goes.
pub(crate) fn render(history: &History, figures: &Figures) -> String {
    let mut page = String::with_capacity(1 << 18);
    let title = if figures.compares { "Headstart beside this cluster's autoscaler" } else { "Headstart" };
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{}</style>\n</head>\n<body>\n<main>\n",
        include_str!("style.css")
    );
    let _ = write!(
        page,
        "<header>\n<p class=\"kicker\">{title}</p>\n<h1>{}</h1>\n<p class=\"scope\">{}</p>\n</header>\n",
        escape(&figures.headline()),
        escape(&table::scope(history, figures)),
    );
    tiles(&mut page, figures);
    page.push_str("<section class=\"plots\">\n");
    for plot in charts::all(history, figures) {
        plot.write(&mut page);
    }
    page.push_str("</section>\n");
    beliefs(&mut page, history);
    decisions(&mut page, history, figures);
    notes(&mut page, history, figures);
    let _ = write!(
        page,
        "</main>\n<footer>Made by headstart {} from what was observed until {}.</footer>\n<script>\n{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        figures::date(history.to),
        include_str!("script.js")
    );
    page
}

/// Text that cannot be anything but text.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A link that saves a table as a file, and a button that copies it.
pub(super) fn tools(page: &mut String, name: &str, csv: &str) {
    let mut data = String::with_capacity(csv.len() * 2);
    for byte in csv.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b',' | b'-' | b'_' | b':' => {
                data.push(char::from(byte));
            }
            other => {
                let _ = write!(data, "%{other:02X}");
            }
        }
    }
    let _ = writeln!(
        page,
        "<p class=\"tools\"><a download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{data}\">CSV</a> \
         <button type=\"button\" data-copy>Copy</button></p>"
    );
}

/// A table as values with commas between them.
pub(super) fn csv(rows: &[Vec<String>]) -> String {
    let cell = |text: &String| {
        // What begins like this is a formula to a spreadsheet.
        let text = if text.starts_with(['=', '@', '\t', '\r']) { format!("'{text}") } else { text.clone() };
        if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n").collect()
}

fn tiles(page: &mut String, figures: &Figures) {
    let rows = table::sides(figures);
    let rows = if figures.compares { &rows[1..] } else { &rows[..] };
    page.push_str("<section class=\"tiles\" aria-label=\"Figures\">\n");
    for row in rows {
        let _ = write!(page, "<div class=\"tile\"><h2>{}</h2>", escape(&row[0]));
        if figures.compares {
            let _ = write!(
                page,
                "<p class=\"theirs\"><span>cluster</span> <b>{}</b></p><p class=\"ours\"><span>Headstart</span> <b>{}</b></p>",
                escape(&row[1]),
                escape(&row[2])
            );
        } else {
            let _ = write!(page, "<p class=\"ours\"><b>{}</b></p>", escape(&row[1]));
        }
        page.push_str("</div>\n");
    }
    page.push_str("</section>\n");
}

fn table(page: &mut String, rows: &[Vec<String>], numbers: &[usize]) {
    page.push_str("<div class=\"scroll\"><table>\n");
    for (at, row) in rows.iter().enumerate() {
        let tag = if at == 0 { "th" } else { "td" };
        page.push_str(if at == 0 { "<thead><tr>" } else { "<tr>" });
        for (column, cell) in row.iter().enumerate() {
            let class = if numbers.contains(&column) { " class=\"n\"" } else { "" };
            let _ = write!(page, "<{tag}{class}>{}</{tag}>", escape(cell));
        }
        page.push_str(if at == 0 { "</tr></thead><tbody>\n" } else { "</tr>\n" });
    }
    page.push_str("</tbody></table></div>\n");
}

fn beliefs(page: &mut String, history: &History) {
    page.push_str("<section class=\"card\">\n<h2>Beliefs</h2>\n");
    if history.beliefs.is_empty() {
        page.push_str("<p>Nothing was bought for pods that were only expected.</p>\n</section>\n");
        return;
    }
    let rows = table::beliefs(history);
    table(page, &rows, &[1, 2, 3, 4, 5, 6]);
    let mut plain = vec![
        ["source", "expected", "arrived", "saved_seconds", "idle_node_seconds", "idle_dollars"]
            .map(str::to_owned)
            .to_vec(),
    ];
    plain.extend(history.beliefs.iter().map(|belief| {
        vec![
            belief.source.clone(),
            belief.expected.to_string(),
            belief.arrived.to_string(),
            belief.saved_seconds.to_string(),
            belief.idle_node_seconds.to_string(),
            belief.idle_dollars.to_string(),
        ]
    }));
    tools(page, "beliefs", &csv(&plain));
    page.push_str("</section>\n");
}

fn decisions(page: &mut String, history: &History, figures: &Figures) {
    page.push_str("<section class=\"card\">\n<h2>Decisions</h2>\n");
    if history.decisions.is_empty() {
        page.push_str("<p>None yet.</p>\n</section>\n");
        return;
    }
    if history.dropped > 0 {
        let _ = writeln!(page, "<p>{} earlier ones are not known any more.</p>", history.dropped);
    }
    page.push_str("<ol class=\"decisions\" reversed>\n");
    for decision in history.decisions.iter().rev() {
        one(page, decision, figures);
    }
    page.push_str("</ol>\n");
    tools(page, "decisions", &csv(&rows(history)));
    page.push_str("</section>\n");
}

fn one(page: &mut String, decision: &Decision, figures: &Figures) {
    let came = match decision.state {
        State::Missed => "no pod came".to_owned(),
        _ => format!("{} of {} pods have a node", decision.bound, decision.pods),
    };
    let _ = write!(
        page,
        "<li><p class=\"when\"><time>{}</time> <span class=\"state {state}\">{state}</span> {came}</p>\n<p>{}</p>\n",
        figures::date(decision.at),
        escape(&decision.because),
        state = figures::state(decision.state),
    );
    let p95 = |side: &headstart_engine::observation::Side| {
        side.waits.quantile(0.95).map(|p95| format!(" · wait p95 {}", seconds(p95))).unwrap_or_default()
    };
    let an_hour = |amount: f64| format!("{}/h", dollars(amount));
    let (would, real) = (&decision.would, &decision.real);
    if !figures.compares {
        let _ = writeln!(
            page,
            "<p class=\"ours\">{} · {}{}</p></li>",
            escape(&figures::nodes(&would.nodes)),
            an_hour(would.dollars),
            p95(real)
        );
        return;
    }
    let after = match figures::apart(decision) {
        Some(apart) if apart < 0.0 => format!("{} earlier", seconds(-apart)),
        Some(apart) => format!("{} later", seconds(apart)),
        None => "no node was started".to_owned(),
    };
    let _ = write!(
        page,
        "<p class=\"ours\"><span>Headstart</span> {} · {}{}</p>\n<p class=\"theirs\"><span>cluster</span> {} · {} · {}{}</p></li>\n",
        escape(&figures::nodes(&would.nodes)),
        an_hour(would.dollars),
        p95(would),
        escape(&figures::nodes(&real.nodes)),
        an_hour(real.dollars),
        after,
        p95(real),
    );
}

fn rows(history: &History) -> Vec<Vec<String>> {
    let head = [
        "id",
        "at",
        "state",
        "pods",
        "expected",
        "bound",
        "would_nodes",
        "would_dollars_per_hour",
        "would_wait_p95",
        "first_claim",
        "last_claim",
        "nodes",
        "dollars_per_hour",
        "wait_p95",
        "because",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let time = |wall: Option<Wall>| wall.map(stamp).unwrap_or_default();
    let p95 = |side: &headstart_engine::observation::Side| {
        side.waits.quantile(0.95).map(|p95| p95.to_string()).unwrap_or_default()
    };
    for decision in &history.decisions {
        let Decision { would, real, .. } = decision;
        rows.push(vec![
            decision.id.to_string(),
            stamp(decision.at),
            figures::state(decision.state).to_owned(),
            decision.pods.to_string(),
            decision.expected.to_string(),
            decision.bound.to_string(),
            figures::nodes(&would.nodes),
            would.dollars.to_string(),
            p95(would),
            time(real.first),
            time(real.last),
            figures::nodes(&real.nodes),
            real.dollars.to_string(),
            p95(real),
            decision.because.clone(),
        ]);
    }
    rows
}

/// Seconds since 1970, with milliseconds: what programs like best.
pub(super) fn stamp(wall: Wall) -> String {
    format!("{}.{:03}", wall.0.div_euclid(1000), wall.0.rem_euclid(1000))
}

fn notes(page: &mut String, history: &History, figures: &Figures) {
    page.push_str("<section class=\"card notes\">\n<h2>How to read this</h2>\n<ul>\n");
    if figures.compares {
        let learned = history.decisions.iter().rev().find(|decision| decision.lead_of > 0);
        let lead = match learned {
            Some(decision) => format!(
                "{} s, the median of the last {} nodes of the cluster's autoscaler",
                decision.lead, decision.lead_of
            ),
            None => "60 s, an assumption, since no node was seen to start".to_owned(),
        };
        let _ = write!(
            page,
            "<li>Nothing was changed: Headstart only decided, at the time at which it would have acted.</li>\n\
             <li>Its pods would have waited until a node was ready. A node is taken to need {lead}.</li>\n\
             <li>Its nodes are taken to go when those go that the cluster's autoscaler started for the same pods.</li>\n\
             <li>Removing and replacing nodes is not compared, and neither is how often a cloud has no capacity.</li>\n"
        );
    }
    page.push_str("<li>Times are UTC. A wait is the time from a pod's creation until it has a node.</li>\n");
    for modelled in &history.modelled {
        let _ = writeln!(page, "<li>{}</li>", escape(modelled));
    }
    page.push_str("</ul>\n</section>\n");
}
