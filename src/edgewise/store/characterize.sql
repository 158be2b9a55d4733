-- edgewise store, schema version 3: energy, and whatever else is known about models and machines.

-- What a meter saw during a start of a result.
CREATE TABLE energies (
    result         INTEGER NOT NULL REFERENCES results (id) ON DELETE CASCADE,
    ordinal        INTEGER NOT NULL,
    source         TEXT NOT NULL,  -- the kind of meter; `estimate` where a power was declared and nothing read
    covers         TEXT NOT NULL,  -- what the meter covers
    start          INTEGER NOT NULL,
    runs           INTEGER NOT NULL,
    elapsed_ns     INTEGER NOT NULL,
    energy_uj      INTEGER,        -- microjoules; NULL where the meter could not tell
    error_uj       INTEGER,
    idle_uw        INTEGER,        -- microwatts without work
    idle_spread_uw INTEGER,
    part_of        TEXT,           -- the meter that contains this one
    reason         TEXT,           -- why there is no energy
    PRIMARY KEY (result, ordinal)
) STRICT, WITHOUT ROWID;

-- Records that belong to no single result: profiles, operator support, roofs, counted costs, races.
CREATE TABLE kept (
    id         INTEGER PRIMARY KEY,
    created_ns INTEGER NOT NULL,   -- wall time since the epoch
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,      -- what makes another one of the same kind a newer version of this one
    body       TEXT NOT NULL       -- the record as JSON
) STRICT;
CREATE INDEX kept_by_key ON kept (kind, key);
