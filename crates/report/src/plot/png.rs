//! Figures as PNG, rendered from the SVG. Only builds with the feature `png` have it.

use std::sync::Arc;

use anyhow::Context;
use resvg::{tiny_skia, usvg};

/// The number of PNG pixels for each SVG pixel.
const SCALE: f32 = 2.0;

/// Renders an SVG as PNG, with an embedded font, so that the fonts of the host make no difference.
pub fn png(svg: &str) -> anyhow::Result<Vec<u8>> {
    let mut options = usvg::Options { font_family: "DejaVu Sans".into(), ..usvg::Options::default() };
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let tree = usvg::Tree::from_str(svg, &options).context("invalid SVG")?;
    let size = tree.size().to_int_size().scale_by(SCALE).context("a figure has no size")?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).context("a figure has no size")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}
