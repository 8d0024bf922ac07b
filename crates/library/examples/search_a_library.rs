//! Searches a library that `hark index` made.
//!
//! ```sh
//! hark index ~/Sounds --model my-model
//! cargo run --release -p hark-library --example search_a_library -- \
//!     ~/.local/share/hark/libraries/default ~/.local/share/hark rain
//! ```
//!
//! The first argument is the library's folder, the second the folder that holds the models (`HARK_HOME`, for both, if that
//! is set), the third the query. Opening a library checks that its model is the one that it was made with.

use std::error::Error;
use std::path::{Path, PathBuf};

use hark_library::{Library, Question};
use hark_models::ModelStore;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [location, models, query] = arguments.as_slice() else {
        return Err("usage: search_a_library LIBRARY_FOLDER MODELS_FOLDER QUERY".into());
    };
    let models = ModelStore::at(Path::new(models));

    let library = Library::open(PathBuf::from(location), &models)?;
    let hits = library.search(&Question::text(query).without("speech").limit(10))?;

    for hit in hits {
        println!("{:2}  {:.4}  {}", hit.rank, hit.score, hit.file.path);
    }
    Ok(())
}
