//! Names that a user may misspell.

/// The lowest Jaro similarity of a suggestion. `clap` suggests flags and commands by the same measure.
const ALIKE_MIN: f64 = 0.75;

/// Returns the known name that is most like `name`; `None` if none is alike.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let alike = known.into_iter().map(|known| (strsim::jaro(&name, known), known));
    let (most, nearest) = alike.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most >= ALIKE_MIN).then_some(nearest)
}

/// Returns the end of an error about an unknown name; empty if no known name is alike.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    suggestion_or(name, known, String::new)
}

/// Returns the end of an error about an unknown name: the known name that is most like it, or `list` if none is alike.
pub fn suggestion_or<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    list: impl FnOnce() -> String,
) -> String {
    nearest(name, known).map_or_else(list, |nearest| format!("; did you mean `{nearest}`?"))
}

/// Adds a suggestion to serde's message about an unknown name. The message quotes this name first, and then the known names.
pub fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown variant ") || message.starts_with("unknown field ");
    let name = quoted.next().filter(|_| is_unknown);
    message.to_owned() + &name.map_or_else(String::new, |name| suggestion(name, quoted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["mp", "mt", "poll", "epoll", "io_uring", "processes"];

    #[test]
    fn misspelt_name_gets_the_most_alike() {
        for (name, nearest_name) in
            [("epol", "epoll"), ("Epoll", "epoll"), ("uring", "io_uring"), ("process", "processes")]
        {
            assert_eq!(nearest(name, KNOWN), Some(nearest_name), "{name}");
        }
        assert_eq!((nearest("nginx", KNOWN), nearest("", KNOWN), nearest("epoll", [])), (None, None, None));
        assert_eq!(suggestion("epol", KNOWN), "; did you mean `epoll`?");
        let with_list = |name: &str| suggestion_or(name, KNOWN, || "; a list".to_owned());
        assert_eq!(["epol", "nginx"].map(with_list), ["; did you mean `epoll`?", "; a list"]);
    }

    #[test]
    fn message_about_another_mistake_stays() {
        let unknown = "unknown variant `htp`, expected one of `fixed`, `http`";
        assert_eq!(with_suggestion(unknown), format!("{unknown}; did you mean `http`?"));
        for message in ["invalid type: integer `1`, expected `one`", "unknown architecture `epol`: known: `epoll`"] {
            assert_eq!(with_suggestion(message), message);
        }
    }
}
