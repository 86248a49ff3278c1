//! What is written is well-formed, has what was asked for, and its size is known.

use flowgate_chart::{Axis, Chart, Layer, Look, Picture, Point, Terminal, Unit};

fn chart(id: &str) -> Chart {
    let points = (0..5).map(|x| Point::new(f64::from(x), f64::from(x * x)));
    Chart::new(
        id,
        "Squares",
        Axis::time(4.0),
        Axis::from_zero(Unit::Count, [16.0]),
    )
    .names("time", "value")
    .layer(Layer::area("squares & more", Look::GRAY, [points.collect()]).stepped())
    .layer(Layer::line(
        "half",
        Look::BLUE,
        [vec![Point::new(0.0, 0.0), Point::new(4.0, 8.0)]],
    ))
}

/// Each text of a file, in order.
fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("well-formed");
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .map(|node| {
            node.descendants()
                .filter_map(|part| part.text().filter(|_| part.is_text()))
                .collect()
        })
        .collect()
}

#[test]
fn a_picture_has_its_charts_in_columns() {
    let picture = Picture::new("Four <charts>")
        .columns(2)
        .charts(["a", "b", "c", "d"].map(chart));
    let svg = picture.to_string();
    let texts = texts(&svg);
    assert_eq!(texts[0], "Four <charts>");
    // A legend names each line once.
    assert_eq!(&texts[1..3], ["squares & more", "half"]);
    assert_eq!(texts.iter().filter(|text| *text == "Squares").count(), 4);
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    let places: Vec<(String, String)> = document
        .root_element()
        .children()
        .filter(|node| node.has_tag_name("svg"))
        .map(|node| {
            (
                node.attribute("x").expect("x").to_owned(),
                node.attribute("y").expect("y").to_owned(),
            )
        })
        .collect();
    let [a, b, c, d] = places.as_slice() else {
        panic!("{places:?}")
    };
    assert_eq!((&a.0, &b.0), (&c.0, &d.0));
    assert_eq!((&a.1, &c.1), (&b.1, &d.1));
    assert_ne!(a, d);
}

#[test]
fn a_picture_follows_light_and_dark_and_loads_nothing() {
    for svg in [
        Picture::new("one").chart(chart("a")).to_string(),
        Picture::new("none").to_string(),
        Terminal::new("text", "$ true").to_string(),
    ] {
        assert!(svg.contains("prefers-color-scheme: dark"));
        assert!(!svg.contains("<script") && !svg.contains("url("), "{svg}");
        let addresses = svg.matches("http").count();
        assert_eq!(
            addresses,
            svg.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
        );
        texts(&svg);
    }
}

#[test]
fn a_terminal_shows_each_line_and_marks_words() {
    let text = "$ flowgate load\nRATE HELD  <1 ms>\n\nRATE NOT HELD, RATE HELD";
    let svg = Terminal::new("load", text)
        .good("RATE HELD")
        .bad("RATE NOT HELD")
        .to_string();
    let shown = texts(&svg);
    assert_eq!(
        shown[1..],
        [
            "$ flowgate load",
            "RATE HELD  <1 ms>",
            "RATE NOT HELD, RATE HELD"
        ]
    );
    assert_eq!(
        svg.matches("<tspan class=\"good\">RATE HELD</tspan>")
            .count(),
        2
    );
    assert_eq!(
        svg.matches("<tspan class=\"bad\">RATE NOT HELD</tspan>")
            .count(),
        1
    );
    // The same text makes the same file.
    let again = Terminal::new("load", text)
        .good("RATE HELD")
        .bad("RATE NOT HELD")
        .to_string();
    assert_eq!(svg, again);
}

#[cfg(feature = "png")]
#[test]
fn a_picture_as_png_has_its_text_without_the_fonts_of_the_system() {
    let png = |title: &str| {
        let picture = Picture::new(title).chart(chart("a"));
        picture.to_png(1.0).expect("a picture")
    };
    let (one, other) = (png("µ ≤ 99 %"), png(""));
    assert_eq!(&one[..8], b"\x89PNG\r\n\x1a\n");
    assert!(one != other, "the title is not drawn");
    assert_eq!(one, png("µ ≤ 99 %"));
}
