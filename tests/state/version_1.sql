CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, lab_id TEXT NOT NULL, lane INTEGER NOT NULL, status TEXT NOT NULL,
    seed INTEGER NOT NULL, settings TEXT NOT NULL, settings_hash TEXT NOT NULL,
    created REAL NOT NULL, heartbeat REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, lab_id TEXT NOT NULL, lane INTEGER NOT NULL,
    episode TEXT NOT NULL, attempt INTEGER NOT NULL, state TEXT NOT NULL,
    requested_at REAL NOT NULL, armed_at REAL, finished_at REAL, healed_at REAL,
    settled INTEGER, disturbed TEXT NOT NULL DEFAULT '[]',
    UNIQUE (run_id, episode, attempt)
);
CREATE TABLE IF NOT EXISTS toxics (
    attempt_id INTEGER NOT NULL REFERENCES attempts (id), link TEXT NOT NULL, kind TEXT NOT NULL,
    stream TEXT NOT NULL, attributes TEXT NOT NULL, armed_at REAL, removed_at REAL
);
CREATE TABLE IF NOT EXISTS managers (
    lab_id TEXT NOT NULL, lane INTEGER NOT NULL, pid INTEGER NOT NULL, heartbeat REAL NOT NULL,
    PRIMARY KEY (lab_id, lane)
);
CREATE INDEX IF NOT EXISTS attempts_by_state ON attempts (lab_id, lane, state);
CREATE INDEX IF NOT EXISTS toxics_by_attempt ON toxics (attempt_id);
CREATE TABLE IF NOT EXISTS configurations (
    lab_id TEXT NOT NULL, lane INTEGER NOT NULL, number INTEGER NOT NULL, faults TEXT NOT NULL,
    source TEXT NOT NULL, created REAL NOT NULL, refused TEXT, PRIMARY KEY (lab_id, lane, number)
);
