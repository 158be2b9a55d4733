-- edgewise store, schema version 2: what models answered to labelled images.

-- One evaluation of one model on one target, or why there is none.
CREATE TABLE evaluations (
    id         INTEGER PRIMARY KEY,
    created_ns INTEGER NOT NULL,   -- wall time since the epoch
    subject    TEXT NOT NULL,      -- digest of the model as the user gave it
    placement  TEXT NOT NULL,
    label      TEXT NOT NULL,      -- what the user called the model
    machine    TEXT NOT NULL REFERENCES machines (id),
    versions   TEXT NOT NULL,      -- engine versions as JSON pairs
    prepared   TEXT NOT NULL,      -- digest of the model as the engine ran it
    data       TEXT NOT NULL,      -- digest of the images asked about, in order
    data_label TEXT NOT NULL,      -- what the user called them
    images     INTEGER NOT NULL,   -- how many there are
    classes    TEXT NOT NULL,      -- their names as JSON, empty where nobody named them
    preprocess TEXT NOT NULL,      -- how an image became the model's input
    status     TEXT NOT NULL CHECK (status IN ('running', 'complete', 'failed')),
    owner      TEXT,               -- process that is writing it, while it is running
    stage      TEXT,               -- of a failure: where it happened,
    error      TEXT,               --   its kind,
    message    TEXT,               --   what was found and expected,
    hint       TEXT,               --   the command to type,
    stderr     TEXT                --   and the worker's last words
) STRICT;
CREATE INDEX evaluations_by_subject ON evaluations (subject, data, machine);

-- A run of images of an evaluation: the unit of loss.
CREATE TABLE answers (
    evaluation INTEGER NOT NULL REFERENCES evaluations (id) ON DELETE CASCADE,
    ordinal    INTEGER NOT NULL,
    labels     BLOB NOT NULL,      -- the right class of each image: 64-bit little-endian integers
    ranked     BLOB NOT NULL,      -- the model's classes, most likely first, the same number for each image
    confidence BLOB NOT NULL,      -- share of the softmax the first has: 64-bit little-endian floats
    decode_ns  INTEGER NOT NULL,   -- CPU time
    prepare_ns INTEGER NOT NULL,   -- CPU time
    run_ns     INTEGER NOT NULL,   -- of `ran` images: a last batch is filled up
    ran        INTEGER NOT NULL,
    outputs    INTEGER NOT NULL,   -- classes the model has
    PRIMARY KEY (evaluation, ordinal)
) STRICT, WITHOUT ROWID;
