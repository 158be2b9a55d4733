-- edgewise store, schema version 4: several targets at one stream.

ALTER TABLE rounds ADD COLUMN shares TEXT; -- frames each target of a deal worked on, as JSON
