//! AudioCaps' captions: `audiocap_id,youtube_id,start_time,caption`, one row per caption.
//!
//! A clip is a stretch of a video, so its id is `youtube_id` and `start_time`, joined by `_`. The rows of one clip
//! (five in the validation and test files) need not be adjacent. `audiocap_id` numbers captions and is not read.

use crate::Error;
use crate::captions::Filling;
use crate::delimited::Rows;

const COLUMNS: [&str; 3] = ["youtube_id", "start_time", "caption"];

pub(crate) fn matches<S: AsRef<str>>(columns: &[S]) -> bool {
    COLUMNS
        .iter()
        .all(|wanted| columns.iter().any(|name| name.as_ref() == *wanted))
}

pub(crate) fn read(mut rows: Rows<'_>, set: &mut Filling) -> Result<(), Error> {
    let [youtube_id, start_time, caption] = COLUMNS;
    let (video, start, text) = (
        rows.column(youtube_id)?,
        rows.column(start_time)?,
        rows.column(caption)?,
    );
    while let Some(row) = rows.next_row()? {
        for (column, name) in [(video, youtube_id), (start, start_time)] {
            if row.get(column).trim().is_empty() {
                return Err(set.empty(row.place(), name));
            }
        }
        let id = format!("{}_{}", row.get(video), row.get(start));
        let clip = set.clip(&id, row.place(), youtube_id)?;
        set.caption(clip, row.get(text), row.place(), caption)?;
    }
    Ok(())
}
