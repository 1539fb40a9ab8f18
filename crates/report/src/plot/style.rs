//! The look of each architecture, the same in every figure of a report. Colour and marker together identify each
//! of 56 architectures, and marker and dash each of 35.

use std::fmt::Write;

use serde::Serialize;

/// The look of one architecture.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesStyle {
    /// The colour on a light page.
    pub light: &'static str,
    /// The colour on a dark page.
    pub dark: &'static str,
    /// The marker, by plotly's name.
    pub marker: &'static str,
    /// Lengths of dashes and gaps, in pixels; empty for a solid line.
    pub dash: &'static [u32],
}

/// Colours on light and on dark pages. A search maximised the smallest distance between any two colours, for normal vision
/// and three kinds of colour blindness (test `colours_are_distinct_for_every_kind_of_vision`). The contrast of
/// each colour to its background is at least 3.
const COLOURS: [(&str, &str); 8] = [
    ("#2234b8", "#6782f5"),
    ("#c58410", "#f05903"),
    ("#2c8284", "#0ad4a4"),
    ("#80006c", "#baa9ff"),
    ("#6f6206", "#ffa617"),
    ("#1c2021", "#ebf298"),
    ("#0095ff", "#9cf8ff"),
    ("#483e03", "#a28387"),
];

/// The number of markers is coprime to the number of colours, so that 56 architectures look different.
const MARKERS: [&str; 7] = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"];

const DASHES: [&[u32]; 5] = [&[], &[7, 3], &[2, 2], &[12, 4], &[4, 6]];

/// Returns the style of the architecture with this index.
pub fn style(place: usize) -> SeriesStyle {
    let (light, dark) = COLOURS[place % COLOURS.len()];
    SeriesStyle { light, dark, marker: MARKERS[place % MARKERS.len()], dash: DASHES[place % DASHES.len()] }
}

/// Returns the style of published values, in the colour of text.
pub fn published(has_marker: bool) -> SeriesStyle {
    let marker = if has_marker { "star" } else { "" };
    SeriesStyle { light: "#1b1f24", dark: "#e7eaee", marker, dash: if has_marker { &[1, 4] } else { &[9, 3] } }
}

/// Returns the corners of a marker relative to its centre. The radius is approximate.
pub fn corners(marker: &str, radius: f64) -> Vec<(f64, f64)> {
    let at = |points: &[(f64, f64)]| points.iter().map(|(x, y)| (x * radius, y * radius)).collect();
    let round = |count: u32, far: fn(u32) -> f64| -> Vec<(f64, f64)> {
        let angle = |at: u32| f64::from(at) * std::f64::consts::TAU / f64::from(count);
        (0..count).map(|at| (radius * far(at) * angle(at).sin(), -radius * far(at) * angle(at).cos())).collect()
    };
    // An arm of a cross, turned by a quarter of a circle three times.
    let cross: Vec<(f64, f64)> = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]
        .into_iter()
        .flat_map(|(cos, sin)| {
            let arm = [(-0.35, -0.35), (-0.35, -1.1), (0.35, -1.1)];
            arm.map(|(x, y)| (x * cos - y * sin, x * sin + y * cos))
        })
        .collect();
    match marker {
        "square" => at(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        "diamond" => at(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
        "triangle-up" => at(&[(0.0, -1.2), (1.15, 0.8), (-1.15, 0.8)]),
        "triangle-down" => at(&[(0.0, 1.2), (1.15, -0.8), (-1.15, -0.8)]),
        "star" => round(10, |at| if at.is_multiple_of(2) { 1.5 } else { 0.6 }),
        "cross" => at(&cross),
        "x" => {
            let half = std::f64::consts::FRAC_1_SQRT_2;
            let turned: Vec<(f64, f64)> = cross.iter().map(|(x, y)| ((x - y) * half, (x + y) * half)).collect();
            at(&turned)
        }
        _ => round(24, |_| 1.0),
    }
}

/// Returns the line and the marker of an architecture as SVG, in the colour of the surrounding text.
pub fn swatch(place: usize) -> String {
    drawn(&style(place))
}

/// Returns the line and the marker of a style as SVG, in the colour of the surrounding text.
pub fn drawn(style: &SeriesStyle) -> String {
    let SeriesStyle { marker, dash, .. } = style;
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
    fn colour_and_marker_identify_56_architectures() {
        let looks: std::collections::BTreeSet<_> =
            (0..56).map(style).map(|style| (style.light, style.marker)).collect();
        assert_eq!(looks.len(), 56);
    }

    #[test]
    fn marker_and_dash_identify_35_architectures() {
        let looks: std::collections::BTreeSet<_> = (0..35).map(style).map(|style| (style.marker, style.dash)).collect();
        assert_eq!(looks.len(), 35);
    }

    /// Converts a hexadecimal colour to linear light, from 0 to 1.
    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(matrix: [[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    /// Relative luminance by WCAG 2.
    fn luminance(colour: &str) -> f64 {
        times([[0.2126, 0.7152, 0.0722]; 3], linear(colour))[0]
    }

    #[test]
    fn lines_stand_out_from_their_background() {
        let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
        for (light, dark) in COLOURS {
            assert!(contrast(luminance(light), 1.0) >= 3.0, "{light}");
            assert!(contrast(luminance(dark), luminance("#14181d")) >= 3.0, "{dark}");
        }
    }

    /// Matrices for linear light as seen with normal vision, and without long, middle or short cones: Machado,
    /// Oliveira and Fernandes (2009), severity 1.
    const EYES: [(&str, [[f64; 3]; 3]); 4] = [
        ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        ),
        (
            "deuteranopia",
            [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        ),
        (
            "tritanopia",
            [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
        ),
    ];

    /// Converts linear light to Oklab (Ottosson 2020), in which equal distances look about equal.
    fn oklab(light: [f64; 3]) -> [f64; 3] {
        let cones = times(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ],
            light,
        );
        times(
            [
                [0.2104542553, 0.7936177850, -0.0040720468],
                [1.9779984951, -2.4285922050, 0.4505937099],
                [0.0259040371, 0.7827717662, -0.8086757660],
            ],
            cones.map(|cone| cone.max(0.0).cbrt()),
        )
    }

    #[test]
    fn colours_are_distinct_for_every_kind_of_vision() {
        // A just noticeable difference is about 0.02.
        const DISTANCE_MIN: f64 = 0.12;
        for (eyes, matrix) in EYES {
            for palette in [COLOURS.map(|(light, _)| light), COLOURS.map(|(_, dark)| dark)] {
                let seen =
                    palette.map(|colour| oklab(times(matrix, linear(colour)).map(|light| light.clamp(0.0, 1.0))));
                for (at, a) in seen.iter().enumerate() {
                    for (of, b) in seen.iter().enumerate().take(at) {
                        let distance = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                        assert!(distance >= DISTANCE_MIN, "{eyes}: {} and {}: {distance:.3}", palette[at], palette[of]);
                    }
                }
            }
        }
    }
}
