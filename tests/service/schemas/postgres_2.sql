-- Tables of version 2, as of commit c5ffd476
CREATE TABLE cell (
  study VARCHAR(127) NOT NULL,
  k INTEGER NOT NULL,
  role VARCHAR(16) NOT NULL,
  grp INTEGER NOT NULL,
  people BIGINT NOT NULL,
  sums BYTEA NOT NULL,
  squares BYTEA NOT NULL,
  upto BIGINT NOT NULL,
  PRIMARY KEY (study, k, role, grp)
);
CREATE TABLE counter (
  study VARCHAR(127) NOT NULL,
  minute BIGINT NOT NULL,
  name VARCHAR(32) NOT NULL,
  count BIGINT NOT NULL,
  PRIMARY KEY (study, minute, name)
);
CREATE TABLE issuer (
  study VARCHAR(127) NOT NULL,
  key INTEGER NOT NULL,
  secret BYTEA NOT NULL,
  revoked INTEGER NOT NULL,
  PRIMARY KEY (study, key)
);
CREATE TABLE meta (
  name VARCHAR(64) NOT NULL,
  value VARCHAR(256),
  PRIMARY KEY (name)
);
CREATE TABLE revoked (
  study VARCHAR(127) NOT NULL,
  token_id BYTEA NOT NULL,
  PRIMARY KEY (study, token_id)
);
CREATE TABLE snapshot (
  study VARCHAR(127) NOT NULL,
  k INTEGER NOT NULL,
  cells BYTEA NOT NULL,
  PRIMARY KEY (study, k)
);
CREATE TABLE state (
  study VARCHAR(127) NOT NULL,
  k INTEGER NOT NULL,
  envelope BYTEA NOT NULL,
  payload BYTEA NOT NULL,
  hash BYTEA NOT NULL,
  prev BYTEA NOT NULL,
  time BIGINT NOT NULL,
  PRIMARY KEY (study, k)
);
CREATE TABLE study (
  slug VARCHAR(127) NOT NULL,
  plan_hash BYTEA NOT NULL,
  plan BYTEA NOT NULL,
  status VARCHAR(16) NOT NULL,
  analyst BYTEA NOT NULL,
  issued BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  moved VARCHAR(1024),
  erased BIGINT,
  PRIMARY KEY (slug)
);
CREATE TABLE report (
  study VARCHAR(127) NOT NULL,
  token_id BYTEA NOT NULL,
  k INTEGER NOT NULL,
  role VARCHAR(16) NOT NULL,
  grp INTEGER NOT NULL,
  body_hash BYTEA NOT NULL,
  vals BYTEA NOT NULL,
  PRIMARY KEY (study, token_id),
  FOREIGN KEY(study, k) REFERENCES state (study, k)
);
CREATE INDEX report_by_place ON report (study, k, role, grp);
INSERT INTO meta VALUES ('format', '2');
