-- Nothing here holds a trajectory, a time of arrival or an address. `run.state` and `open_sum.total` are sealed by the vault.
CREATE TABLE run (
  name TEXT PRIMARY KEY,
  spec TEXT NOT NULL,
  manifest BLOB NOT NULL,
  signature BLOB NOT NULL,
  key TEXT NOT NULL REFERENCES signing_key (id),
  certificate BLOB NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'paused', 'finished')),
  generation INTEGER NOT NULL CHECK (generation >= 0),
  state BLOB NOT NULL
);
-- Ordered by pseudonym: the order of arrival is not kept. No nonce: enrolled, and no report yet.
CREATE TABLE participant (
  run TEXT NOT NULL REFERENCES run (name),
  who BLOB NOT NULL,
  slot INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  nonce BLOB,
  PRIMARY KEY (run, who, slot)
) WITHOUT ROWID;
-- What each person has lost over all runs, in mu^2.
CREATE TABLE account (
  person BLOB PRIMARY KEY,
  spent REAL NOT NULL CHECK (spent >= 0)
) WITHOUT ROWID;
CREATE TABLE open_sum (
  run TEXT NOT NULL REFERENCES run (name),
  shard INTEGER NOT NULL DEFAULT 0,
  generation INTEGER NOT NULL,
  users INTEGER NOT NULL CHECK (users >= 0),
  total BLOB NOT NULL,
  PRIMARY KEY (run, shard)
) WITHOUT ROWID;
CREATE TABLE release (
  run TEXT NOT NULL REFERENCES run (name),
  generation INTEGER NOT NULL,
  body BLOB NOT NULL,
  users INTEGER NOT NULL,
  previous TEXT NOT NULL,
  digest TEXT NOT NULL,
  signature BLOB NOT NULL,
  key TEXT NOT NULL REFERENCES signing_key (id),
  PRIMARY KEY (run, generation)
) WITHOUT ROWID;
CREATE TABLE signing_key (
  id TEXT PRIMARY KEY,
  public BLOB NOT NULL,
  endorsed_by TEXT NOT NULL,
  endorsement BLOB NOT NULL,
  retired INTEGER NOT NULL DEFAULT 0
);
-- The digest of the round that was planned first from each release. Public. All workers must have planned the same round.
CREATE TABLE planned_round (
  run TEXT NOT NULL REFERENCES run (name),
  generation INTEGER NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (run, generation)
) WITHOUT ROWID;
-- run: the only one that the key may be used for, NULL: all of them. expires: in seconds since 1970, NULL: never.
CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  role TEXT NOT NULL CHECK (role IN ('device', 'operator', 'admin', 'auditor')),
  secret BLOB NOT NULL,
  label TEXT NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0,
  run TEXT,
  expires INTEGER
);
CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  detail TEXT NOT NULL,
  digest TEXT NOT NULL
);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows are added, never changed'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows are added, never deleted'); END;
CREATE TRIGGER release_is_not_changed BEFORE UPDATE ON release BEGIN SELECT RAISE(ABORT, 'a release is never changed'); END;
CREATE TRIGGER release_is_not_deleted BEFORE DELETE ON release BEGIN SELECT RAISE(ABORT, 'a release is never deleted'); END;
