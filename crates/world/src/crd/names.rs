//! Names as DNS has them, and what Kubernetes says of others.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/// What is wrong with a label that starts with a letter.
pub(crate) fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63);
    if !(is_label(text) && text.starts_with(|letter: char| letter.is_ascii_lowercase())) {
        wrong.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    wrong
}

/// What is wrong with labels between dots.
pub(crate) fn dns_1123_subdomain(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 253);
    if !text.split('.').all(is_label) {
        wrong.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{LABEL}(\\.{LABEL})*')"
        ));
    }
    wrong
}

fn too_long(text: &str, max: usize) -> Vec<String> {
    if text.len() > max { vec![format!("must be no more than {max} characters")] } else { Vec::new() }
}

fn is_label(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    !text.is_empty() && text.chars().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}
