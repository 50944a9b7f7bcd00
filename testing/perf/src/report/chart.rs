//! The chart of a scenario: a bar for each contestant, as SVG.
//!
//! Its colours follow the reader's choice of light or dark. Contestants without durability have a
//! pale bar. A thin line goes from the lowest to the highest of the rounds.

use std::fmt::Write as _;

use crate::contestant::Role;
use crate::figure::Figure;
use crate::record::{Entry, Measured};
use crate::units::{self, float};

const WIDTH: f64 = 760.0;
const NAMES: f64 = 190.0;
const BARS: f64 = 460.0;
const TOP: f64 = 62.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;

const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.small { font-size: 12px; fill: #59636e }
.ours { fill: #0969da } .floor { fill: #818b98 } .peer { fill: #bc6c00 }
.pale { opacity: .5 }
.range { stroke: #1f2328; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 }
  .ours { fill: #4493f8 } .peer { fill: #db9a3c } .range { stroke: #e6edf3 }
}";

/// The whole file.
pub(super) fn of(measured: &Measured, figure: Figure) -> String {
    let shown: Vec<_> = measured
        .entries
        .iter()
        .filter(|entry| !entry.rounds.is_empty())
        .collect();
    let ranges = shown.iter().filter_map(|entry| entry.range(figure));
    let most = ranges.map(|(_, highest)| highest).fold(0.0, f64::max);
    let height = TOP + ROW * float(shown.len() as u64) + 8.0;
    let (name, title) = (&measured.name, escaped(&measured.title));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{name}: {title}</title>\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"8\" y=\"22\">{name}: {title}</text>\n\
         <text class=\"small\" x=\"{}\" y=\"46\" text-anchor=\"end\">{}{}</text>\n{}",
        WIDTH - 8.0,
        figure.name(),
        if figure.is_cost() {
            ", less is better"
        } else {
            ""
        },
        legend()
    );
    for (index, entry) in shown.iter().enumerate() {
        svg += &bar(entry, figure, TOP + ROW * float(index as u64), most);
    }
    svg + "</svg>\n"
}

/// The legend of the colours.
fn legend() -> String {
    let mut legend = String::new();
    let kinds = [
        (8.0, "ours", "ours"),
        (70.0, "floor", "floors"),
        (140.0, "peer", "peers"),
        (206.0, "floor pale", "pale: syncs nothing"),
    ];
    for (x, class, text) in kinds {
        let _ = writeln!(
            legend,
            "<rect class=\"{class}\" x=\"{x}\" y=\"36\" width=\"12\" height=\"12\"/>\
             <text class=\"small\" x=\"{}\" y=\"46\">{text}</text>",
            x + 17.0
        );
    }
    legend
}

fn bar(entry: &Entry, figure: Figure, y: f64, most: f64) -> String {
    let Some((lowest, highest)) = entry.range(figure) else {
        return String::new();
    };
    let rate = entry.median(figure).unwrap_or_default();
    let long = |rate: f64| BARS * rate / most.max(f64::MIN_POSITIVE);
    let (name, middle) = (escaped(&entry.name), y + BAR / 2.0);
    let (text_y, text_x) = (middle + 4.5, NAMES + long(highest) + 8.0);
    let (from, to) = (NAMES + long(lowest), NAMES + long(highest));
    format!(
        "<text x=\"{}\" y=\"{text_y:.1}\" text-anchor=\"end\">{name}</text>\
         <rect class=\"{}\" x=\"{NAMES}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\
         <line class=\"range\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
         <text x=\"{text_x:.1}\" y=\"{text_y:.1}\">{}</text>\n",
        NAMES - 8.0,
        class(entry),
        long(rate).max(1.0),
        units::figure(rate)
    )
}

fn class(entry: &Entry) -> String {
    let role = match entry.role {
        Role::Ours => "ours",
        Role::Baseline | Role::Reference | Role::Floor => "floor",
        Role::Peer => "peer",
    };
    let pale = if entry.durable { "" } else { " pale" };
    format!("{role}{pale}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::record::tests::measured;

    #[test]
    fn a_bar_is_as_long_as_its_share_of_the_highest_rate() {
        let svg = of(
            &measured(&[
                ("ours", Role::Ours, &[(0, 100.0)]),
                ("<peer>", Role::Peer, &[(0, 50.0)]),
                ("absent", Role::Peer, &[]),
            ]),
            Figure::Mib,
        );
        assert!(svg.contains("class=\"ours\" x=\"190\" y=\"62.0\" width=\"460.0\""));
        assert!(svg.contains("class=\"peer pale\" x=\"190\" y=\"88.0\" width=\"230.0\""));
        assert!(svg.contains("&lt;peer>") && !svg.contains("absent"));
        assert!(!svg.contains("less is better"));
    }

    #[test]
    fn a_line_goes_from_the_lowest_to_the_highest_and_costs_are_marked() {
        let mut measured = measured(&[("ours", Role::Ours, &[(0, 50.0), (1, 100.0)])]);
        measured.figures = vec![Figure::Connection];
        for figures in measured.entries[0].rounds.values_mut() {
            let value = figures[&Figure::Mib];
            figures.insert(Figure::Connection, value);
        }
        let svg = of(&measured, Figure::Connection);
        assert!(svg.contains("KiB a connection, less is better"));
        assert!(svg.contains("class=\"range\" x1=\"420.0\" x2=\"650.0\""));
        assert!(svg.contains(">75.0</text>"));
    }
}
