"""Sources: files of records as streams of items. `reading.read` is the way in."""
