-- Nothing here holds a trajectory, a time of arrival or an address. `run.state` and `open_sum.total` are sealed by the vault.
CREATE TABLE signing_key (
  number INTEGER GENERATED ALWAYS AS IDENTITY,
  id TEXT PRIMARY KEY,
  public BYTEA NOT NULL,
  endorsed_by TEXT NOT NULL,
  endorsement BYTEA NOT NULL,
  retired INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE run (
  name TEXT PRIMARY KEY,
  spec TEXT NOT NULL,
  manifest BYTEA NOT NULL,
  signature BYTEA NOT NULL,
  key TEXT NOT NULL REFERENCES signing_key (id),
  certificate BYTEA NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'paused', 'finished')),
  generation INTEGER NOT NULL CHECK (generation >= 0),
  state BYTEA NOT NULL
);
-- No nonce: enrolled, and no report yet. PostgreSQL keeps rows in the order in which they were written: see docs/how-to/operate_a_service.md.
CREATE TABLE participant (
  run TEXT NOT NULL,
  who BYTEA NOT NULL,
  slot INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  nonce BYTEA,
  PRIMARY KEY (run, who, slot)
);
-- What each person has lost over all runs, in mu^2.
CREATE TABLE account (
  person BYTEA PRIMARY KEY,
  spent DOUBLE PRECISION NOT NULL CHECK (spent >= 0)
);
-- Each worker adds to a row of its own. Open sums and states are sealed, and PostgreSQL stores them without compression.
CREATE TABLE open_sum (
  run TEXT NOT NULL,
  shard INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  users INTEGER NOT NULL CHECK (users >= 0),
  total BYTEA NOT NULL,
  PRIMARY KEY (run, shard)
);
ALTER TABLE open_sum ALTER COLUMN total SET STORAGE EXTERNAL;
ALTER TABLE run ALTER COLUMN state SET STORAGE EXTERNAL;
CREATE TABLE release (
  run TEXT NOT NULL REFERENCES run (name),
  generation INTEGER NOT NULL,
  body BYTEA NOT NULL,
  users INTEGER NOT NULL,
  previous TEXT NOT NULL,
  digest TEXT NOT NULL,
  signature BYTEA NOT NULL,
  key TEXT NOT NULL REFERENCES signing_key (id),
  PRIMARY KEY (run, generation)
);
-- The digest of the round that was planned first from each release. Public. All workers must have planned the same round.
CREATE TABLE planned_round (
  run TEXT NOT NULL REFERENCES run (name),
  generation INTEGER NOT NULL,
  digest BYTEA NOT NULL,
  PRIMARY KEY (run, generation)
);
-- run: the only one that the key may be used for, NULL: all of them. expires: in seconds since 1970, NULL: never.
ALTER TABLE release ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  role TEXT NOT NULL CHECK (role IN ('device', 'operator', 'admin', 'auditor')),
  secret BYTEA NOT NULL,
  label TEXT NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0,
  run TEXT,
  expires BIGINT
);
CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  detail TEXT NOT NULL,
  digest TEXT NOT NULL
);
CREATE FUNCTION confide_is_not_changed() RETURNS TRIGGER LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'rows of % are added, never changed', TG_TABLE_NAME; END $$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION confide_is_not_changed();
CREATE TRIGGER release_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON release EXECUTE FUNCTION confide_is_not_changed();
