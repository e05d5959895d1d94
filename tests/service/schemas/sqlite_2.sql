-- Tables of version 2, as of commit c5ffd476
CREATE TABLE cell (
  study VARCHAR(127) NOT NULL,
  k INTEGER NOT NULL,
  role VARCHAR(16) NOT NULL,
  grp INTEGER NOT NULL,
  people BIGINT NOT NULL,
  sums BLOB NOT NULL,
  squares BLOB NOT NULL,
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
  "key" INTEGER NOT NULL,
  secret BLOB NOT NULL,
  revoked INTEGER NOT NULL,
  PRIMARY KEY (study, "key")
);
CREATE TABLE meta (
  name VARCHAR(64) NOT NULL,
  value VARCHAR(256),
  PRIMARY KEY (name)
);
CREATE TABLE revoked (
  study VARCHAR(127) NOT NULL,
  token_id BLOB NOT NULL,
  PRIMARY KEY (study, token_id)
);
CREATE TABLE snapshot (
  study VARCHAR(127) NOT NULL,
  k INTEGER NOT NULL,
  cells BLOB NOT NULL,
  PRIMARY KEY (study, k)
);
CREATE TABLE state (
  study VARCHAR(127) NOT NULL,
  k INTEGER NOT NULL,
  envelope BLOB NOT NULL,
  payload BLOB NOT NULL,
  hash BLOB NOT NULL,
  prev BLOB NOT NULL,
  time BIGINT NOT NULL,
  PRIMARY KEY (study, k)
);
CREATE TABLE study (
  slug VARCHAR(127) NOT NULL,
  plan_hash BLOB NOT NULL,
  "plan" BLOB NOT NULL,
  status VARCHAR(16) NOT NULL,
  analyst BLOB NOT NULL,
  issued BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  moved VARCHAR(1024),
  erased BIGINT,
  PRIMARY KEY (slug)
);
CREATE TABLE report (
  study VARCHAR(127) NOT NULL,
  token_id BLOB NOT NULL,
  k INTEGER NOT NULL,
  role VARCHAR(16) NOT NULL,
  grp INTEGER NOT NULL,
  body_hash BLOB NOT NULL,
  vals BLOB NOT NULL,
  PRIMARY KEY (study, token_id),
  FOREIGN KEY(study, k) REFERENCES state (study, k)
)
 WITHOUT ROWID;
CREATE INDEX report_by_place ON report (study, k, role, grp);
INSERT INTO meta VALUES ('format', '2');
