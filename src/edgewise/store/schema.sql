-- edgewise store, schema version 1.
-- Times are nanoseconds, sizes bytes, missing is NULL. Nothing here is a statistic: those are derived when asked for.

-- What was measured on. The id is a digest of the hardware's facts, never a host name.
CREATE TABLE machines (
    id    TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    facts TEXT NOT NULL            -- the Machine record as JSON
) STRICT;

-- What was measured. An optimized model is another model, with a recipe and a parent.
CREATE TABLE models (
    digest    TEXT PRIMARY KEY,
    label     TEXT NOT NULL,
    precision TEXT NOT NULL,
    recipe    TEXT,
    parent    TEXT,
    facts     TEXT NOT NULL        -- the Model record as JSON
) STRICT;

-- One measurement or failure of one task.
CREATE TABLE results (
    id         INTEGER PRIMARY KEY,
    created_ns INTEGER NOT NULL,   -- wall time since the epoch
    task       TEXT NOT NULL,      -- digest of subject, placement and scenario
    subject    TEXT NOT NULL,      -- digest of the model (or plan) as the user gave it
    placement  TEXT NOT NULL,
    scenario   TEXT NOT NULL,
    label      TEXT NOT NULL,      -- what the user called the model
    study      TEXT NOT NULL,      -- what it was measured for: bench (alone) or compare (in turns with others)
    machine    TEXT NOT NULL REFERENCES machines (id),
    versions   TEXT NOT NULL,      -- engine versions as JSON pairs
    inputs     TEXT NOT NULL,      -- digest of the inputs, and of the model that was derived to run
    status     TEXT NOT NULL CHECK (status IN ('running', 'complete', 'failed')),
    owner      TEXT,               -- process that is writing it, while it is running
    stage      TEXT,               -- of a failure: where it happened,
    error      TEXT,               --   its kind,
    message    TEXT,               --   what was found and expected,
    hint       TEXT,               --   the command to type,
    stderr     TEXT                --   and the worker's last words
) STRICT;
CREATE INDEX results_by_task ON results (task, machine);

-- One worker process of a result. There are several where a result was resumed, or compared over fresh processes.
CREATE TABLE starts (
    result         INTEGER NOT NULL REFERENCES results (id) ON DELETE CASCADE,
    ordinal        INTEGER NOT NULL,
    started_ns     INTEGER NOT NULL,
    load_ns        INTEGER NOT NULL, -- of one copy of the model
    first_ns       INTEGER NOT NULL,
    baseline_bytes INTEGER,        -- resident before the engine loaded
    ran            TEXT NOT NULL,  -- what the engine reports to have run, as JSON
    agreement      TEXT,           -- distance from the reference's outputs, as JSON
    peak_bytes     INTEGER,        -- resident at most, up to and with the first run
    cores          TEXT NOT NULL,  -- the worker could run on these, as JSON
    cpus           INTEGER,        -- foreign time is counted over this many
    PRIMARY KEY (result, ordinal)
) STRICT, WITHOUT ROWID;

-- The unit of interleaving and of loss.
CREATE TABLE rounds (
    result         INTEGER NOT NULL REFERENCES results (id) ON DELETE CASCADE,
    ordinal        INTEGER NOT NULL,
    start          INTEGER NOT NULL,
    warmup         INTEGER NOT NULL,
    started_ns     INTEGER NOT NULL,
    elapsed_ns     INTEGER NOT NULL,
    samples_ns     BLOB NOT NULL,  -- 64-bit little-endian integers, in time order
    cpu_ns         INTEGER,        -- CPU time of the worker,
    foreign_ns     INTEGER,        --   of everybody else (coarser, so that of one short round may be below zero),
    stolen_ns      INTEGER,        --   and taken by the hypervisor
    clock_hz       INTEGER,
    temperature_mc INTEGER,        -- thousandths of a degree Celsius
    cache_misses   INTEGER,
    peak_bytes     INTEGER,
    late_ns        INTEGER,        -- the load generator's largest delay
    PRIMARY KEY (result, ordinal)
) STRICT, WITHOUT ROWID;
