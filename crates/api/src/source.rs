//! Where manifests come from: a file, a directory, standard input, or a text at hand.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::problem::Problem;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, or a directory with all manifests below it; but for one file, which is something else.
    Path {
        path: PathBuf,
        but: Option<PathBuf>,
    },
    Stdin,
    Text {
        name: String,
        text: String,
    },
    /// What a cluster holds. What was read before it of the same name takes its place.
    Listed {
        name: String,
        text: String,
    },
    /// Something that should have been read, but could not be had.
    Unread {
        name: String,
        why: String,
    },
}

/// Larger than any cluster's snapshot; what is above it was not meant to be read.
const BYTES_MAX: u64 = 4 << 30;

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Calls `visit` with the name and text of each manifest, in a defined order, one text at a time.
pub(crate) fn for_each_text(
    source: &Source,
    visit: &mut dyn FnMut(&Arc<str>, &str),
    problems: &mut Vec<Problem>,
) {
    match source {
        Source::Text { name, text } | Source::Listed { name, text } => {
            visit(&Arc::from(name.as_str()), text);
        }
        Source::Unread { name, why } => problems.push(Problem {
            source: Arc::from(name.as_str()),
            line: None,
            object: None,
            field: None,
            message: why.clone(),
        }),
        Source::Stdin => {
            let mut bytes = Vec::new();
            let read = io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes);
            take(&Arc::from("stdin"), read, visit, problems);
        }
        Source::Path { path, but } => {
            let mut files = Vec::new();
            let name = display_name(path);
            let but = but.as_ref().and_then(|file| fs::canonicalize(file).ok());
            let collected = collect_files(path, 0, &mut files);
            files.retain(|file| file == path || but.is_none() || fs::canonicalize(file).ok() != but);
            match collected {
                Err(error) => problems.push(Problem {
                    source: name,
                    line: None,
                    object: None,
                    field: None,
                    message: format!("cannot be read: {error}"),
                }),
                Ok(()) if files.is_empty() => problems.push(Problem {
                    source: name,
                    line: None,
                    object: None,
                    field: None,
                    message: "has no manifests; a directory must hold files that end in .yaml, .yml or .json"
                        .to_owned(),
                }),
                Ok(()) => {
                    for file in files {
                        take(&display_name(&file), read_file(&file), visit, problems);
                    }
                }
            }
        }
    }
}

fn display_name(path: &Path) -> Arc<str> {
    Arc::from(path.to_string_lossy())
}

/// Symbolic links can make a directory contain itself.
const DIRECTORY_DEPTH_MAX: usize = 32;

fn collect_files(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    if depth > DIRECTORY_DEPTH_MAX {
        return Err(io::Error::other(format!("{} is nested too deeply, or links to itself", path.display())));
    }
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let manifest = entry.extension().is_some_and(|e| EXTENSIONS.iter().any(|known| e == *known));
        if !hidden && (manifest || entry.is_dir()) {
            collect_files(&entry, depth + 1, files)?;
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let size = fs::metadata(path)?.len();
    if size > BYTES_MAX {
        return Err(io::Error::other(format!(
            "it has {} GiB; the most is {} GiB",
            size >> 30,
            BYTES_MAX >> 30
        )));
    }
    // Exactly as much memory as the file needs: it may be most of what the process has.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    fs::File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn take(
    name: &Arc<str>,
    read: io::Result<Vec<u8>>,
    visit: &mut dyn FnMut(&Arc<str>, &str),
    problems: &mut Vec<Problem>,
) {
    let mut refuse = |line, message| {
        problems.push(Problem { source: name.clone(), line, object: None, field: None, message });
    };
    let bytes = match read {
        Err(error) => return refuse(None, format!("cannot be read: {error}")),
        Ok(bytes) if bytes.len() as u64 > BYTES_MAX => {
            return refuse(None, format!("is too large; the most is {} GiB", BYTES_MAX >> 30));
        }
        Ok(bytes) => bytes,
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => visit(name, text),
        Err(error) => {
            let line = line_at(&bytes, error.valid_up_to());
            refuse(Some(line), "is not UTF-8 text here; save the file as UTF-8".to_owned());
        }
    }
}

/// The line, from one, on which the byte at `offset` is.
pub(crate) fn line_at(bytes: &[u8], offset: usize) -> usize {
    1 + newlines(&bytes[..offset.min(bytes.len())])
}

pub(crate) fn newlines(bytes: &[u8]) -> usize {
    // Sums of bytes, which cannot overflow in so short a run, are what processors add up fastest.
    bytes.chunks(255).map(|run| usize::from(run.iter().map(|b| u8::from(*b == b'\n')).sum::<u8>())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(source: &Source) -> (Vec<String>, Vec<String>) {
        let (mut names, mut problems) = (Vec::new(), Vec::new());
        for_each_text(source, &mut |name, _| names.push(name.to_string()), &mut problems);
        (names, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn directories_are_read_in_order_without_what_is_hidden() {
        let root = std::env::temp_dir().join(format!("berth-source-{}", std::process::id()));
        let nested = root.join("nested");
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("empty")).unwrap();
        fs::create_dir_all(&nested).unwrap();
        for file in ["b.yaml", "a.json", ".hidden.yaml", "notes.md", "nested/c.yml", ".git/d.yaml"] {
            fs::write(root.join(file), "kind: x").unwrap();
        }
        fs::write(nested.join("bad.yaml"), b"a: 1\nb: \xff\n").unwrap();
        let at = |path: PathBuf| Source::Path { path, but: None };
        let (names, problems) = visited(&at(root.clone()));
        let short: Vec<_> = names.iter().map(|n| n.replace(&format!("{}/", root.display()), "")).collect();
        assert_eq!(short, ["a.json", "b.yaml", "nested/c.yml"]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].ends_with("nested/bad.yaml:2: is not UTF-8 text here; save the file as UTF-8"));

        let list = Some(root.join("nested/../a.json"));
        let (names, _) = visited(&Source::Path { path: root.clone(), but: list.clone() });
        assert_eq!(names.len(), 2, "{names:?}");
        let (names, _) = visited(&Source::Path { path: root.join("a.json"), but: list });
        assert_eq!(names.len(), 1, "who names a file means it");

        let (_, problems) = visited(&at(root.join("empty")));
        assert!(problems[0].contains("has no manifests"), "{problems:?}");
        let (_, problems) = visited(&at(root.join("absent.yaml")));
        assert!(problems[0].contains("cannot be read"), "{problems:?}");
        fs::remove_dir_all(root).unwrap();
    }
}
