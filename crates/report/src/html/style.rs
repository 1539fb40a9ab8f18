//! How an architecture looks in every figure: by colour, by the shape of its marker, and by its dash, so that none of them is
//! needed to tell it from others.

use std::fmt::Write;

use serde::Serialize;

/// The look of one architecture.
#[derive(Clone, Debug, Serialize)]
pub struct Style {
    /// On white.
    pub light: &'static str,
    /// On black.
    pub dark: &'static str,
    /// Its marker, by the name that plotly has for it.
    pub marker: &'static str,
    /// Dashes and gaps, in pixels; none is a whole line.
    pub dash: &'static [u32],
}

/// Told apart with each kind of colour blindness, on white and on black: those of Okabe and Ito (2008), darker or lighter where
/// they would be too faint.
const COLOURS: [(&str, &str); 8] = [
    ("#0067a8", "#57b1ee"),
    ("#c44e00", "#ff8f4a"),
    ("#00795a", "#2fce9d"),
    ("#a33c78", "#ec9fcb"),
    ("#8a6a00", "#f0c53a"),
    ("#3f3f3f", "#d6d6d6"),
    ("#2a8fc4", "#a5dcff"),
    ("#7a3b12", "#d4a47c"),
];

/// As many as have no divisor in common with the colours, so that 56 architectures look different.
const MARKERS: [&str; 7] = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"];

const DASHES: [&[u32]; 5] = [&[], &[7, 3], &[2, 2], &[12, 4], &[4, 6]];

/// Of the architecture at a place.
pub fn style(place: usize) -> Style {
    let (light, dark) = COLOURS[place % COLOURS.len()];
    Style { light, dark, marker: MARKERS[place % MARKERS.len()], dash: DASHES[place % DASHES.len()] }
}

/// Of what a paper prints: in the colour of text, unlike any architecture's.
pub fn published(has_marker: bool) -> Style {
    let marker = if has_marker { "star" } else { "" };
    Style { light: "#1b1f24", dark: "#e7eaee", marker, dash: if has_marker { &[1, 4] } else { &[9, 3] } }
}

/// The corners of a marker around its centre, of about this radius.
pub fn corners(marker: &str, radius: f64) -> Vec<(f64, f64)> {
    let at = |points: &[(f64, f64)]| points.iter().map(|(x, y)| (x * radius, y * radius)).collect();
    let cross = [
        (-0.35, -1.1),
        (0.35, -1.1),
        (0.35, -0.35),
        (1.1, -0.35),
        (1.1, 0.35),
        (0.35, 0.35),
        (0.35, 1.1),
        (-0.35, 1.1),
        (-0.35, 0.35),
        (-1.1, 0.35),
        (-1.1, -0.35),
        (-0.35, -0.35),
    ];
    match marker {
        "square" => at(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        "diamond" => at(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
        "triangle-up" => at(&[(0.0, -1.2), (1.15, 0.8), (-1.15, 0.8)]),
        "triangle-down" => at(&[(0.0, 1.2), (1.15, -0.8), (-1.15, -0.8)]),
        "star" => {
            let angle = |at: u32| f64::from(at) * std::f64::consts::TAU / 10.0;
            let corner = |at: u32| (angle(at).sin(), -angle(at).cos());
            let far = |at: u32| radius * if at.is_multiple_of(2) { 1.5 } else { 0.6 };
            (0..10).map(|at| (corner(at).0 * far(at), corner(at).1 * far(at))).collect()
        }
        "cross" => at(&cross),
        "x" => {
            let half = std::f64::consts::FRAC_1_SQRT_2;
            at(&cross.map(|(x, y)| ((x - y) * half, (x + y) * half)))
        }
        _ => {
            let angle = |at: u32| f64::from(at) * std::f64::consts::TAU / 24.0;
            (0..24).map(|at| (radius * angle(at).cos(), radius * angle(at).sin())).collect()
        }
    }
}

/// A line with its marker, as SVG, in the colour of its text.
pub fn swatch(place: usize) -> String {
    drawn(&style(place))
}

/// Likewise, of a style.
pub fn drawn(style: &Style) -> String {
    let Style { marker, dash, .. } = style;
    let dash: Vec<String> = dash.iter().map(u32::to_string).collect();
    let mut points = String::new();
    for (x, y) in if marker.is_empty() { Vec::new() } else { corners(marker, 4.5) } {
        let _ = write!(points, "{:.1},{:.1} ", 16.0 + x, 7.0 + y);
    }
    format!(
        "<svg width=\"32\" height=\"14\" viewBox=\"0 0 32 14\" aria-hidden=\"true\" focusable=\"false\">\
         <path d=\"M0 7H32\" stroke=\"currentColor\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>\
         <polygon points=\"{}\" fill=\"currentColor\"/></svg>",
        dash.join(" "),
        points.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_many_architectures_look_the_same() {
        let looks: std::collections::BTreeSet<_> =
            (0..56).map(style).map(|style| (style.light, style.marker)).collect();
        assert_eq!(looks.len(), 56);
    }

    #[test]
    fn the_first_ones_need_no_colour() {
        let looks: std::collections::BTreeSet<_> = (0..35).map(style).map(|style| (style.marker, style.dash)).collect();
        assert_eq!(looks.len(), 35);
    }

    /// Relative luminance by WCAG 2.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn lines_stand_out_from_their_background() {
        let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
        for (light, dark) in COLOURS {
            assert!(contrast(luminance(light), 1.0) >= 3.0, "{light}");
            assert!(contrast(luminance(dark), luminance("#14181d")) >= 3.0, "{dark}");
        }
    }
}
