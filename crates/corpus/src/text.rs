//! Plain text: one caption per line. Each line is a clip whose id is the number of the line. Blank lines are skipped.

use crate::Error;
use crate::captions::Filling;
use crate::error::Place;
use crate::input::Input;

pub(crate) fn read(mut input: Input<'_>, set: &mut Filling) -> Result<(), Error> {
    let mut text = String::new();
    while let Some(line) = input.next_line(&mut text)? {
        if !text.trim().is_empty() {
            let clip = set.numbered_clip(line);
            set.caption(clip, &text, Place::line(line), "caption")?;
        }
    }
    Ok(())
}
