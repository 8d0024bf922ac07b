//! Which values of a recipe are paths, and what they are relative to.

use std::path::{Component, Path, PathBuf};

/// Paths of a dataset.
const OF_DATASETS: [&str; 4] = ["audio", "file", "audio-folder", "exclude-audioset"];

/// Keys of models, by name or folder: a value with a separator is a folder.
const MODELS: [(&str, &str); 4] = [
    ("audio", "weights"),
    ("text", "weights"),
    ("objective", "sentence-encoder"),
    ("training", "init-from"),
];

/// Makes all paths of a recipe absolute; `folder` is what they are relative to.
pub(super) fn resolve(table: &mut toml::Table, folder: &Path) {
    if let Some(data) = table.get_mut("data").and_then(toml::Value::as_table_mut) {
        for part in ["train", "validation", "test"] {
            let sets = data.get_mut(part).and_then(toml::Value::as_array_mut);
            for set in sets.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
                for key in OF_DATASETS {
                    join(set.get_mut(key), folder);
                }
                join(
                    set.get_mut("root").filter(|root| !is_dataset(root, folder)),
                    folder,
                );
                let excluded = set.get_mut("exclude").and_then(toml::Value::as_table_mut);
                for (key, path) in excluded.into_iter().flat_map(toml::Table::iter_mut) {
                    if key == "list" || !is_dataset(path, folder) {
                        join(Some(path), folder);
                    }
                }
            }
        }
    }
    let soundscapes = table.get_mut("soundscapes").and_then(toml::Value::as_table_mut);
    let recordings = soundscapes.and_then(|table| table.get_mut("recordings")?.as_table_mut());
    join(recordings.and_then(|table| table.get_mut("folder")), folder);
    for (part, key) in MODELS {
        let value = table
            .get_mut(part)
            .and_then(|part| part.as_table_mut()?.get_mut(key));
        let is_folder = |value: &&mut toml::Value| {
            let text = value.as_str().unwrap_or_default();
            text.contains(['/', '\\']) || text == "." || text == ".."
        };
        join(value.filter(is_folder), folder);
    }
}

/// Whether this names a dataset: it has no separator, and no folder of that name is there.
fn is_dataset(value: &toml::Value, folder: &Path) -> bool {
    let name = value.as_str().unwrap_or_default();
    !name.contains(['/', '\\']) && ![".", ".."].contains(&name) && !folder.join(name).exists()
}

/// Makes paths absolute. What is no text is no path, and is refused when the recipe is read.
fn join<'a>(values: impl IntoIterator<Item = &'a mut toml::Value>, folder: &Path) {
    for value in values {
        if let toml::Value::String(path) = value
            && !Path::new(path).is_absolute()
            && let Some(joined) = above(folder, Path::new(path)).to_str()
        {
            joined.clone_into(path);
        }
    }
}

/// A path below a folder whose links are followed, or above it where it begins with `..`.
fn above(folder: &Path, path: &Path) -> PathBuf {
    let mut folder = folder.to_owned();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next_if(|part| matches!(part, Component::ParentDir | Component::CurDir)) {
        if part == Component::ParentDir {
            folder.pop();
        }
    }
    folder.extend(parts);
    folder
}

/// The folder that a file is in, absolute, with its links followed; of no file, the working directory.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    fs_err::canonicalize(folder)
        .or_else(|_| std::path::absolute(folder))
        .unwrap_or_else(|_| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_folder_beside_the_recipe_or_the_name_of_a_dataset() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::create_dir(folder.path().join("here")).unwrap();
        let roots = |name: &str| {
            let mut table: toml::Table = toml::from_str(&format!(
                "[data]\ntrain = [{{ kind = \"wavcaps\", root = \"{name}\", exclude = {{ clotho = \"{name}\" }} }}]"
            ))
            .unwrap();
            resolve(&mut table, folder.path());
            let set = &table["data"]["train"][0];
            [&set["root"], &set["exclude"]["clotho"]].map(|value| value.as_str().unwrap().to_owned())
        };
        assert_eq!(roots("clotho"), ["clotho", "clotho"]);
        let here = folder.path().join("here").display().to_string();
        assert_eq!(roots("here"), [here.clone(), here]);
        let below = folder.path().join("clotho").display().to_string();
        assert_eq!(roots("./clotho"), [below.clone(), below]);
    }

    #[test]
    fn paths_are_below_or_above_the_recipe() {
        let text = r#"
            [data]
            train = [
                { kind = "clotho", root = "../data/clotho", split = "development" },
                { kind = "wavcaps", root = "./wavcaps", exclude = { clotho = "../../x" }, exclude-audioset = "/ids.csv" },
            ]
            test = [{ kind = "table", file = "./pairs.csv", path-column = "file" }]
            [audio]
            weights = "passt-s"
            [text]
            weights = "../models/roberta"
            [training]
            init-from = "../runs/{objective}/best"
        "#;
        let mut table: toml::Table = toml::from_str(text).unwrap();
        resolve(&mut table, Path::new("/home/me/recipes"));
        let told = table.to_string();
        for (path, times) in [
            ("\"/home/me/data/clotho\"", 1),
            ("\"/home/me/recipes/wavcaps\"", 1),
            ("\"/home/x\"", 1),
            ("\"/ids.csv\"", 1),
            ("\"/home/me/recipes/pairs.csv\"", 1),
            ("\"passt-s\"", 1),
            ("\"/home/me/models/roberta\"", 1),
            ("\"/home/me/runs/{objective}/best\"", 1),
            ("\"file\"", 1),
        ] {
            assert_eq!(told.matches(path).count(), times, "{path} in {told}");
        }
        let again = table.clone();
        resolve(&mut table, Path::new("/elsewhere"));
        assert_eq!(table, again, "what is absolute stays");
    }
}
